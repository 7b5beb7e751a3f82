"""Shared by Confidit and UCWL: they say the label with the largest upper confidence bound."""

from __future__ import annotations

from typing import Any, ClassVar

from onebit.core.choosing import best, certain_law, could_say_for_certain
from onebit.core.jit import generic
from onebit.core.lists import certain_list_law, hide, show_again
from onebit.core.rounds import Choice
from onebit.core.sums import gaussian_score
from onebit.learner.learner import Learner
from onebit.storage.base import Storage
from onebit.storage.dual import storage_for_kernel
from onebit.storage.full import FORM, FormName, form_named


@generic
def largest_bound(params, state, work, turn):
    """The label with the largest upper confidence bound."""


class _UpperConfidence(Learner):
    """A learner with a kernel that adds the compiled member largest_bound."""

    members: ClassVar[dict[str, Any]] = {**Learner.members, "largest_bound": largest_bound}
    planes = 2
    list_law = certain_list_law
    form: FormName = FORM

    score = gaussian_score
    could_say = could_say_for_certain

    @staticmethod
    def say(params, state, work, turn):
        label = largest_bound(params, state, work, turn)
        return Choice(label, best(state, work), 1.0, 0.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        certain_law(work, largest_bound(params, state, work, turn))

    @staticmethod
    def rank(params, state, work, turn, greedy, ranks):
        for i in range(len(ranks)):
            ranks[i] = largest_bound(params, state, work, turn)
            hide(work, ranks[i])
        show_again(work, ranks)

    def _prior(self) -> float:
        """The multiple of the identity that the matrix of a label starts from."""
        return 1.0

    def _make_storage(self) -> Storage:
        return storage_for_kernel(
            self, form_named(self.form, 1.0 / self._prior()), prior=self._prior()
        )

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self._prior()
