"""One-vs-rest bandit Perceptron: Beygelzimer, Pal, Szorenyi, Thiruvenkatachari, Wei, Zhang, "Bandit
multiclass linear classification: efficient algorithms for the separable case", ICML 2019.

If all scores are negative, a random label a is said, and w_a += x if a is right. Otherwise the
label a with the highest score is said, and w_a -= x if a is wrong. The table holds the weights.
"""

from __future__ import annotations

from onebit.core.choosing import any_label, best, explored_uniformly, uniform_exploration_law
from onebit.core.rounds import Choice
from onebit.core.settings import setting
from onebit.core.sums import linear_score
from onebit.core.updates import add
from onebit.learner.learner import Learner
from onebit.storage.base import Storage
from onebit.storage.dual import BUDGET, KERNEL, REMOVE, Remove, storage_for_kernel
from onebit.storage.kernels import KernelLike


class BanditPerceptron(Learner):
    """One-vs-rest Perceptron that explores only when all scores are negative (2019).

    For separable data; it fails when labels are noisy. The paper's kernel, "rational", is for
    labels that cannot be separated one-vs-rest by linear weights.

    >>> import onebit as ob
    >>> learner = ob.BanditPerceptron(["left", "right"])
    >>> decision = learner.decide([1.0, -0.5])
    >>> decision.label, decision.explored
    ('left', False)
    >>> learner.learn(decision, right=False)
    >>> learner.scores([[1.0, -0.5]]).tolist()
    [[-1.25, 0.0]]
    """

    planes = 1
    use_correct: bool = setting(
        default=False,
        search=(False, True),
        doc="after a right answer, also learn that all other labels were wrong",
    )
    kernel: KernelLike | None = KERNEL
    budget: int = BUDGET
    remove: Remove = REMOVE

    score = linear_score
    lockstep = add

    @staticmethod
    def say(params, state, work, turn):
        greedy = best(state, work)
        if work.scores[greedy] >= 0.0:
            return Choice(greedy, greedy, 1.0, 0.0, 0.0)
        return Choice(any_label(work, turn), greedy, 1.0 / turn.count, 1.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        greedy = best(state, work)
        gamma = 0.0 if work.scores[greedy] >= 0.0 else 1.0
        uniform_exploration_law(work, turn, gamma, greedy)

    @staticmethod
    def noted(params, state, work, turn, choice):
        return Choice(choice.label, choice.greedy, choice.propensity, 1.0, 0.0)  # a guess

    @staticmethod
    def could_note(params, state, work, row, turn, choice):
        return choice.note == 1.0 and choice.second_note == 0.0

    @staticmethod
    def could_say(params, state, work, row, turn, choice):
        if choice.second_note != 0.0:
            return False
        if choice.note == 0.0:
            return choice.label == choice.greedy and choice.propensity == 1.0
        return choice.note == 1.0 and explored_uniformly(turn, 1.0, choice)

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        guessed, label = choice.note > 0.0, choice.label
        if not right:
            if not guessed:
                add(state, row, label, -1.0)
            return not guessed
        changed = guessed or (params.use_correct and work.scores[label] <= 0.0)
        if changed:
            add(state, row, label, 1.0)
        if params.use_correct:
            for rival in range(len(work.mask)):
                if rival != label and work.mask[rival] == 0 and work.scores[rival] >= 0.0:
                    add(state, row, rival, -1.0)
                    changed = True
        return changed

    def _make_storage(self) -> Storage:
        return storage_for_kernel(self)
