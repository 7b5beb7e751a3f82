"""Rates of flipped feedback, estimated from a log of said labels and heard feedback.

    log = ob.noise.Log.of(pairs)             # pairs (decision, heard right?); or Log(X, said, ...)
    ob.noise.estimate_rates(log)             # Rates(rho0=0.199 [0.195, 0.204], rho1=0.402 ...)

rho0 is the probability that wrong is heard as right, rho1 that right is heard as wrong. The log
has no true labels. The rates follow from the probability of hearing right, which is
rho0 + (1 - rho0 - rho1) P(label is right | context): rho0 where the label is surely wrong, and
1 - rho1 where it is surely right. If a log lacks answers of either kind, `NotIdentified` is raised.

Method "levels" (ours) scores contexts by a linear model and fits this curve. Method "nrest" is
Algorithm 3 of Agarwal and Manwani (2021): it trains a network and reads the rates from its
predictions at single examples.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from onebit.core.settings import choice_of, real, whole
from onebit.feedback.noise.levels import rates_by_levels
from onebit.feedback.noise.log import Log, NotIdentified, Rates
from onebit.feedback.noise.nrest import rates_by_network

__all__ = ["Log", "NotIdentified", "Rates", "estimate_rates"]

_FEWEST = 200  # answers; with fewer, a level has a few tens of them at best


def estimate_rates(
    log: Log,
    *,
    method: Literal["levels", "nrest"] = "levels",
    confidence: float = 0.9,
    resamples: int = 200,
    seed: int = 0,
    anchor: Literal["feedback", "class"] = "feedback",
    percentile: float = 89.0,
    combine: Literal["mean", "median"] = "mean",
    coding: Literal["one-hot", "integer"] = "one-hot",
    classifier: Any = None,
) -> Rates:
    """The rates of flips in this log. The same log and seed give the same rates.

    Raises `NotIdentified` if the log does not determine the rates.

    method="levels": a ridge regression per label predicts the bit, in one half of the log for the
    other half. The curve above is fitted to these predictions by maximum likelihood. The interval
    is a bootstrap of this last step: bits are redrawn within groups of similar score. It does not
    cover errors of the regressions, or a curve of another shape.

    method="nrest": `classifier`, any scikit-learn classifier with predict_proba, learns q(x, j),
    the probability of hearing right after label j, from a random 90 % of the log. `coding` is how
    the label is appended to x. With anchor="class" (as in the paper) the example of each label j is
    the row at `percentile` of q(., j) over the contexts; 1 - rho1 is q(x_l, l) and rho0 is q(x_k,
    l), combined over the labels. With anchor="feedback" (as in the authors' code) there are two
    examples among the logged pairs, at `percentile` of the probability of each bit. The interval is
    a bootstrap of the examples only, for a given network, and is far too short.

    The default classifier is scikit-learn's MLPClassifier with the paper's sizes for MNIST: 128 and
    128 units, ReLU, batches of 128, 70 epochs, with the weights of least loss on a held-out 10 %.
    scikit-learn has neither AdaGrad nor dropout, so Adam is used, without dropout. Contexts too
    wide for a dense array get a logistic regression on 2**20 hashed columns: every feature, and
    every feature combined with the said label.
    """
    if not isinstance(log, Log):
        raise TypeError(f"log must be a Log, not {type(log).__name__}: see ob.noise.Log")
    choice_of("method", method, ("levels", "nrest"))
    choice_of("anchor", anchor, ("class", "feedback"))
    choice_of("combine", combine, ("mean", "median"))
    choice_of("coding", coding, ("one-hot", "integer"))
    percentile = real("percentile", percentile, above=0, most=100)
    confidence = real("confidence", confidence, above=0, below=1)
    resamples = whole("resamples", resamples, least=1, most=10**5)
    rng = np.random.default_rng(whole("seed", seed, least=0, most=2**63 - 1))
    if classifier is not None and not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"classifier must have predict_proba, as most of scikit-learn's; {classifier!r} has not"
        )
    _refuse_poor(log)
    if method == "levels":
        return rates_by_levels(log, confidence, resamples, rng)
    return rates_by_network(
        log, confidence, resamples, rng, anchor, percentile, combine, coding, classifier
    )


def _refuse_poor(log: Log) -> None:
    """Refuse logs that no method can use."""
    if len(log) < _FEWEST:
        raise NotIdentified(f"{len(log)} answers are too few to estimate rates: wait for {_FEWEST}")
    if log.right.all() or not log.right.any():
        heard = "right" if log.right[0] else "wrong"
        raise NotIdentified(
            f"all {len(log)} answers are {heard}: one of the two rates cannot be seen in "
            "them; some said labels must be wrong, and some right"
        )
    if (log.said == log.said[0]).all():
        raise NotIdentified(
            f"only the label {log.said[0]} was ever said, so no context is seen with another one; "
            "let the learner explore"
        )
