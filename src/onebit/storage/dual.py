"""The storage of a learner with a kernel (`stored_contexts`), and the settings that choose it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from onebit.core.callback import Callback
from onebit.core.jit import plain
from onebit.core.lanes import aligned_zeros, lanes_for
from onebit.core.settings import called, named_by_storage, setting
from onebit.reading.rows import largest
from onebit.storage.base import TABLE, Arrays, Storage, largest_square
from onebit.storage.full import ROUNDING, is_inverse
from onebit.storage.kernels import (
    GIVEN,
    POLYNOMIAL,
    RATIONAL,
    RBF,
    Kernel,
    KernelLike,
    kernel_named,
    value,
)
from onebit.storage.stored_contexts import (
    MOST_EVIDENCE,
    MOST_NOISE,
    NONE,
    TOP,
    Points,
    Posterior,
)

Remove = Literal["oldest", "random", "smallest"]
REMOVE_RULES: tuple[Remove, ...] = get_args(Remove)


class Dual(Storage):
    """At most `budget` contexts. prior: for second-order learners."""

    dtype = "float64"
    planes = 0
    rescores = True
    shares_blank = True
    advice = "Use a smaller budget=, or hash the features into fewer columns with features="

    def __init__(
        self, kernel: KernelLike, budget: int, remove: str, seed: int, prior: float | None
    ) -> None:
        if callable(kernel):
            self._function, self.callback = kernel, Callback(self._ask)
            self.kernel = Kernel(GIVEN, 1.0, 0.0, 1, self.callback.address)
            name, self.unsaved, self.shares_blank = called(kernel), {"kernel": kernel}, False
        else:
            self.kernel, name = kernel_named(kernel)
        self.budget, self.remove = budget, REMOVE_RULES.index(remove)
        self.seed, self.prior = seed, prior
        self.settings = {"kernel": name, "budget": self.budget, "remove": remove}

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Any:
        slots, lanes = self.budget + 1, lanes_for(labels)
        points = Points(
            x=aligned_zeros((features, slots), np.float64),
            coef=aligned_zeros((slots, lanes), np.float64),
            age=np.zeros(slots, np.int64),
            count=np.zeros(3, np.int64),
            slots=np.arange(slots, dtype=np.uint32),
            here=np.zeros(2),
            current=np.full(1, NONE),
            row=np.zeros(features),
            features=np.zeros(1, np.int64),
            total=np.zeros(lanes),
            kernel=self.kernel,
            remove=self.remove,
            seed=self.seed,
            **{name: np.zeros(slots) for name in ("square", "own", "near")},
        )
        held: Any = points
        if self.prior is not None:
            held = Posterior(
                points=points,
                G=aligned_zeros((slots, slots), np.float64),
                order=np.zeros(slots, np.int64),
                start=np.zeros(labels + 1, np.int64),
                prior=self.prior,
                **{name: np.zeros(slots) for name in ("noise", "listed", "shares", "line")},
            )
        for name, old in arrays.items():
            mine = getattr(points if name in Points._fields else held, name)
            mine[tuple(slice(size) for size in old.shape)] = old
        if arrays and self.prior is not None:  # for new labels
            held.start[len(arrays["start"]) :] = arrays["start"][-1]
        self._current = points
        return held

    def _ask(self) -> None:
        """Get the function's values for the row in one call; the row itself comes last."""
        points = self._current
        width, (top, free, _) = points.features[0], points.count
        slots = np.delete(np.arange(top), slice(free, free + 1))
        rows = np.empty((len(slots) + 1, width))
        rows[:-1] = points.x[:width, slots].T
        rows[-1] = points.row[:width]
        rows.flags.writeable = False
        values = self.matrix(rows[-1:], rows)[0]
        if values[-1] < 0:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} is {values[-1]} for a context and itself, "
                "and must be at least 0"
            )
        points.near[slots], points.here[1] = values[:-1], values[-1]

    def room(self, held: Any) -> int:
        return len(_points(held).x)

    def arrays(self, held: Any, features: int, labels: int) -> Arrays:
        points = _points(held)
        top = int(points.count[TOP])
        kept = {
            "x": points.x[:features, :top],
            "square": points.square[:top],
            "own": points.own[:top],
            "coef": points.coef[:top, :labels],
            "age": points.age[:top],
            "count": points.count,
        }
        if self.prior is not None:
            kept["G"] = held.G[:top, :top]
            kept["order"] = held.order[: held.start[-1]]
            kept["start"] = held.start
            kept["noise"] = held.noise[:top]
        return {name: array.copy() for name, array in kept.items()}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        count = arrays.get("count", np.empty(0))
        if count.shape != (3,) or count.dtype != np.int64:
            return False
        top, free, clock = count.tolist()
        shapes = dict.fromkeys(("square", "own", "age"), (top,))
        shapes |= {"x": (features, top), "coef": (top, labels), "count": (3,)}
        held = top if free == top else top - 1
        if self.prior is not None:
            shapes |= {"G": (top, top), "order": (held,), "start": (labels + 1,), "noise": (top,)}
        whole = {"age", "count", "order", "start"}
        good = shapes.keys() == arrays.keys() and all(
            arrays[name].shape == shape
            and arrays[name].dtype == (np.int64 if name in whole else np.float64)
            for name, shape in shapes.items()
        )
        if not good or not 0 <= free <= top <= self.budget + 1 or held > self.budget or clock < 0:
            return False
        if self.prior is None:
            return True
        start = arrays["start"]
        live = np.delete(np.arange(top), slice(free, free + 1))
        return (
            start[0] == 0
            and start[-1] == held
            and bool((np.diff(start) >= 0).all())
            and np.array_equal(np.sort(arrays["order"]), live)
        )

    def is_sound(self, table: np.ndarray, arrays: Arrays) -> bool:
        """Whether contexts are allowed, their lengths and values are correct, and G fits them."""
        x, square, own, age = (arrays[name] for name in ("x", "square", "own", "age"))
        _, free, clock = arrays["count"].tolist()
        unused = slice(free, free + 1)
        if np.abs(arrays["coef"]).max(initial=0) > largest(table.dtype) ** 2:
            return False
        if x[:, unused].any() or arrays["coef"][unused].any() or square[unused].any():
            return False
        if not np.allclose(square, np.square(x).sum(axis=0), rtol=ROUNDING, atol=0):
            return False
        try:
            for values in np.delete(x, unused, axis=1).T:
                self.check(values)
        except ValueError:
            return False
        if self.kernel.kind != GIVEN:
            same = [plain(value)(self.kernel, s, s, s) for s in square.tolist()]
            same[unused] = [0.0] * len(same[unused])
            if not np.allclose(own, same, rtol=ROUNDING, atol=0):
                return False
        if (own < 0).any() or (age < 0).any() or (age >= max(clock, 1)).any():
            return False
        if self.prior is None:
            return True
        noise = arrays["noise"]
        if noise[unused].any() or (np.delete(noise, unused) <= 0).any():
            return False
        parts = [arrays["order"][first:end] for first, end in pairwise(arrays["start"])]
        return (
            self.kernel.kind == GIVEN
            or all(  # a function may be anything
                is_inverse(arrays["G"][slots, : len(slots)], noise[slots], own[slots])
                for slots in parts
            )
        )

    def in_words(self, features: int, labels: int) -> str:
        return f"A budget of {self.budget:,} contexts, {super().in_words(features, labels)}"

    def size(self, features: int, labels: int) -> int:
        slots = self.budget + 1
        numbers = features + lanes_for(labels) + 8 + (slots + 8 if self.prior else 0)
        return 8 * (slots * numbers + labels)

    def weights(self, held: Any, labels: int) -> np.ndarray:
        """The coefficients [label, stored context]."""
        top, free, _ = _points(held).count
        return np.delete(_points(held).coef[:top, :labels], slice(free, free + 1), axis=0).T

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        """Observations count less: their variance becomes r/keep.

        A projection may give a label coefficients a_o of other labels' contexts o. These fade in
        proportion. The coefficients a_t = G z of its own contexts t become
        G'(z + (1 - keep) K_to a_o).
        """
        coef, faded = arrays["coef"], keep * arrays["coef"]
        if self.prior is None:
            return table, {**arrays, "coef": faded}
        G, start = np.zeros_like(arrays["G"]), arrays["start"]
        noise = np.minimum(arrays["noise"] / keep, np.maximum(arrays["noise"], MOST_NOISE))
        for label, (first, end) in enumerate(pairwise(start)):
            own, size = arrays["order"][first:end], end - first
            inverse = np.linalg.inv(arrays["G"][own, :size])
            inverse = (inverse + inverse.T) / 2
            less = np.linalg.inv(inverse + np.diag(noise[own] - arrays["noise"][own]))
            G[own, :size] = (less + less.T) / 2
            foreign = coef[:, label].copy()
            foreign[own] = 0
            wanted = inverse @ coef[own, label]
            far = np.flatnonzero(foreign)
            if size and len(far):
                x = arrays["x"].T
                wanted += (1 - keep) * self.matrix(x[own], x[far]) @ foreign[far]
            faded[own, label] = G[own, :size] @ wanted
        return table, {**arrays, "G": G, "noise": noise, "coef": faded}

    def matrix(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The kernel's values between rows."""
        kind, scale, constant, degree, _ = self.kernel
        if kind == GIVEN:
            return self._asked(X, Y)
        dots = X @ Y.T
        if kind == RBF:
            squares = (X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1) - 2 * dots
            return np.exp(-scale * np.maximum(squares, 0))
        if kind == RATIONAL:
            return 1 / (1 - scale * dots)
        return (scale * dots + constant) ** degree if kind == POLYNOMIAL else dots

    def _asked(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The values of the function, checked."""
        name, wanted = self.settings["kernel"], (len(X), len(Y))
        given = self._function(X, Y)
        try:
            values = np.asarray(given)
        except ValueError:  # rows of different lengths
            values = np.empty(0)
        if values.shape != wanted or values.dtype.kind not in "biuf":
            raise ValueError(
                f"kernel {name!r} must give numbers of shape {wanted}, one for each pair of rows, "
                f"not {type(given).__name__} of {values.dtype} and shape {values.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"kernel {name!r} gives values that are not finite")
        return values.astype(np.float64)

    def check(self, values: np.ndarray, indptr: np.ndarray | None = None) -> None:
        """Refuse contexts for which the kernel has no value, or one too large."""
        kind, scale, constant, degree, _ = self.kernel
        if kind in (RBF, GIVEN):
            return
        square = largest_square(values, indptr)
        if kind == RATIONAL and not scale * square < 1 - 1e-9:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} is for contexts shorter than "
                f"{scale**-0.5:.4g}, not of length {square**0.5:.4g}: scale them"
            )
        most = 2 * math.log(largest(values.dtype)) / degree
        if kind == POLYNOMIAL and not math.log(scale * square + constant) < most:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} has no numbers for a context of length "
                f"{square**0.5:.4g}: scale it"
            )
        own = (scale * square + constant) ** degree if kind == POLYNOMIAL else square
        if self.prior and own > MOST_EVIDENCE * self.prior:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} is {own:.3g} for a context of length "
                f"{square**0.5:.4g}, too much to compute with: at most "
                f"{MOST_EVIDENCE * self.prior:.3g} here; scale contexts to length 1"
            )


def _points(held: Any) -> Points:
    return held if isinstance(held, Points) else held.points


def storage_for_kernel(
    learner: Any, otherwise: Storage = TABLE, *, prior: float | None = None
) -> Storage:
    """The storage for a learner's kernel; otherwise: the storage without a kernel."""
    if learner.kernel is None:
        return otherwise
    return Dual(learner.kernel, learner.budget, learner.remove, learner.seed, prior)


KERNEL = setting(
    default=None,
    check=lambda name, value: value,
    in_use=named_by_storage,
    doc='"linear", "polynomial", "rbf" or "rational", with numbers as in "rbf(gamma=2)": store '
    "contexts instead of weights, and compare them by the kernel; or a function f(X, Y) of two "
    "arrays of rows that returns the matrix of values, as scikit-learn's kernels do",
)
BUDGET = setting(
    default=1000,
    least=1,
    most=10**6,
    in_use=named_by_storage,
    doc="with a kernel: the maximum number of stored contexts",
)
REMOVE = setting(
    default="oldest",
    choices=REMOVE_RULES,
    in_use=named_by_storage,
    doc='with a kernel: which context is removed when the budget is exceeded, the "oldest", a '
    '"random" one or the "smallest"',
)
