"""Broken learners: for each law of `onebit.testing` one that breaks it, and keeps all others."""

from __future__ import annotations

import random
from collections.abc import Mapping

import msgspec
import numpy as np

import onebit as ob
from onebit.core import choosing, sums, updates
from onebit.core.jit import COMPILED
from onebit.core.rounds import Choice
from onebit.core.settings import Range, setting
from onebit.learner.declared import Variant
from onebit.learner.table import Table


class _WantsToBeFitted(ob.Banditron):
    def predict(self, X):
        if self.round == 0:
            raise ValueError("fit me first")
        return super().predict(X)


class _MakesRoomWhenLooking(ob.Banditron):
    def scores(self, X):
        if getattr(X, "shape", (0, 0))[1] > 50:
            self.table.place(self.rows(X), np.empty(0, np.int64))
        return super().scores(X)


class _LooksForNewFeatures(ob.Banditron):
    def scores(self, X):
        scores = super().scores(X)
        if self.rows(X).width > len(self.table.state.table):
            scores[:, 1] += 1.0
        return scores


class _TakesRowsWithGaps(ob.Banditron):
    def decide(self, x, **asked):
        if isinstance(x, np.ndarray) and not np.isnan(x).all():
            x = np.nan_to_num(x, posinf=np.inf, neginf=-np.inf)
        return super().decide(x, **asked)


class _LawDoesNotSumToOne(ob.Banditron):
    def propensities(self, x, **asked):
        return super().propensities(x, **asked) * (1.0 if asked else 1.01)


class _IsSureOfEverything(ob.Banditron):
    def decide(self, x, **asked):
        decision = super().decide(x, **asked)
        is_list = type(decision) is ob.ListDecision
        return decision if is_list else msgspec.structs.replace(decision, confidence=1.0)


class _RandomBeyondSeedTen(ob.Banditron):
    def __init__(self, labels, *, seed=0, **settings):
        super().__init__(labels, seed=seed, **settings)
        if seed == 11:
            self.draw_seed = random.getrandbits(62)


class _MishearsInDouble(ob.Banditron):
    def learn(self, decision, *, right=None, **feedback):
        if self.dtype == "float64" and type(right) is bool and decision.round == 10:
            right = not right
        super().learn(decision, right=right, **feedback)


class _IgnoresNamedContexts(ob.Banditron):
    def decide(self, x, **asked):
        decision = super().decide(x, **asked)
        if isinstance(x, Mapping):
            self._named = decision.round
        return decision

    def learn(self, decision, **feedback):
        if getattr(decision, "round", None) != getattr(self, "_named", -1):
            super().learn(decision, **feedback)


class _MixesKindsOfContexts(ob.Banditron):
    @property
    def reader(self):
        self._reader.taught_with = ""
        return self._reader

    @reader.setter
    def reader(self, reader):
        self._reader = reader


class _SavesNothing(ob.Banditron):
    def save(self, path):
        self.forget()
        super().save(path)


class _CopiesShareWeights(ob.Banditron):
    def copy(self):
        twin = super().copy()
        twin.table = self.table
        return twin


class _ForgetsDecisionsInTransit(ob.Banditron):
    def __init__(self, labels, **settings):
        super().__init__(labels, **settings)
        self._mine = {}

    def decide(self, x, **asked):
        decision = super().decide(x, **asked)
        self._mine[id(decision)] = decision
        return decision

    def learn(self, decision, **feedback):
        late = (
            self.seed == 2
            and self._mine
            and getattr(decision, "round", self.round) < self.round - 1
        )
        if late and id(decision) not in self._mine and not self._has(decision.round):
            self.answers.mark(decision.round, self.round)
        else:
            super().learn(decision, **feedback)

    def _has(self, round):
        return self.answers.has(round, self.round)


class _LearnsFromStaleScores(ob.UCWL):
    def __init__(self, labels, **settings):
        super().__init__(labels, **settings)
        self.rescores_now = self.seed != 8


class _LearnsNamedLabelsTwice(ob.Banditron):
    def learn(self, decision, *, label=None, **feedback):
        try:
            super().learn(decision, label=label, **feedback)
        except ValueError as error:
            if label is None or "answered already" not in str(error):
                raise


class _CountsRefusedRounds(ob.Banditron):
    def decide(self, x, **asked):
        try:
            return super().decide(x, **asked)
        except ValueError:
            self.round += 1
            raise


class _IgnoresTheOnlyLabel(ob.Banditron):
    def decide(self, x, **asked):
        if asked.get("among") == [4]:
            del asked["among"]
        return super().decide(x, **asked)


class _OverflowsWhenTold(ob.Banditron):
    """Late, so that what is taught before still equals what is told."""

    def learn(self, decision, *, label=None, **feedback):
        super().learn(decision, label=label, **feedback)
        if label is not None and decision.round > 60:
            self.table.state.table[:, 0, self.label_set.place(label)] = np.inf


class _ForgetsWithANewLabel(ob.Banditron):
    def add_label(self, label=None):
        super().add_label(label)
        self.forget(0.5)


class _KeepsATrace(ob.Banditron):
    def forget(self, share=1.0):
        super().forget(min(share, 0.999))


class _GreedyTable(Table):
    def reserve(self, rows, arrays=None):
        super().reserve(rows, arrays)
        if len(self.buffer) < 4096 and len(self.state.table):
            larger = np.zeros((4096, *self.buffer.shape[1:]), self.dtype)
            larger[: len(self.buffer)] = self.buffer
            self.buffer = self.whole = larger
            self.state = self.state._replace(table=larger[: len(self.state.table)])


class _TakesTooMuchMemory(ob.Banditron):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "table":
            value.__class__ = _GreedyTable


# Broken in their compiled members: Banditron but for one of them.


class _ExploresLessThanItSays(ob.Banditron):
    gamma: float = setting(default=0.5, above=0, most=1, search=Range(0.3, 0.6), doc="exploration")
    law, could_say = choosing.epsilon_greedy.law, choosing.epsilon_greedy.could_say

    @staticmethod
    def say(params, state, work, turn):
        greedy = choosing.best(state, work)
        said = choosing.explore_uniformly(work, turn, params.gamma / 2, greedy)
        share = params.gamma / turn.count
        propensity = 1.0 - params.gamma + share if said.label == greedy else share
        return Choice(said.label, greedy, propensity, 0.0, 0.0)


class _NeverSettles:
    @staticmethod
    def settled(params, state, row):
        pass


class _LosesUpdatesInLockstep(ob.Banditron):
    lockstep = _NeverSettles


class _HasAFavourite(ob.Banditron):
    @staticmethod
    def score(params, state, work, row, turn):
        sums.dot(state, row, 0, work.scores)
        if row.start == row.stop:
            work.scores[1] += 1.0


class _BelievesForgedDecisions(ob.Banditron):
    @staticmethod
    def could_say(params, state, work, row, turn, choice):
        return True

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        updates.add(state, row, choice.label, choice.note + (1.0 if right else -1.0))
        return True


class _Peeks(ob.Banditron):
    """It peeks with one seed only: in other laws a stream would not equal rounds, which cannot."""

    class Peeking(Variant):
        @staticmethod
        def hear_label(params, state, work, row, turn, label):
            updates.add(state, row, label, 1.0)
            return True

    lockstep = updates.add

    def _make_params(self):
        return (self.Peeking if self.seed == 4 else self).Params(self.gamma)


class _IsAlwaysRightAboutLists(ob.Banditron):
    def learn(self, decision, **feedback):
        if type(decision) is ob.ListDecision and "right" in feedback:
            feedback["right"] = True
        super().learn(decision, **feedback)


class _ShowsLabelsMoreOftenThanItSays(ob.Banditron):
    """It says that it never tries anything."""

    shows_lists = True

    @staticmethod
    def list_law(params, state, work, turn, ranks):
        if len(ranks) > 1:
            work.propensities[:] = 0.0
        for i in range(len(ranks)):
            work.propensities[ranks[i]] += float(len(ranks) > 1)


class _LosesRedoneRounds(ob.Banditron):
    def redo(self, x, decision):
        return decision


class _IgnoresPropensitiesOfLogs(ob.Banditron):
    def learn_logged(self, x, said, *, propensity=1.0, **feedback):
        super().learn_logged(x, said, **feedback)


class _CountsTaughtContexts(ob.Banditron):
    def teach(self, X, y):
        super().teach(X, y)
        self.round += len(y)


OFF = 0.0 if COMPILED else 1e-3


class _CompilesToSomethingElse(ob.Banditron):
    @staticmethod
    def score(params, state, work, row, turn):
        sums.dot(state, row, 0, work.scores)
        work.scores[2] += OFF


IN_COMPILED_CODE = {
    _ExploresLessThanItSays,
    _LosesUpdatesInLockstep,
    _HasAFavourite,
    _BelievesForgedDecisions,
    _Peeks,
    _ShowsLabelsMoreOftenThanItSays,
}

BY_LAW = {
    "it_answers_before_any_learning": _WantsToBeFitted,
    "deciding_and_predicting_change_nothing_learned": _MakesRoomWhenLooking,
    "features_that_never_occurred_count_as_in_a_decision": _LooksForNewFeatures,
    "propensities_are_a_law": _LawDoesNotSumToOne,
    "propensities_match_frequencies": _ExploresLessThanItSays,
    "confidence_is_the_estimate_for_the_said_label": _IsSureOfEverything,
    "the_same_seed_gives_the_same_run": _RandomBeyondSeedTen,
    "round_by_round_equals_the_whole_stream": _MishearsInDouble,
    "lockstep_equals_runs_one_by_one": _LosesUpdatesInLockstep,
    "dense_sparse_and_named_contexts_are_one": _IgnoresNamedContexts,
    "kinds_of_contexts_do_not_mix": _MixesKindsOfContexts,
    "an_empty_context_is_legal": _HasAFavourite,
    "saving_loading_and_going_on_equals_never_stopping": _SavesNothing,
    "copies_are_independent": _CopiesShareWeights,
    "decisions_may_travel_and_come_back_late": _ForgetsDecisionsInTransit,
    "a_log_makes_the_same_learner_again": _LosesRedoneRounds,
    "feedback_for_another_policy_teaches_the_same": _IgnoresPropensitiesOfLogs,
    "teaching_is_naming_labels_in_no_round": _CountsTaughtContexts,
    "late_feedback_equals_the_stream_with_the_same_delay": _LearnsFromStaleScores,
    "a_forged_decision_is_refused_or_harmless": _BelievesForgedDecisions,
    "feedback_twice_is_refused": _LearnsNamedLabelsTwice,
    "a_refused_call_changes_nothing": _CountsRefusedRounds,
    "a_missing_number_is_refused_or_read_alike": _TakesRowsWithGaps,
    "only_possible_labels_are_said": _IgnoresTheOnlyLabel,
    "lists_of_one_label_are_decisions": _IsAlwaysRightAboutLists,
    "labels_are_in_lists_as_often_as_they_say": _ShowsLabelsMoreOftenThanItSays,
    "it_learns_from_the_bit_alone": _Peeks,
    "certainty_leaves_numbers": _OverflowsWhenTold,
    "a_new_label_keeps_what_was_learned": _ForgetsWithANewLabel,
    "forgetting_fades_what_was_learned": _KeepsATrace,
    "memory_is_bounded": _TakesTooMuchMemory,
}
