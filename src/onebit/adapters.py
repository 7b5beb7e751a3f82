"""Shared by the adapters for scikit-learn and River."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onebit.learner.learner import Labels, Learner
from onebit.registry.recipes import Recipe, recipe_of

LearnerMaker = str | Recipe | Callable[..., Learner]


def make_learner(maker: LearnerMaker, labels: Labels, seed: int) -> Learner:
    """A new learner.

    maker: the argument `learner` of an adapter: a name, perhaps with settings ("OneBit",
    "UCWL:eta=0.9"), the file of a recipe, a recipe, or a class or function that is called as
    maker(labels, seed=seed).
    """
    if isinstance(maker, str):
        maker = recipe_of(maker)
    if isinstance(maker, Recipe):
        if maker.prepare:
            raise ValueError(
                f"the recipe needs rows prepared by {', '.join(maker.prepare)}, which an adapter "
                "does not do; put that step into the pipeline, and pass the recipe without it"
            )
        return maker.make(labels, seed=seed)
    if not callable(maker):
        raise TypeError(
            'learner must be a name such as "OneBit" or "UCWL:eta=0.9", a recipe, or a learner\'s '
            f"class, not {maker!r}"
        )
    learner = maker(labels, seed=seed)
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must make a learner, and {maker!r} made {learner!r}")
    return learner


def label_probabilities(learner: Learner, X: Any) -> np.ndarray:
    """Probabilities [row, label] with the sum 1.

    Of OneBit and the regressions, `Learner.probabilities` divided by their sum. Scores of the
    remaining learners have no unit: their softmax orders the labels as the scores do, and is not
    calibrated.
    """
    if learner.forecasts:
        shares = np.nan_to_num(learner.probabilities(X))
        shares[shares.sum(axis=1) == 0] = 1.0
    else:
        scores = learner.scores(X).astype(np.float64)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
