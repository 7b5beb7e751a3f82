"""Forget: at a call, by the half-life, and after an alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.core.settings import real
from onebit.learner.laying import lay_out
from onebit.storage.base import row_blocks
from onebit.storage.scales import faded

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

STEPS = 16  # of fading per half-life
NEVER = 2**63


class Fading:
    """When a learner with a half-life fades. It depends only on the round."""

    def __init__(self, half_life: int | None, round: int = 0) -> None:
        self._half_life = half_life
        self.at = self._step_after(round)  # the next round before which the state fades

    def share_due(self, round: int) -> float:
        """The share to be forgotten before this round. The next step is then a later one."""
        half_life: Any = self._half_life
        due = STEPS * round // half_life - STEPS * self.at // half_life + 1
        return 1 - 0.5 ** (due / STEPS)

    def has_faded(self, round: int) -> None:
        """All steps that were due before this round have been made."""
        self.at = self._step_after(round)

    def _step_after(self, round: int) -> int:
        if self._half_life is None:
            return NEVER
        steps = STEPS * round // self._half_life + 1
        return -(-steps * self._half_life // STEPS)


def fade(learner: Learner, round: int) -> None:
    """Make the steps of fading that are due before this round."""
    learner.forget(learner.fading.share_due(round))
    learner.fading.has_faded(round)


def forget(learner: Learner, share: float) -> None:
    """See `Learner.forget`."""
    share = real("share", share, least=0, most=1)
    if share == 0:
        return
    with learner.lock:
        old = learner.table
        table, memory = old.state.table[:, :, : old.size], old.state.memory.copy()
        features = len(table)
        arrays = old.storage.arrays(old.state.held, features, old.size)
        met = np.arange(features)
        if share == 1:
            learner.reader.taught_with, memory[:] = "", 0
            old.storage.start_afresh()
            table, arrays, met = table[:0], old.storage.lasting(arrays), met[:0]
        elif arrays:
            memory *= 1 - share
            try:
                table, arrays = old.storage.faded(table, arrays, 1 - share)
            except np.linalg.LinAlgError:
                raise ValueError(
                    "the learned state cannot be weakened: its matrices are too near to "
                    "singular; forget() with share=1 resets it"
                ) from None
        else:  # most features may never have occurred: only those that did fade
            prior = np.array(learner._fill()[: old.planes], old.dtype)[:, None]
            met = old.order()  # sums must not depend on when features occurred
            met = met[(table[met] != prior).any(axis=(1, 2))]
            table, memory = learner._faded(table[met].astype(np.float64), memory, 1 - share)
        scales, known = old.scales, (old.slots, old.width)
        if scales is not None:
            scales = scales._replace(lines=faded(scales.lines, 1 - share))
        lay_out(learner, old.storage, scales, memory, {}, known)
        new = learner.table
        new.reserve(features, arrays)
        # What fades on and on would end as numbers so small that machines are slow with them.
        tiny = np.finfo(new.dtype).tiny
        for rows in row_blocks(table):
            block = np.where(np.abs(table[rows]) < tiny, 0, table[rows])
            new.buffer[met[rows], :, : new.size] = block
        new.make_room_to_scale(0)
        new.hold_known_numbers()


def will_forget(learner: Learner, right: bool | None) -> bool:
    """Whether learning an answer may change all weights. right: None for a named label."""
    rings = learner.alarm.will_ring(learner.table.state.memory, right)
    return rings or learner.round >= learner.fading.at


def pause(learner: Learner, is_live: bool = False) -> bool:
    """Do what a loop over rounds has to stop for (`core.rounds.must_pause`); False: nothing.

    is_live: no loop has stopped; somebody answers round by round.
    """
    table = learner.table
    share = learner.alarm.stop(table.state, table.storage)
    if share:
        learner.forget(share)
        return True
    held = table.storage.pause(table.state.held, is_live)
    if held is None:
        return False
    table.state = table.state._replace(held=held)
    return True
