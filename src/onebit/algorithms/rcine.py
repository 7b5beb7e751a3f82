"""RCINE: Agarwal, Manwani, "Learning multiclass classifier under noisy bandit feedback", PAKDD
2021, Algorithm 2.

RCNBF that starts from rates of 0 and estimates them as it goes: what it is told is collected, and
after every N_s answers the rates become what `noise` makes of these, which are then dropped. (The
paper prints 1[h = r] in the first term of its update; it must be 1[a = r], as in RCNBF.)

Compiled code collects answers in a buffer. When that is full it calls back into Python, where they
are kept, and where the rates are estimated once there are enough.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from onebit.algorithms.banditron import step
from onebit.algorithms.flips import unflipped
from onebit.contexts import Rows
from onebit.core.callback import Callback, call_back
from onebit.core.choosing import epsilon_greedy
from onebit.core.jit import inline
from onebit.core.lanes import at
from onebit.core.sums import linear_score
from onebit.decision import Decision
from onebit.learner import Learner, precision
from onebit.settings import CALLABLE, Range, called, choice_of, real, setting, told_by_storage
from onebit.storage.base import Storage

if TYPE_CHECKING:  # it is loaded when first used: few learners estimate
    from onebit.feedback.noise import Log, Rates

Estimate = Literal["levels", "nrest"] | Callable[["Log"], "Rates | tuple[float, float]"]

ESTIMATES = ("levels", "nrest")
NEAR_CHANCE = 1e-3  # rates whose sum is as near to 1 as that are not taken over
_BUFFER = 2**12  # answers
_LONGER = 16  # times as many values
_ANSWERS, _VALUES, _LEFT = range(3)  # in count: held in the buffer; answers until an estimate


class Sample(NamedTuple):
    """Answers not yet taken over by Python, one after the other; a context may be cut in two."""

    indices: Any
    values: Any
    lengths: Any
    said: Any
    right: Any
    propensities: Any
    count: Any
    rates: Any  # rho0, rho1
    address: Any  # of what takes them over
    room: Any


@inline
def collect(sample, row, choice, right):
    count = sample.count
    for i in range(row.start, row.stop):
        if count[_VALUES] == len(sample.values):
            hand_over(sample)
        n = count[_VALUES]
        sample.indices[n] = at(row.indices, i)
        sample.values[n] = at(row.values, i)
        count[_VALUES] = n + 1
    n = count[_ANSWERS]
    sample.lengths[n] = row.stop - row.start
    sample.said[n] = choice.label
    sample.right[n] = right
    sample.propensities[n] = choice.propensity
    count[_ANSWERS] = n + 1
    count[_LEFT] -= 1
    if count[_LEFT] == 0 or count[_ANSWERS] == len(sample.lengths):
        hand_over(sample)


@inline
def hand_over(sample):
    call_back(sample.address)
    # It has done so itself, unless it failed: then nobody may write beyond the end.
    sample.count[_ANSWERS] = 0
    sample.count[_VALUES] = 0


_COLUMNS = {
    "indices": np.uint32,
    "values": None,  # those of the learner
    "lengths": np.int64,
    "said": np.int64,
    "right": np.bool_,
    "propensities": np.float64,
}


_LONG = ("indices", "values")  # a number for each feature of a context


class Collected(Storage):
    """The answers since the last estimate, and the rates."""

    fails_at_the_end = True

    def __init__(self, N_s: int, estimate: Estimate, dtype: np.dtype) -> None:
        self.N_s, self._dtype = N_s, dtype
        name = estimate
        if callable(estimate):
            name, self.unsaved = called(estimate), {"estimate": estimate}
            self._estimate: Any = estimate
        else:
            if str(estimate).startswith(CALLABLE):
                raise ValueError(
                    f"it was saved with a function, {estimate!r}: give it again, "
                    "load(path, estimate=...)"
                )
            choice_of("estimate", estimate, ESTIMATES)
            if estimate == "nrest" and importlib.util.find_spec("sklearn") is None:
                raise ImportError(
                    'estimate="nrest" wants scikit-learn, which is not installed: '
                    "pip install onebit[lab]"
                )
            self._estimate = partial(_estimate_rates, estimate)
        self.settings = {"estimate": name}
        self._callback = Callback(self._take_over)
        self._kept: dict[str, list[np.ndarray]] = {}
        self._sample: Any = None
        self._labels = 0
        self.in_background = False
        self.found: tuple[float, float] | None = None  # by a thread, to be used from now on
        self.thread: threading.Thread | None = None
        self.holds = False  # a failure waits until the answer is taken down
        self._failure: BaseException | None = None
        self.doubt = "there was no estimate yet"

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Sample:
        self._labels = labels
        self._kept = {name: [arrays[name]] if arrays else [] for name in _COLUMNS}
        heard = len(arrays["said"]) if arrays else 0
        size = min(_BUFFER, self.N_s)
        columns: Any = {
            name: np.zeros(size * (_LONGER if name in _LONG else 1), dtype or self._dtype)
            for name, dtype in _COLUMNS.items()
        }
        self._sample = Sample(
            **columns,
            count=np.array([0, 0, self.N_s - heard]),
            rates=arrays["rates"].copy() if arrays else np.zeros(2),
            address=self._callback.address,
            room=features,
        )
        return self._sample

    def _take_over(self) -> None:
        """Empty the buffer; estimate the rates if it is time."""
        sample = self._sample
        for name, held in _held(sample).items():
            self._kept[name].append(held.copy())
        sample.count[:2] = 0
        if sample.count[_LEFT] == 0:
            sample.count[_LEFT] = self.N_s
            log = self._log()
            self._kept = {name: [] for name in _COLUMNS}
            if not self.in_background:
                try:
                    self._use(self._rates_of(log))
                except BaseException as failure:  # compiled code goes on; Ctrl-C as well
                    self._failure = self._failure or failure
            elif self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self._find, args=(log,), daemon=True)
                self.thread.start()

    def _log(self) -> Log:
        from onebit.feedback.noise import Log

        columns = {name: _joined(self._kept[name]) for name in _COLUMNS}
        indptr = np.concatenate([[0], np.cumsum(columns["lengths"])])
        width = int(columns["indices"].max(initial=0)) + 1
        rows = Rows(columns["indices"], columns["values"], indptr, width)
        return Log(rows, columns["said"], columns["right"], columns["propensities"], self._labels)

    def _find(self, log: Log) -> None:
        try:
            found = self._rates_of(log)
        except Exception as error:  # of a function that a user gave: nobody waits for it here
            self.doubt = f"{type(error).__name__}: {error}"
            return
        if self.thread is threading.current_thread():  # nobody wanted a fresh start meanwhile
            self.found = found

    def start_afresh(self) -> None:
        """What a thread finds out is of no use any more."""
        self.thread = self.found = None

    def _rates_of(self, log: Log) -> tuple[float, float] | None:
        """What the answers say of the rates; None if nothing, or nothing that could be used."""
        from onebit.feedback.noise import NotIdentified, Rates

        try:
            found = self._estimate(log)
        except NotIdentified as doubt:
            self.doubt = str(doubt)
            return None
        rates = (found.rho0, found.rho1) if isinstance(found, Rates) else found
        if not isinstance(rates, tuple | list | np.ndarray) or len(rates) != 2:
            raise TypeError(f"estimate must give two rates, rho0 and rho1, not {found!r}")
        rho0, rho1 = rates
        rho0, rho1 = (real("an estimated rate", rho, least=0, most=1) for rho in (rho0, rho1))
        if rho0 + rho1 >= 1 - NEAR_CHANCE:
            self.doubt = f"rates of {rho0:.3f} and {rho1:.3f}: what is heard says nothing"
            return None
        self.doubt = ""
        return rho0, rho1

    def _use(self, rates: tuple[float, float] | None) -> None:
        if rates is not None:
            self._sample.rates[:] = rates

    def catch_up(self) -> None:
        """Use what a thread has found."""
        if self.found is not None:
            self._use(self.found)
            self.found = None

    @property
    def rates(self) -> tuple[float, float]:
        rho0, rho1 = self._sample.rates.tolist()
        return rho0, rho1

    def room(self, held: Sample) -> int:
        return held.room

    def arrays(self, held: Sample, features: int, labels: int) -> dict[str, np.ndarray]:
        kept = {name: _joined([*self._kept[name], part]) for name, part in _held(held).items()}
        return {"rates": held.rates.copy(), **kept}

    def swing(self, features: int) -> int:
        return self.N_s * (features * (4 + self._dtype.itemsize) + 25)

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
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

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return keep * table, arrays  # the way that feedback takes is the same as before

    def guarded(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        compiled = self._callback.guarded(compiled)

        def call(*args: Any) -> Any:
            result = compiled(*args)
            if not self.holds:
                self.fail()
            return result

        return call

    def fail(self) -> None:
        """Raise what went wrong in an estimate, once all else is in order."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


def _estimate_rates(method: str, log: Any) -> Any:
    from onebit.feedback.noise import estimate_rates

    return estimate_rates(log, method=method)  # type: ignore[arg-type]


def _held(sample: Sample) -> dict[str, np.ndarray]:
    """What is in the buffer."""
    answers, values, _ = sample.count
    return {n: getattr(sample, n)[: values if n in _LONG else answers] for n in _COLUMNS}


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0].copy() if len(parts) == 1 else np.concatenate(parts)


class RCINE(Learner):
    """Banditron for flipped feedback whose rates it estimates as it goes (Agarwal, Manwani 2021).

        learner = RCINE(10, gamma=0.1)
        learner.rates                   # rho0, rho1: what it takes them to be
        learner.doubt                   # why the last estimate was not used; "" if it was

    An estimate that cannot be made leaves the rates as they are. `simulate` always waits for an
    estimate, so that a run can be repeated. The log is kept with the learner, and saved: N_s
    contexts.
    """

    planes = 1
    importance_weighted = True
    rescores = False
    variant_of = "Banditron"
    _storage: Collected
    gamma: float = setting(
        0.05, above=0, most=1, search=Range(0.001, 0.5), doc="how often any label is tried"
    )
    N_s: int = setting(
        50_000,
        least=1,
        most=10**8,
        doc="after how many answers the rates are estimated from these; until then they are 0",
    )
    estimate: Estimate = setting(
        "levels",
        check=lambda name, value: value,
        in_use=told_by_storage,
        doc='"levels"; "nrest" as in the paper, which wants scikit-learn and half a minute each '
        "time (see `noise.estimate_rates`); or a function from a `noise.Log` to the two rates",
    )
    background: bool = setting(
        False,
        doc="estimate in a thread while `learn` goes on; the rates are used from the first answer "
        "after it is done; answers that fill another log before that are let go",
    )

    class Params(NamedTuple):
        gamma: float
        certain: bool  # the truth is told: nothing to correct, nothing to estimate from

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
        return Collected(self.N_s, self.estimate, dtype)

    @property
    def rates(self) -> tuple[float, float]:
        """rho0 and rho1 as they are taken to be now."""
        with self._lock:
            self._storage.catch_up()
            return self._storage.rates

    @property
    def doubt(self) -> str:
        """Why the last estimate was not used, or that there was none yet; empty if it was."""
        return self._storage.doubt

    def _found_rates(self) -> tuple[float, float] | None:
        return None if self.doubt else self.rates

    def learn(self, decision: Decision, **feedback: Any) -> None:
        """Feedback on a decision: see `Learner.learn`. An error of `estimate` comes at its end."""
        with self._lock:
            form = self._storage
            form.catch_up()
            form.in_background, form.holds = self.background, True
            try:
                super().learn(decision, **feedback)
            finally:
                form.in_background = form.holds = False
            form.fail()

    def forget(self, share: float = 1.0) -> None:
        """Weaken what was learned: see `Learner.forget`. A fresh start forgets the rates too."""
        with self._lock:
            super().forget(share)
            if share == 1:
                self._storage.start_afresh()

    def _dump(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        with self._lock:
            self._storage.catch_up()
            return super()._dump()

    def _params_for_truth(self) -> Any:
        return self._params._replace(certain=True)
