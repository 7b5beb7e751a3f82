"""One-vs-rest bandit Perceptron: Beygelzimer, Pal, Szorenyi, Thiruvenkatachari, Wei, Zhang, "Bandit
multiclass linear classification: efficient algorithms for the separable case", ICML 2019.

Let S be the labels whose score is not negative. If S is empty, any label is said, and w_a += x if
it was right. Else the best is said, and w_a -= x if it was wrong.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import Choice, add
from onebit.learner import Common, Labels, Learner
from onebit.settings import flag, searched
from onebit.storage.dual import KernelLike, Remove, dual


class BanditPerceptronParams(NamedTuple):
    use_correct: bool


implement(_kernel.score, BanditPerceptronParams)(_kernel.linear_score)
implement(_kernel.settle, BanditPerceptronParams)(add.settled)


@implement(_kernel.decide, BanditPerceptronParams)
def decide(params, state, work, turn):
    greedy = _kernel.best(state, work)
    if work.scores[greedy] >= 0.0:
        return Choice(greedy, greedy, 1.0, 0.0, 0.0)
    return Choice(_kernel.any_label(work, turn), greedy, 1.0 / turn.count, 1.0, 0.0)


@implement(_kernel.probabilities, BanditPerceptronParams)
def probabilities(params, state, work, turn):
    greedy = _kernel.best(state, work)
    gamma = 0.0 if work.scores[greedy] >= 0.0 else 1.0
    _kernel.uniform_exploration_law(work, turn, gamma, greedy)


@implement(_kernel.could_say, BanditPerceptronParams)
def could_say(params, state, work, row, turn, choice):
    if choice.other != 0.0:
        return False
    if choice.note == 0.0:
        return choice.label == choice.greedy and choice.propensity == 1.0
    return choice.note == 1.0 and _kernel.explored_uniformly(turn, 1.0, choice)


@implement(_kernel.learn, BanditPerceptronParams)
def learn(params, state, work, row, turn, choice, right):
    guessed = choice.note > 0.0
    label = choice.label
    if not right:
        if not guessed:
            add(state, row, label, -1.0)
        return not guessed
    changed = guessed or (params.use_correct and work.scores[label] <= 0.0)
    if changed:
        add(state, row, label, 1.0)
    if params.use_correct:
        for other in range(len(work.mask)):
            if other != label and work.mask[other] == 0 and work.scores[other] >= 0.0:
                add(state, row, other, -1.0)
                changed = True
    return changed


class BanditPerceptron(Learner):
    """One-vs-rest Perceptron that explores only when no label claims the context (2019).

    For separable data; it fails when labels are noisy. use_correct: on a right answer also teach
    the other labels that they were wrong.

    kernel: "linear", "polynomial", "rbf", "rational", with numbers as in "rbf(gamma=2)": keep
    contexts instead of weights, at most `budget` of them, and compare by the kernel. A function
    f(X, Y) of two arrays of rows will do too: it gives the matrix of values, as scikit-learn's do.
    remove: which goes when there is one too many, the "oldest", a "random" one or the "smallest".
    kernel="rational" is the paper's, for labels that are not separable each from all others.
    """

    params = (BanditPerceptronParams,)
    planes = 1
    ranges = searched(use_correct=(False, True))

    def __init__(
        self,
        labels: Labels,
        *,
        use_correct: bool = False,
        kernel: KernelLike | None = None,
        budget: int = 1000,
        remove: Remove = "oldest",
        **common: Unpack[Common],
    ) -> None:
        params = BanditPerceptronParams(flag("use_correct", use_correct))
        form = dual(kernel, budget, remove, **common)
        super().__init__(labels, params, params._asdict(), state=form, **common)
