"""onebit: learn to classify when all you ever hear is "right" or "wrong".

    import onebit as ob

    learner = ob.Banditron(labels=["sport", "politics", "tech"])
    d = learner.decide({"goal": 1, "match": 2})
    learner.learn(d, right=d.label == "sport")

Names are loaded when first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onebit._version import __version__

if TYPE_CHECKING:
    from onebit import algorithms, datasets, testing
    from onebit.algorithms import *  # noqa: F403
    from onebit.decision import Decision
    from onebit.feedback import noise
    from onebit.feedback.channels import Channel, Delay, Flip, LabelNoise, Rotate, Silence, Swap
    from onebit.feedback.drift import DriftAlarm
    from onebit.lab import bounds
    from onebit.lab.recipes import read_recipe
    from onebit.lab.simulation import Trace, simulate
    from onebit.lab.sweeping import sweep
    from onebit.lab.tuning import tune
    from onebit.learner import Learner

    __all__ = [
        "Channel",
        "Decision",
        "Delay",
        "DriftAlarm",
        "Flip",
        "LabelNoise",
        "Learner",
        "Rotate",
        "Silence",
        "Swap",
        "Trace",
        "__version__",
        "bounds",
        "datasets",
        "noise",
        "read_recipe",
        "simulate",
        "sweep",
        "testing",
        "tune",
    ]
    __all__ += algorithms.__all__

_MODULES = {
    "bounds": "onebit.lab.bounds",
    "datasets": "onebit.datasets",
    "noise": "onebit.feedback.noise",
    "testing": "onebit.testing",
}
_NAMES = {
    "onebit.algorithms": (
        "AROW BPA CW RCINE RCNBF SCW SOBA UCWL BanditPerceptron Banditron Confidit EGBandit "
        "EpsilonGreedy FastCB Halving LinearThompson Newtron PNewtron PNormBandit "
        "PassiveAggressive Perceptron SecondOrderPerceptron SquareCB UniformRandom load"
    ),
    "onebit.decision": "Decision",
    "onebit.feedback.channels": "Channel Delay Flip LabelNoise Rotate Silence Swap",
    "onebit.feedback.drift": "DriftAlarm",
    "onebit.lab.recipes": "read_recipe",
    "onebit.lab.simulation": "Trace simulate",
    "onebit.lab.sweeping": "sweep",
    "onebit.lab.tuning": "tune",
    "onebit.learner": "Learner",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
if not TYPE_CHECKING:
    __all__ = sorted(["__version__", *_MODULES, *_MODULE_OF])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    elif name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module 'onebit' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
