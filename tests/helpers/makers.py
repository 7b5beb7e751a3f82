"""Makers of every public learner, with some of their settings, for tests of the contract."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import onebit as ob
from onebit import testing
from onebit.core.jit import COMPILED
from onebit.learner.learner import Learner


def rates_of(log):
    """Stands for an estimate, which would want more answers than laws have."""
    return float(log.right.mean()) / 4, float(log.propensities.mean()) / 2


SETTINGS: dict[str, list[dict]] = {
    "AROW": [{"r": 0.1}, {"update": "precision"}, {"inputs": "dense"}],
    "BPA": [{"gamma": 0.0}, {"variant": "PA-I", "C": 0.1}, {"variant": "PA-II", "gamma": 0.3}],
    "BanditPerceptron": [
        {"use_correct": True},
        {"kernel": "polynomial(degree=2)", "budget": 15, "remove": "random", "use_correct": True},
    ],
    "Banditron": [
        {"kernel": "rbf(gamma=0.3)", "budget": 15},
        {"inputs": "sparse"},
        {"inputs": "dense"},
    ],
    "Confidit": [
        {"width": "log", "eta": 1.0},
        {"alpha": 0.25, "reg": 0.1},
        {"update": "coordinate"},
        {"update": "coordinate", "alpha": 0.25, "reg": 0.1, "eta": 10.0},
        {"project": True, "alpha": 0.5},
        {"form": "full", "reg": 0.1},
        {"form": "full", "project": True, "width": "theory", "alpha": 0.25},
        {"kernel": "rbf(gamma=0.1)", "budget": 15, "remove": "smallest", "reg": 0.1},
        {"kernel": "linear", "budget": 15, "project": True, "width": "theory", "alpha": 0.25},
    ],
    "EGBandit": [{"signed": True}],
    "EpsilonGreedy": [{"epsilon": 0.0}],
    "Halving": [{"project": 6}],
    "Newtron": [
        {"D": 10.0, "beta": 0.1},
        {"kernel": "rbf(gamma=0.1)", "budget": 15, "remove": "smallest", "D": 10.0, "beta": 0.1},
    ],
    "OneBit": [{"inputs": "dense"}],
    "PNewtron": [
        {"D": 10.0, "gamma": 0.1, "rho0": 0.2, "rho1": 0.1},
        {"inputs": "sparse"},
        {"inputs": "dense"},
    ],
    "PNormBandit": [{"p": 2.0}, {"p": 12.0}],
    "PassiveAggressive": [{"variant": "PA"}, {"variant": "PA-II", "C": 0.5}],
    "RCINE": [{"N_s": 23, "estimate": rates_of}],
    "RCNBF": [{"rho0": 0.2, "rho1": 0.1, "gamma": 0.3}],
    "SCW": [{"variant": "II", "C": 0.5}],
    "SOBA": [{"form": "full"}, {"rho0": 0.2, "rho1": 0.1, "gamma": 0.3}],
    "SquareCB": [{"loss": "squared"}],
    "UCWL": [
        {"kernel": "rbf(gamma=0.1)", "budget": 15, "remove": "random"},
        {"inputs": "unit"},
        {"inputs": "sparse"},
        {"inputs": "dense"},
        {"inputs": "dense", "form": "full"},
        {"inputs": "dense", "kernel": "rbf(gamma=0.1)", "budget": 15},
    ],
}


def halving(labels, *, features=None, project=None, **common):
    """Hypotheses at random, for as many labels and features as are asked for."""
    width = project or features or testing.FEATURES
    hypotheses = np.random.default_rng(8).normal(size=(12, labels, width))
    fixed = {} if features is None else {"features": features}
    return ob.Halving(labels, hypotheses=hypotheses, project=project, **fixed, **common)


def told(labels, *, kind, inputs, features=None, **common):
    """A learner that is told how to read contexts: it would read arrays and pairs differently."""
    features = (features or testing.FEATURES) if inputs == "dense" else features
    return kind(labels, inputs=inputs, features=features, **common)


def maker_of(learner, settings):
    if learner is ob.Halving:
        return partial(halving, **settings)
    if learner is ob.OneBit:
        settings = {"inputs": "sparse", **settings}
    if "inputs" in settings:
        return partial(told, kind=learner, **settings)
    return partial(learner, **settings)


# Compiled in every run: one for each form of storage and each kind of update.
REPRESENTATIVES = {
    "Banditron-0": "a table of weights; an update of whole rows; a lockstep loop of its own",
    "Banditron-1": "stored contexts",
    "AROW-0": "a table with variances; learns from labels",
    "UCWL-0": "a table with variances; upper bounds; learns from one bit",
    "Confidit-6": "a matrix for each label",
    "Halving-0": "votes of hypotheses",
    "OneBit-0": "experts of sparse rows; naive Bayes; kept rounds that are learned again",
    "OneBit-1": "experts of dense rows; Fourier features; columns that are standardised",
}


# Learners whose laws are also checked with exploration in every run: one for each way of choosing
# a label and of noting numbers. `--all` checks every learner.
EXPLORERS = ("BanditPerceptron", "LinearThompson", "OneBit", "PNewtron", "SOBA", "UCWL")


def marks_of(name, settings):
    """What waits for `--all`: compiled, other forms, which take longest to compile; uncompiled,
    other numbers as settings, which run the same lines."""
    if name in REPRESENTATIVES:
        return [pytest.mark.compiled]
    if "explore" in settings:
        is_later = COMPILED or name.partition("-")[0] not in EXPLORERS
    elif COMPILED:
        is_later = "kernel" in settings or "form" in settings
    else:
        is_later = settings and all(isinstance(value, float) for value in settings.values())
    return [pytest.mark.exhaustive] if is_later else []


MAKERS = (
    [
        pytest.param(
            maker_of(learner, settings),
            id=f"{name}-{form}",
            marks=marks_of(f"{name}-{form}", settings),
        )
        for name, learner in sorted(Learner.registry.items())
        for form, settings in [
            *enumerate([{}, *SETTINGS.get(name, [])]),
            ("explore", {"explore": 0.3}),
        ]
    ]
    if ob.Banditron
    else []
)
