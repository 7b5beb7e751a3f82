"""UCWL: Ngo, Luciw, Vien, Schmidhuber, "Upper confidence weighted learning for efficient
exploration in multiclass prediction with binary feedback", IJCAI 2013.

One soft confidence-weighted classifier a label. The label with the largest mu_i.x + k sqrt(v_i) is
said; only its classifier learns, and only if the signed margin is below phi sqrt(v).

The table holds mu (plane 0) and the diagonal of Sigma (plane 1), or mu alone beside the full Sigma.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple, Unpack

import numpy as np

from onebit.algorithms.confidence import cw_step, shrinkage
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import Choice
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, real, searched
from onebit.storage.dual import KernelLike, Remove, dual
from onebit.storage.full import FormName, form_named


class UCWLParams(NamedTuple):
    phi: float
    C: float
    k: float


implement(_kernel.score, UCWLParams)(_kernel.gaussian_score)
implement(_kernel.could_say, UCWLParams)(_kernel.could_say_for_certain)
implement(_kernel.settle, UCWLParams)(_kernel.move.settled)


@implement(_kernel.decide, UCWLParams)
def decide(params, state, work, turn):
    label = _kernel.best_upper(state, work, params.k)
    return Choice(label, _kernel.best(state, work), 1.0, 0.0, 0.0)


@implement(_kernel.probabilities, UCWLParams)
def probabilities(params, state, work, turn):
    _kernel.certain_law(work, _kernel.best_upper(state, work, params.k))


@implement(_kernel.learn, UCWLParams)
def learn(params, state, work, row, turn, choice, right):
    sign = 1.0 if right else -1.0
    m, v = sign * np.float64(work.scores[choice.label]), np.float64(work.widths[choice.label])
    if v <= 0.0 or m >= params.phi * math.sqrt(v):
        return False
    step = min(params.C, cw_step(m, v, params.phi))
    _kernel.move(state, row, choice.label, sign * step, shrinkage(step, v, params.phi))
    return step > 0.0


class UCWL(Learner):
    """Upper confidence bounds on confidence-weighted classifiers (Ngo et al. 2013).

    form: "diagonal", as in the paper's experiments, or "full": one d x d matrix a label. eta:
    confidence, in (0.5, 1). C: the largest step; make it small when feedback is noisy. k: width of
    the bound in standard deviations, at least 0.

    kernel: "linear", "polynomial", "rbf", "rational", with numbers as in "rbf(gamma=2)": keep
    contexts instead of weights, at most `budget` of them, and compare by the kernel. A function
    f(X, Y) of two arrays of rows will do too: it gives the matrix of values, as scikit-learn's do.
    remove: which goes when there is one too many, the "oldest", a "random" one or the "smallest".
    The covariance is full then.
    """

    params = (UCWLParams,)
    planes = 2
    ranges = searched(
        eta=Range(0.55, 0.95, even=True),
        C=Range(0.01, 10),
        k=Range(0.01, 30, or_zero=True),
    )

    def __init__(
        self,
        labels: Labels,
        *,
        form: FormName = "diagonal",
        eta: float = 0.75,
        C: float = 1.0,
        k: float = 1.0,
        kernel: KernelLike | None = None,
        budget: int = 1000,
        remove: Remove = "oldest",
        **common: Unpack[Common],
    ) -> None:
        eta = real("eta", eta, above=0.5, below=1)
        params = UCWLParams(NormalDist().inv_cdf(eta), real("C", C, above=0), real("k", k, least=0))
        settings = {"eta": eta, "C": params.C, "k": params.k}
        state = dual(kernel, budget, remove, form_named(form, 1.0), prior=1.0, **common)
        super().__init__(labels, params, settings, state=state, **common)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0
