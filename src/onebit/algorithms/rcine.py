"""RCINE: Agarwal, Manwani, "Learning multiclass classifier under noisy bandit feedback", PAKDD
2021, Algorithm 2.

RCNBF that starts from rates of 0 and estimates them: answers are collected, and after every N_s of
them `noise` estimates the rates from these answers, which are then dropped. (The paper
prints 1[h = r] in the first term of its update; it must be 1[a = r], as in RCNBF.)

Compiled code collects the answers. When there are enough for an estimate, or when there is no room
for another answer, loops over rounds pause: Python estimates the rates or makes room.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from onebit.algorithms.banditron import step
from onebit.algorithms.exploration import exploration
from onebit.algorithms.flips import unflipped
from onebit.core.choosing import epsilon_greedy
from onebit.core.exploring import replaced
from onebit.core.extras import how_to_install
from onebit.core.jit import implement, inline, plain
from onebit.core.lanes import at
from onebit.core.rounds import must_pause
from onebit.core.settings import CALLABLE, called, choice_of, named_by_storage, real, setting
from onebit.core.sums import linear_score
from onebit.learner.learner import Learner, precision
from onebit.reading.rows import Rows
from onebit.storage.base import Arrays, Storage

if TYPE_CHECKING:  # loaded when first used
    from onebit.feedback.noise import Log, Rates

Estimate = Literal["levels", "nrest"] | Callable[["Log"], "Rates | tuple[float, float]"]

ESTIMATES = ("levels", "nrest")
NEAR_CHANCE = 1e-3  # rates whose sum is this close to 1 are not used
_BUFFER = 2**12  # answers for which there is room at first
_LONGER = 16  # values per answer for which there is room at first
_ANSWERS, _VALUES, _LEFT = range(3)  # in count: collected so far; answers until an estimate


class Sample(NamedTuple):
    """The answers since the last estimate, one after the other, and the rates."""

    indices: Any
    values: Any
    lengths: Any
    said: Any
    right: Any
    propensities: Any
    count: Any
    rates: Any  # rho0, rho1
    features: Any  # of the table: no context is longer
    labels: Any


@inline
def is_full(sample):
    """Whether there is no room for another answer."""
    values_left = len(sample.values) - sample.count[_VALUES]
    return sample.count[_ANSWERS] == len(sample.lengths) or values_left < sample.features


@implement(must_pause, Sample)
def has_to_estimate_or_grow(state):
    return state.held.count[_LEFT] == 0 or is_full(state.held)


@inline
def collect(sample, row, choice, right):
    if is_full(sample):  # Python was interrupted before it made room
        return
    count = sample.count
    n = count[_VALUES]
    for i in range(row.start, row.stop):
        sample.indices[n] = at(row.indices, i)
        sample.values[n] = at(row.values, i)
        n += 1
    count[_VALUES] = n
    n = count[_ANSWERS]
    sample.lengths[n] = row.stop - row.start
    sample.said[n] = choice.label
    sample.right[n] = right
    sample.propensities[n] = choice.propensity
    count[_ANSWERS] = n + 1
    count[_LEFT] -= 1


_COLUMNS = {
    "indices": np.uint32,
    "values": None,  # those of the learner
    "lengths": np.int64,
    "said": np.int64,
    "right": np.bool_,
    "propensities": np.float64,
}
_LONG = ("indices", "values")  # a number for each feature of a context


class EstimatedRates(NamedTuple):
    """An estimate: the rates, or None and the reason why there are none."""

    rates: tuple[float, float] | None
    doubt: str


class Collected(Storage):
    """Keeps a `Sample`, and finds the rates: at once, or in a thread."""

    shares_blank = True

    def __init__(
        self, N_s: int, estimate: Estimate, dtype: np.dtype, background: bool = False
    ) -> None:
        """background: estimate in a thread while somebody waits."""
        self.N_s, self._dtype, self.works_beside = N_s, dtype, background
        name = estimate
        if callable(estimate):
            name, self.unsaved = called(estimate), {"estimate": estimate}
            self._estimate: Any = estimate
        else:
            if str(estimate).startswith(CALLABLE):
                raise ValueError(
                    f"it was saved with a function, {estimate!r}: pass it again, "
                    "load(path, estimate=...)"
                )
            choice_of("estimate", estimate, ESTIMATES)
            if estimate == "nrest" and importlib.util.find_spec("sklearn") is None:
                raise ImportError(
                    'estimate="nrest" needs scikit-learn, which is not installed: '
                    + how_to_install("lab", "scikit-learn")
                )
            self._estimate = partial(_estimate_rates, estimate)
        self.settings = {"estimate": name}
        self.start_afresh()

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Sample:
        answers = len(arrays["said"]) if arrays else 0
        values = len(arrays["values"]) if arrays else 0
        room = max(2 * answers, min(_BUFFER, self.N_s))
        long_room = max(2 * values, room * _LONGER) + features
        columns: Any = {
            name: np.zeros(long_room if name in _LONG else room, dtype or self._dtype)
            for name, dtype in _COLUMNS.items()
        }
        for name in _COLUMNS if arrays else ():
            columns[name][: len(arrays[name])] = arrays[name]
        return Sample(
            **columns,
            count=np.array([answers, values, self.N_s - answers]),
            rates=arrays["rates"].copy() if arrays else np.zeros(2),
            features=features,
            labels=labels,
        )

    def pause(self, held: Sample, is_live: bool = False) -> Sample | None:
        """Estimate the rates if it is time; else make room if there is none."""
        if held.count[_LEFT] == 0:
            log = _log(held)
            held.count[:] = 0, 0, self.N_s
            if not (is_live and self.works_beside):
                self._use(held, self._estimate_from(log))
            elif self.thread is None or not self.thread.is_alive():
                self.catch_up(held)
                self.thread = threading.Thread(
                    target=self._find, args=(log, self._found), daemon=True
                )
                self.thread.start()
            return held
        if plain(is_full)(held):
            return self.lay_out(self.arrays(held, 0, 0), held.features, held.labels)
        return None

    def _find(self, log: Log, found: list[EstimatedRates]) -> None:
        """Runs in a thread, without the learner's lock: it changes only the list."""
        try:
            found.append(self._estimate_from(log))
        except Exception as error:  # from the user's function; nothing waits for it here
            found.append(EstimatedRates(None, f"{type(error).__name__}: {error}"))

    def start_afresh(self) -> None:
        """Forget the last estimate; a thread that still runs fills a list that nobody reads."""
        self.thread: threading.Thread | None = None
        self._found: list[EstimatedRates] = []  # filled by the thread
        self.doubt = "there is no estimate yet"

    def _estimate_from(self, log: Log) -> EstimatedRates:
        from onebit.feedback.noise import NotIdentified, Rates

        try:
            found = self._estimate(log)
        except NotIdentified as doubt:
            return EstimatedRates(None, str(doubt))
        rates = (found.rho0, found.rho1) if isinstance(found, Rates) else found
        if not isinstance(rates, tuple | list | np.ndarray) or len(rates) != 2:
            raise TypeError(f"estimate must give two rates, rho0 and rho1, not {found!r}")
        rho0, rho1 = rates
        rho0, rho1 = (real("an estimated rate", rho, least=0, most=1) for rho in (rho0, rho1))
        if rho0 + rho1 >= 1 - NEAR_CHANCE:
            useless = f"rates of {rho0:.3f} and {rho1:.3f}: feedback carries no information"
            return EstimatedRates(None, useless)
        return EstimatedRates((rho0, rho1), "")

    def _use(self, held: Sample, found: EstimatedRates) -> None:
        self.doubt = found.doubt
        if found.rates is not None:
            held.rates[:] = found.rates

    def catch_up(self, held: Sample) -> None:
        """Use the estimate of the thread, if it is ready."""
        if self._found:
            self._use(held, self._found.pop())

    def rates(self, held: Sample) -> tuple[float, float] | None:
        self.catch_up(held)
        rho0, rho1 = held.rates.tolist()
        return None if self.doubt else (rho0, rho1)

    def room(self, held: Sample) -> int:
        return held.features

    def arrays(self, held: Sample, features: int, labels: int) -> Arrays:
        return {"rates": held.rates.copy(), **_columns(held)}

    def swing(self, features: int) -> int:
        return self.N_s * (features * (4 + self._dtype.itemsize) + 25)

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        if set(arrays) != {"rates", *_COLUMNS}:
            return False
        rates, lengths, said = arrays["rates"], arrays["lengths"], arrays["said"]
        types = all(arrays[n].dtype == (dtype or self._dtype) for n, dtype in _COLUMNS.items())
        flat = all(array.ndim == 1 for array in arrays.values())
        if not (types and flat and rates.shape == (2,) and rates.dtype == np.float64):
            return False
        return bool(
            len({len(arrays[name]) for name in ("lengths", "said", "right", "propensities")}) == 1
            and len(said) < self.N_s
            and len(arrays["indices"]) == len(arrays["values"]) == lengths.sum()
            and ((lengths > 0) & (lengths <= features)).all()
            and ((arrays["propensities"] > 0) & (arrays["propensities"] <= 1)).all()
            and (arrays["indices"] < features).all()
            and ((said >= 0) & (said < labels)).all()
            and (rates >= 0).all()
            and rates.sum() < 1
        )

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        return keep * table.astype(np.float64), arrays  # the channel of the feedback stays the same


def _estimate_rates(method: str, log: Any) -> Any:
    from onebit.feedback.noise import estimate_rates

    return estimate_rates(log, method=method)  # type: ignore[arg-type]


def _columns(sample: Sample) -> Arrays:
    """The columns without unused room."""
    answers, values, _ = sample.count
    return {n: getattr(sample, n)[: values if n in _LONG else answers].copy() for n in _COLUMNS}


def _log(sample: Sample) -> Log:
    from onebit.feedback.noise import Log

    columns = _columns(sample)
    indptr = np.concatenate([[0], np.cumsum(columns["lengths"])])
    width = int(columns["indices"].max(initial=0)) + 1
    rows = Rows(columns["indices"], columns["values"], indptr, width)
    return Log(rows, columns["said"], columns["right"], columns["propensities"], sample.labels)


class RCINE(Learner):
    """Banditron for flipped feedback with estimated rates (Agarwal, Manwani 2021).

    `rates` are the present estimates of rho0 and rho1; `doubt` says why the last estimate was not
    used. If an estimate is not possible, the rates stay as they are. `simulate` always waits for an
    estimate, so that a run can be repeated. The log of up to N_s contexts is saved with the
    learner.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.RCINE(iris.labels, gamma=0.3, N_s=1000)
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10, channel=ob.Flip(0.1, 0.3))
    >>> [round(rate, 1) for rate in learner.rates]
    [0.1, 0.4]
    >>> learner.doubt
    ''
    """

    planes = 1
    importance_weighted = True
    rescores = False
    may_pause = True
    variant_of = "Banditron"
    gamma: float = exploration(0.05)
    N_s: int = setting(
        default=50_000,
        least=1,
        most=10**8,
        doc="the number of answers from which the rates are estimated; until then they are 0",
    )
    estimate: Estimate = setting(
        default="levels",
        check=lambda name, value: value,
        in_use=named_by_storage,
        doc='"levels"; "nrest" as in the paper, which needs scikit-learn and half a minute each '
        "time (see `noise.estimate_rates`); or a function from a `noise.Log` to the two rates",
    )
    background: bool = setting(
        default=False,
        doc="estimate in a thread while `learn` continues; the rates are used from the first "
        "answer after it is done; answers beyond N_s before that are dropped",
    )

    class Params(NamedTuple):
        gamma: float
        certain: bool  # the true label was named: nothing to correct, nothing to estimate from

    score = linear_score
    say = epsilon_greedy
    lockstep = None

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        if params.certain:
            step(state, row, choice, 1.0 if right else 0.0)
        else:
            rates = state.held.rates
            step(state, row, choice, unflipped(rates[0], rates[1], right))
            collect(state.held, row, choice, right)
        return True

    def _make_params(self) -> Any:
        return self.Params(self.gamma, False)

    def _make_storage(self) -> Storage:
        dtype = precision(self.dtype or Collected.dtype)
        self._collected = Collected(self.N_s, self.estimate, dtype, self.background)
        return self._collected

    @property
    def rates(self) -> tuple[float, float]:
        """The present estimates of rho0 and rho1."""
        with self.lock:
            held = self.table.state.held
            self._collected.catch_up(held)
            rho0, rho1 = held.rates.tolist()
            return rho0, rho1

    @property
    def doubt(self) -> str:
        """Why the last estimate was not used, or that there is none yet; empty if it was used."""
        with self.lock:
            self._collected.catch_up(self.table.state.held)
            return self._collected.doubt

    def _params_for_truth(self) -> Any:
        return replaced(self.params, certain=True)
