"""Every law on every public learner, and on some of their settings."""

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


def marks_of(name, settings):
    """What waits for `--all`: compiled, other forms, which take longest to compile; uncompiled,
    other numbers as settings, which run the same lines."""
    if name in REPRESENTATIVES:
        return [pytest.mark.compiled]
    if COMPILED:
        is_later = "kernel" in settings or "form" in settings
    else:
        is_later = settings and all(isinstance(value, float) for value in settings.values())
    return [pytest.mark.exhaustive] if is_later else []


MAKERS = (
    [
        pytest.param(
            maker_of(learner, settings),
            id=f"{name}-{i}",
            marks=marks_of(f"{name}-{i}", settings),
        )
        for name, learner in sorted(Learner.registry.items())
        for i, settings in enumerate([{}, *SETTINGS.get(name, [])])
    ]
    if ob.Banditron
    else []
)


# They take longest uncompiled: half of the time of all laws.
LONGEST = {
    testing.a_forged_decision_is_refused_or_harmless,
    testing.lockstep_equals_runs_one_by_one,
    testing.late_feedback_equals_the_stream_with_the_same_delay,
    testing.a_new_label_keeps_what_was_learned,
}


def is_compiled(law, maker):
    """Whether every run has the law compiled on this learner; otherwise plain."""
    if law is testing.a_new_label_keeps_what_was_learned:  # compiles for four widths of vectors
        return maker.id == "Banditron-0"
    if law is testing.lockstep_equals_runs_one_by_one and maker.id in ("Confidit-6", "Banditron-1"):
        return False  # compiles for 15 s
    return maker.id in REPRESENTATIVES


def when(law, maker):
    """The marks of a law on a learner."""
    if is_compiled(law, maker):
        return [pytest.mark.compiled]
    if maker.id in REPRESENTATIVES:
        is_lockstep = law is testing.lockstep_equals_runs_one_by_one
        return [pytest.mark.slow] if COMPILED and is_lockstep else []
    if COMPILED:
        is_wide = law is testing.a_new_label_keeps_what_was_learned
        return [pytest.mark.exhaustive] if is_wide else maker.marks
    if maker.id == "Newtron-2":  # takes longest; test_newtron.py has it too
        return [pytest.mark.exhaustive]
    is_default = maker.id.endswith("-0") and maker.id != "Newtron-0"
    is_later = law in LONGEST and not is_default
    return [*maker.marks, pytest.mark.thorough] if is_later else maker.marks


def traced(maker):
    """Coverage is measured with the laws on one learner: they run the same lines on the others,
    and the lines of an algorithm run in the tests of its twin."""
    return [] if maker.id == "Banditron-0" else [pytest.mark.untraced]


@pytest.mark.parametrize(
    ("law", "make"),
    [
        pytest.param(
            law,
            maker.values[0],
            id=f"{law.__name__}-{maker.id}",
            marks=[*when(law, maker), *traced(maker)],
        )
        for law in testing.LAWS
        for maker in MAKERS
    ],
)
def test_law(law, make):
    law(make)


def assert_compiled_equals_plain(names, *dtypes):
    makers = [param.values[0] for param in MAKERS if param.id in names]
    learners = [make(5, dtype=dtype, seed=9) for make in makers for dtype in dtypes]
    testing.assert_compiled_equals_plain(learners)


other_way_round = pytest.mark.skipif(
    not COMPILED, reason="the other way round it is the same comparison"
)


@pytest.mark.compiled
@other_way_round
def test_representatives_compiled_equal_themselves_plain():
    assert_compiled_equals_plain(REPRESENTATIVES, "float64")


@other_way_round
@pytest.mark.parametrize("name", sorted({param.id.split("-")[0] for param in MAKERS}))
def test_compiled_equals_plain(name):
    names = [param.id for param in MAKERS if param.id.split("-")[0] == name]
    assert_compiled_equals_plain(names, "float64", "float32")
