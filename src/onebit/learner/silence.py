"""How a learner interprets silence, and corrects for silence that depends on the answer.

People may be silent more often after right answers than after wrong ones, or the other way round.
Then the feedback that arrives is a biased sample. If right answers arrive with probability a and
wrong ones with probability b, both known, the more frequent kind is thinned out: it is learned from
with probability min(a, b) divided by its own. After that, whether an answer is learned from does
not depend on the answer, and algorithms need no change.

Why not weights 1/a and 1/b? An algorithm that is not a sum of gradients (UCWL, BPA, Halving) has no
place for a weight, and in the others rare answers would make large steps. The price of thinning is
that some answers are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from onebit.core.draws import uniform
from onebit.core.jit import inline
from onebit.core.settings import real

THINNING_DRAW = 2 * 10**6 - 3  # a stream of draws that only thinning uses

Reading = Literal["nothing", "wrong"] | Mapping[str, float]


class Hearing(NamedTuple):
    """How silence is interpreted: a record for compiled code."""

    silence_is_wrong: Any
    right: Any  # the probability that a right answer that arrives is learned from
    wrong: Any


PLAIN = Hearing(False, 1.0, 1.0)


def hearing(silence: Any) -> tuple[Any, Hearing]:
    """The setting `silence`, checked, and its record for compiled code."""
    if isinstance(silence, str) and silence in ("nothing", "wrong"):
        return silence, PLAIN._replace(silence_is_wrong=silence == "wrong")
    if isinstance(silence, Mapping) and silence.keys() == {"right", "wrong"}:
        chances = {
            answer: real(f"silence[{answer!r}]", silence[answer], least=0, below=1)
            for answer in ("right", "wrong")
        }
        right, wrong = 1 - chances["right"], 1 - chances["wrong"]
        least = min(right, wrong)
        return chances, Hearing(False, least / right, least / wrong)
    raise ValueError(
        "silence must be 'nothing', 'wrong', or the chances of silence after either answer, "
        f"as in {{'right': 0.7, 'wrong': 0.2}}, not {silence!r}"
    )


@inline
def is_taken(hearing, seed, round, right):
    """Whether an answer that arrived is learned from."""
    chance = hearing.right if right else hearing.wrong
    return chance >= 1.0 or uniform(seed, round, THINNING_DRAW) < chance
