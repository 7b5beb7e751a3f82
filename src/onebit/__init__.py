"""onebit: learn to classify when all you ever hear is "right" or "wrong".

    import onebit as ob

    learner = ob.OneBit(labels=["sport", "politics", "tech"])
    decision = learner.decide("a late goal")
    learner.learn(decision, right=decision.label == "sport")

Names are loaded when they are first used, so that importing the package is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onebit._version import __version__

if TYPE_CHECKING:
    from onebit import datasets, testing
    from onebit.algorithms import (
        AROW,
        BPA,
        CW,
        RCINE,
        RCNBF,
        SCW,
        SOBA,
        UCWL,
        BanditPerceptron,
        Banditron,
        Confidit,
        EGBandit,
        EpsilonGreedy,
        FastCB,
        Halving,
        LinearThompson,
        Newtron,
        OneBit,
        PassiveAggressive,
        Perceptron,
        PNewtron,
        PNormBandit,
        SecondOrderPerceptron,
        SquareCB,
        UniformRandom,
        load,
    )
    from onebit.evidence.evaluation import Evaluation
    from onebit.evidence.judging import compare, evaluate, replay
    from onebit.evidence.log import Log
    from onebit.evidence.writing import LogWriter
    from onebit.feedback import noise
    from onebit.feedback.channels import Channel, Delay, Flip, LabelNoise, Rotate, Silence, Swap
    from onebit.feedback.drift import DriftAlarm
    from onebit.lab import bounds
    from onebit.lab.simulation import Trace, simulate
    from onebit.lab.sweeping import sweep
    from onebit.lab.tuning import tune
    from onebit.learner.decision import Decision
    from onebit.learner.learner import Learner
    from onebit.learner.lists import ListDecision
    from onebit.registry.recipes import read_recipe
    from onebit.service.upkeep.logs import journal_log

_MODULE_OF = {
    "bounds": "onebit.lab.bounds",
    "datasets": "onebit.datasets",
    "noise": "onebit.feedback.noise",
    "testing": "onebit.testing",
    **dict.fromkeys(
        ("Channel", "Delay", "Flip", "LabelNoise", "Rotate", "Silence", "Swap"),
        "onebit.feedback.channels",
    ),
    "Decision": "onebit.learner.decision",
    "ListDecision": "onebit.learner.lists",
    "DriftAlarm": "onebit.feedback.drift",
    "Evaluation": "onebit.evidence.evaluation",
    "Log": "onebit.evidence.log",
    "LogWriter": "onebit.evidence.writing",
    **dict.fromkeys(("compare", "evaluate", "replay"), "onebit.evidence.judging"),
    "journal_log": "onebit.service.upkeep.logs",
    "Learner": "onebit.learner.learner",
    "Trace": "onebit.lab.simulation",
    "simulate": "onebit.lab.simulation",
    "read_recipe": "onebit.registry.recipes",
    "sweep": "onebit.lab.sweeping",
    "tune": "onebit.lab.tuning",
}

__all__ = [
    "AROW",
    "BPA",
    "CW",
    "RCINE",
    "RCNBF",
    "SCW",
    "SOBA",
    "UCWL",
    "BanditPerceptron",
    "Banditron",
    "Channel",
    "Confidit",
    "Decision",
    "Delay",
    "DriftAlarm",
    "EGBandit",
    "EpsilonGreedy",
    "Evaluation",
    "FastCB",
    "Flip",
    "Halving",
    "LabelNoise",
    "Learner",
    "LinearThompson",
    "ListDecision",
    "Log",
    "LogWriter",
    "Newtron",
    "OneBit",
    "PNewtron",
    "PNormBandit",
    "PassiveAggressive",
    "Perceptron",
    "Rotate",
    "SecondOrderPerceptron",
    "Silence",
    "SquareCB",
    "Swap",
    "Trace",
    "UniformRandom",
    "__version__",
    "bounds",
    "compare",
    "datasets",
    "evaluate",
    "journal_log",
    "load",
    "noise",
    "read_recipe",
    "replay",
    "simulate",
    "sweep",
    "testing",
    "tune",
]


if not TYPE_CHECKING:  # type checkers would take any name for a known one

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            import difflib  # takes time that `import onebit` does not have

            near = {known.lower(): known for known in __all__}.get(name.lower())
            near = [near] if near else difflib.get_close_matches(name, __all__, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"module 'onebit' has no attribute {name!r}{meant}")
        loaded = importlib.import_module(_MODULE_OF.get(name, "onebit.algorithms"))
        is_module = name in ("bounds", "datasets", "noise", "testing")
        globals()[name] = value = loaded if is_module else getattr(loaded, name)
        return value


def __dir__() -> list[str]:
    return __all__
