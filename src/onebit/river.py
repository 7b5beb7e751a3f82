"""Any learner of onebit in River: OneBitClassifier, and OneBitPolicy for bandits with contexts.

from onebit.river import OneBitClassifier

model = preprocessing.StandardScaler() | OneBitClassifier()
evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from onebit.core.extras import how_to_install

try:
    from river import bandit, base
except ImportError as error:
    raise ImportError(f"onebit.river needs River: {how_to_install('river')}") from error

from onebit.adapters import LearnerMaker, label_probabilities, make_learner
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner
from onebit.reading.rows import is_missing

MOST_OPEN = 10_000  # pulls of a policy that wait for their reward; older ones are dropped


class _Growing:
    """A learner whose labels are added as they come. It exists from the second label on."""

    def __init__(self, maker: LearnerMaker, seed: int) -> None:
        self.maker, self.seed = maker, seed
        self.places: dict[Any, int] = {}  # of the labels, which may be of any kind, in the learner
        self.learner: Learner | None = None

    def add(self, label: Any) -> None:
        if label in self.places:
            return
        if self.learner is not None:
            self.learner.add_label()
        elif self.places:
            self.learner = make_learner(self.maker, 2, self.seed)
        self.places[label] = len(self.places)


def _context(x: Mapping[Any, Any] | str) -> dict[str, Any] | str:
    """A text, or features by names that are strings; River has any kind of names."""
    if isinstance(x, str):
        return x
    if not hasattr(x, "items"):
        raise TypeError(
            "River passes dicts: x must be a dict of names to numbers and strings, or a text, not "
            f"{x!r}"
        )
    return {name if isinstance(name, str) else str(name): value for name, value in x.items()}


class OneBitClassifier(base.Classifier):
    """A classifier that learns from one-bit feedback, simulated from the true labels.

    In `learn_one` the learner says a label and learns whether that label is right. Labels are
    added as they come. While there is only one label, nothing is learned. x is a dict of numbers
    and strings, or a text.

    learner: a learner's name, with settings if need be ("UCWL:eta=0.9"); a recipe or its file; or a
    class or function that is called as learner(labels, seed=seed). seed: of the learner.
    """

    def __init__(self, learner: LearnerMaker = "OneBit", seed: int = 0) -> None:
        self.learner = learner
        self.seed = seed
        self.mistakes = 0  # wrong labels that were said in `learn_one`
        self._growing = _Growing(learner, seed)

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Any) -> None:
        """Say a label for x, and learn whether it is y."""
        if is_missing(y):
            raise ValueError(
                f"y is {y!r}: learn_one needs the true label; leave out rows without a label"
            )
        context, growing = _context(x), self._growing
        growing.add(y)
        if growing.learner is None:
            return
        decision = growing.learner.decide(context)
        place = growing.places[y]
        self.mistakes += decision.label != place
        if growing.learner.full_information:
            growing.learner.learn(decision, label=place)
        else:
            growing.learner.learn(decision, right=decision.label == place)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        """The probabilities of the labels so far, without exploration.

        Of OneBit and the regressions, the estimated chances that a label is right
        (`Learner.probabilities`), divided by their sum. Of the remaining learners, the softmax of
        their scores, which is not calibrated.
        """
        growing = self._growing
        if growing.learner is None:
            return dict.fromkeys(growing.places, 1.0)
        shares = label_probabilities(growing.learner, [_context(x)])[0]
        return dict(zip(growing.places, shares.tolist(), strict=True))


class OneBitPolicy(bandit.base.ContextualPolicy):
    """A policy for arms whose reward is 1 (right) or 0 (wrong), with contexts.

    Several arms may be rewarded in the same context, or one, or none. A context is a dict or a
    text.

    `pull` has the learner decide among the arms, and keeps the decision until `update` brings the
    reward for the same arm and the same context: at once, later, or never. If several pulls of an
    arm in a context are open, a reward goes to the oldest. A reward without an open pull is
    counted, but not learned from. Arms are added as they come.

    learner and seed: as for OneBitClassifier. reward_obj: River's object for the performance of
    each arm, shown in `ranking`; the mean of the rewards unless given.
    """

    def __init__(
        self, learner: LearnerMaker = "OneBit", reward_obj: Any = None, seed: int = 0
    ) -> None:
        super().__init__(reward_obj)
        self.learner = learner
        self.seed = seed
        self._growing = _Growing(learner, seed)
        self._open: dict[Any, deque[Decision]] = {}  # by arm and context
        self._open_keys: OrderedDict[int, Any] = OrderedDict()  # by round, the oldest first

    def _pull(self, arm_ids: Iterable[Any], context: Mapping[Any, Any] | str | None) -> Any:
        arms = list(arm_ids)
        if context is None:
            raise ValueError("OneBitPolicy needs a context: pull(arm_ids, context={...})")
        if not arms:
            raise ValueError("there is no arm to pull: arm_ids is empty")
        growing = self._growing
        for arm in arms:
            growing.add(arm)
        if growing.learner is None:  # there is one arm
            return arms[0]
        among = None
        if len(arms) < len(growing.places):
            among = [growing.places[arm] for arm in arms]
        decision = growing.learner.decide(_context(context), among=among)
        arm = next(arm for arm in arms if growing.places[arm] == decision.label)
        self._keep(_key(arm, context), decision)
        return arm

    def _keep(self, key: Any, decision: Decision) -> None:
        self._open.setdefault(key, deque()).append(decision)
        self._open_keys[decision.round] = key
        if len(self._open_keys) > MOST_OPEN:
            self._take(next(iter(self._open_keys.values())))

    def _take(self, key: Any) -> Decision | None:
        """The oldest open pull of an arm in a context; it is not open any more."""
        decisions = self._open.get(key)
        if decisions is None:
            return None
        decision = decisions.popleft()
        if not decisions:
            del self._open[key]
        del self._open_keys[decision.round]
        return decision

    def update(
        self, arm_id: Any, context: Mapping[Any, Any] | str, reward: Any, **reward_kwargs: Any
    ) -> None:
        """Take the reward of a pull: 1 or True, 0 or False."""
        if reward not in (0, 1):
            raise ValueError(f"OneBitPolicy learns from rewards that are 0 or 1, not {reward!r}")
        decision, learner = self._take(_key(arm_id, context)), self._growing.learner
        if decision is not None and learner is not None:
            learner.learn(decision, right=bool(reward))
        super().update(arm_id, context, reward, **reward_kwargs)


def _key(arm: Any, context: Mapping[Any, Any] | str) -> Any:
    """By what a reward finds its pull. A NaN is left out: it does not equal itself, and a learner
    takes it as absent. None is a category."""
    named = _context(context)
    if isinstance(named, str):
        return arm, named
    items = named.items()
    return arm, frozenset(item for item in items if item[1] is None or not is_missing(item[1]))
