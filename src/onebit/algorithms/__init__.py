"""All algorithms: one file each, or a folder if an algorithm has a storage of its own."""

from __future__ import annotations

import os
from typing import Any

from onebit.algorithms.arow import AROW as AROW
from onebit.algorithms.bandit_perceptron import BanditPerceptron as BanditPerceptron
from onebit.algorithms.banditron import Banditron as Banditron
from onebit.algorithms.bpa import BPA as BPA
from onebit.algorithms.confidit import Confidit as Confidit
from onebit.algorithms.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from onebit.algorithms.fastcb import FastCB as FastCB
from onebit.algorithms.halving import Halving as Halving
from onebit.algorithms.newtron import Newtron as Newtron
from onebit.algorithms.onebit import OneBit as OneBit
from onebit.algorithms.passive_aggressive import PassiveAggressive as PassiveAggressive
from onebit.algorithms.perceptron import Perceptron as Perceptron
from onebit.algorithms.pnewtron import PNewtron as PNewtron
from onebit.algorithms.potential import EGBandit as EGBandit
from onebit.algorithms.potential import PNormBandit as PNormBandit
from onebit.algorithms.rcine import RCINE as RCINE
from onebit.algorithms.rcnbf import RCNBF as RCNBF
from onebit.algorithms.scw import CW as CW
from onebit.algorithms.scw import SCW as SCW
from onebit.algorithms.second_order_perceptron import SecondOrderPerceptron as SecondOrderPerceptron
from onebit.algorithms.soba import SOBA as SOBA
from onebit.algorithms.squarecb import SquareCB as SquareCB
from onebit.algorithms.thompson import LinearThompson as LinearThompson
from onebit.algorithms.ucwl import UCWL as UCWL
from onebit.algorithms.uniform_random import UniformRandom as UniformRandom
from onebit.learner import files
from onebit.learner.copies import set_salt
from onebit.learner.decision import check_salt
from onebit.learner.learner import Learner


def by_settings() -> list[str]:
    """The names of this package's learners that need no setting besides plain values."""
    return [
        name
        for name, kind in Learner.registry.items()
        if kind.__module__.startswith(f"{__name__}.") and not kind.needs
    ]


def load(path: str | os.PathLike[str], *, salt: str | None = None, **given: Any) -> Learner:
    """The learner that `Learner.save` wrote. Any other file is refused with a ValueError.

    salt: a name for this process, such as "web-3", if several processes decide with one model. Each
    salt has its own random draws, and a learner that gets feedback on the decisions of several
    processes can tell them apart. A process that starts again needs a new salt; otherwise it would
    repeat its draws.

    given: settings that are functions, which a file cannot store. They must be the same as before.
    """
    head, arrays = files.read(path)
    try:
        learner = files.restore(head, arrays, given, is_foreign=True)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    if salt is not None:
        set_salt(learner, check_salt(salt))
    return learner
