"""One algorithm, one file. This lists them all."""

from __future__ import annotations

import os
from typing import Any

from onebit import persist
from onebit.algorithms.arow import AROW
from onebit.algorithms.bandit_perceptron import BanditPerceptron
from onebit.algorithms.banditron import Banditron
from onebit.algorithms.bpa import BPA
from onebit.algorithms.confidit import Confidit
from onebit.algorithms.epsilon_greedy import EpsilonGreedy
from onebit.algorithms.fastcb import FastCB
from onebit.algorithms.halving import Halving
from onebit.algorithms.newtron import Newtron
from onebit.algorithms.passive_aggressive import PassiveAggressive
from onebit.algorithms.perceptron import Perceptron
from onebit.algorithms.pnewtron import PNewtron
from onebit.algorithms.potential import EGBandit, PNormBandit
from onebit.algorithms.rcine import RCINE
from onebit.algorithms.rcnbf import RCNBF
from onebit.algorithms.scw import CW, SCW
from onebit.algorithms.second_order_perceptron import SecondOrderPerceptron
from onebit.algorithms.soba import SOBA
from onebit.algorithms.squarecb import SquareCB
from onebit.algorithms.thompson import LinearThompson
from onebit.algorithms.ucwl import UCWL
from onebit.algorithms.uniform_random import UniformRandom
from onebit.learner import Learner, check_salt

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
    "Confidit",
    "EGBandit",
    "EpsilonGreedy",
    "FastCB",
    "Halving",
    "LinearThompson",
    "Newtron",
    "PNewtron",
    "PNormBandit",
    "PassiveAggressive",
    "Perceptron",
    "SecondOrderPerceptron",
    "SquareCB",
    "UniformRandom",
    "load",
]


def by_settings() -> list[str]:
    """The names of the learners that can be made from labels and settings that are plain values."""
    return [name for name in __all__ if name != "load" and not Learner.registry[name].needs]


def load(path: str | os.PathLike[str], *, salt: str | None = None, **given: Any) -> Learner:
    """The learner that `Learner.save` wrote; anything else is refused with a sentence.

    salt: where several processes decide with one model, a name for each of them, such as "web-3".
    Each then has draws of its own, and a learner that gets feedback on their decisions tells them
    apart. A process that starts again needs a new salt, or it would repeat its draws.

    given: settings that a file cannot hold because they are functions, as the learner had them.
    """
    head, arrays = persist.read(path)
    try:
        learner = Learner._restore(head, arrays, given, is_foreign=True)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    if salt is not None:
        learner._set_salt(check_salt(salt))
    return learner
