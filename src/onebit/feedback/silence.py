"""What a learner makes of silence, and of answers where silence depends on the answer.

Answers may be kept back by some more than by others: who is content says nothing, who is annoyed
complains. Then those that are heard are not like those that were given. If right answers are heard
with chance a and wrong ones with chance b, both known, the talkative sort is thinned out: it is
learned from with chance min(a, b) / its own, so that whether something is learned does not depend
on the answer any more, and no learner needs to know.

Why not weights 1/a and 1/b? An algorithm that is not a sum of gradients (UCWL, BPA, Halving) has no
place for a weight, and where there is one, rare answers would make large steps. Thinning costs
answers of the talkative sort instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from onebit.core.draws import uniform
from onebit.core.jit import inline
from onebit.settings import real

THINNING_DRAW = 2 * 10**6 - 3  # a stream of draws that nobody else uses

Reading = Literal["nothing", "wrong"] | Mapping[str, float]


class Hearing(NamedTuple):
    """A reading of silence, as compiled code wants it."""

    silence_is_wrong: Any
    right: Any  # the chance that a right answer, if it is heard, is learned from
    wrong: Any


PLAIN = Hearing(False, 1.0, 1.0)


def hearing(silence: Any) -> tuple[Any, Hearing]:
    """A reading of silence, checked, as a setting and as a record."""
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
    """Whether an answer that was heard is learned from."""
    chance = hearing.right if right else hearing.wrong
    return chance >= 1.0 or uniform(seed, round, THINNING_DRAW) < chance
