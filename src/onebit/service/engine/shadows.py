"""Shadows: learners beside the one that speaks, and who of them speaks.

A thread lets each shadow follow the journal. It learns what is on disk, a piece at a time, so
neither decisions nor answers wait for a shadow, and a shadow that fails is down alone. Promotion
puts a shadow in charge, and the learner that spoke becomes a shadow; both stand in the journal.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from onebit.evidence.replaying import learn_block
from onebit.evidence.rows import NOBODY, RIGHT, LogBlock
from onebit.service.configuration import Model
from onebit.service.engine.building import (
    REFUSED,
    Builder,
    Version,
    fresh,
    identity,
    version_of,
)
from onebit.service.engine.comparing import Comparison, Speaker
from onebit.service.engine.progress import Interrupted, Pace
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.engine.recent import RecentDecisions
from onebit.service.engine.saving import Saving
from onebit.service.engine.shadow import LabelsThen, Shadow
from onebit.service.engine.state import EngineState
from onebit.service.engine.versions import Versions
from onebit.service.faults import Busy, Contradiction, Damaged, ServiceError, Unavailable
from onebit.service.journal import ChangeRow, statements
from onebit.service.journal.queries import ANOTHER, Role, Roles
from onebit.service.messages import ShadowCard

SPAN = 500  # positions that a shadow learns while it keeps the lock
REST = 0.1  # seconds between two looks whether there is something new
log = logging.getLogger("onebit.service")
_encode = msgspec.json.Encoder().encode


class Shadows:
    """The shadows of a model.

    Lock: `lock` is taken before that of the engine; who has the engine's must not ask for it. The
    thread keeps it while a shadow learns a piece, and takes the engine's for moments: to see how
    far the model is, and whether the past has changed. `follow`, `promote` and `undo` keep both
    while they change who speaks. `card` takes neither: it reads values that never change in place.
    """

    def __init__(
        self,
        state: EngineState,
        decisions: RecentDecisions,
        versions: Versions,
        saving: Saving,
        rebuilding: Rebuilding,
    ) -> None:
        self._state, self._journal, self._decisions = state, state.journal, decisions
        self._versions, self._saving, self._rebuilding = versions, saving, rebuilding
        self.lock = threading.Lock()
        self._shadows: Mapping[str, Shadow] = {}  # is replaced, never changed
        self._thread: threading.Thread | None = None
        self._looked_at: dict[str, int] = {}  # by the rule, after how many rounds

    # The configuration file.

    def follow(self, model: Model) -> None:
        """Have the shadows that a configuration asks for."""
        with self.lock:
            roles = self._state.roles
            wanted = dict(model.shadows)
            if roles.speaker != model.name:
                wanted[model.name] = model
            wanted.pop(roles.speaker, None)
            if wanted or roles.shadows:
                self._take_roles(self._followed(roles, wanted))
                self._forget_versions(roles)
            # Those that are down are tried again.
            self._shadows = {
                name: shadow for name, shadow in self._shadows.items() if not shadow.problem
            }
            self._agree()
        if self._shadows and self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"shadows of {self._state.name}", daemon=True
            )
            self._thread.start()
        if roles.speaker == ANOTHER and not model.apprentice:
            self.promote(model.name, "the configuration")

    def _followed(self, roles: Roles, wanted: Mapping[str, Model]) -> Roles:
        """The roles with the shadows that are wanted, and versions for those that are new."""
        made: dict[str, Role] = {}
        for name, model in wanted.items():
            version, role = version_of(model, 0), roles.shadows.get(name)
            asked = identity(version)
            is_known = role is not None and self._journal.version(role.version) is not None
            if role is not None and is_known and role.identity == asked:
                made[name] = role
            else:
                made[name] = Role(self._new_version(name, version), asked)
        return replace(roles, shadows=made)

    def _forget_versions(self, before: Roles) -> None:
        """Forget the versions of shadows that are gone."""
        kept = {role.version for role in self._state.roles.shadows.values()}
        for role in before.shadows.values():
            if role.version not in {*kept, self._state.version.number}:
                self._versions.drop_if_silent(role.version)

    def _new_version(self, name: str, version: Version) -> int:
        """Write a version for a shadow, and return its number."""
        state = self._state
        if name == state.roles.in_charge(state.name):
            return state.version.number  # the learner is there already, and only does not speak
        body = dict(version.body)
        if isinstance(body["labels"], list):  # retired ones stay, for earlier decisions
            known = state.learner.labels
            body["labels"] = [*body["labels"], *(x for x in known if x not in body["labels"])]
        body["shadow"] = name
        made = Version(self._journal.new_configuration(), body, version.learner)
        self._versions.write(made).result()
        return made.number

    def _shadow(self, name: str, version: int) -> Shadow:
        state = self._state
        found = self._journal.version(version)
        if found is None:
            raise Damaged(f"{self._journal.path} has lost version {version} of {state.name}")
        builder = Builder(
            self._journal, state.name, state.number, state.folder, found, state.sources,
            state.promotions,
        )  # fmt: skip
        return Shadow(name, builder, self._journal, state.number)

    def _take_roles(self, roles: Roles) -> None:
        state = self._state
        if roles == state.roles:
            return
        noted = [statements.note_roles(state.number, roles)]
        with state.lock:
            self._journal.append(statements=noted).done.result()
            state.roles = roles

    def _agree(self) -> None:
        """Have the shadows that the journal names: another learner may have taken charge, or the
        journal may have been read anew."""
        state = self._state
        roles, own = state.roles, state.roles.in_charge(state.name)
        role = roles.shadows.get(own)
        if role is not None and role.version != state.version.number:
            role = Role(state.version.number, role.identity)
            roles = replace(roles, shadows={**roles.shadows, own: role})
            self._take_roles(roles)
        known = self._shadows
        if {name: shadow.version for name, shadow in known.items()} != {
            name: role.version for name, role in roles.shadows.items()
        }:
            self._shadows = {
                name: known[name]
                if name in known and known[name].version == role.version
                else self._shadow(name, role.version)
                for name, role in roles.shadows.items()
            }

    # Learning.

    def _run(self) -> None:
        state = self._state
        pace = Pace(lambda: self._journal.position, state.closing)
        seen = -1
        while not state.closing.is_set():
            try:
                is_behind = self.step(pace)
                self._promote_who_is_better()
            except Interrupted:
                return
            except ServiceError as fault:
                log.debug("%s: the shadows wait: %s", state.name, fault.detail)
                is_behind = False
            except Exception:
                log.exception("%s: the shadows wait", state.name)
                is_behind = False
            if not is_behind:
                while not state.closing.wait(REST) and seen == self._journal.position:
                    pass
                seen = self._journal.position

    def step(self, pace: Any = lambda: None) -> bool:
        """Let each shadow learn a piece of what is new; returns whether any is behind still."""
        is_behind = False
        with self.lock:
            self._agree()
        for name in self._shadows:
            with self.lock:
                shadow = self._shadows.get(name)
                if shadow is not None and not shadow.problem:
                    is_behind |= self._step(shadow)
            pace()
        return is_behind

    def _step(self, shadow: Shadow) -> bool:
        state = self._state
        with state.lock:
            self._journal.check_failure()
            until, past, speaker = state.reached, state.past(), self._speaker()
        self._journal.flush()
        try:
            self._let_learn(shadow, until, past, speaker)
        except Exception as error:
            if isinstance(error, Unavailable) and not isinstance(error, Damaged):
                raise
            with state.lock:
                has_changed = len(state.edits) != past.edits
            if not has_changed:
                self._fail(shadow, error)
                return False
            shadow.has_started = False  # it has seen a change of the past in part
            return True
        with state.lock:
            if state.has_changed(past, shadow.reached):
                shadow.has_started = False
                return True
            shadow.past = past
        if shadow.reached - shadow.saved >= self._saving.every:
            self._save(shadow)
        return shadow.reached < until

    def _let_learn(self, shadow: Shadow, until: int, past: Any, speaker: Speaker) -> None:
        state, exclusive = self._state, self._state.model.exclusive
        if not shadow.has_started or state.has_changed(shadow.past, shadow.reached):
            shadow.start(state.folder, state.name, speaker, exclusive, past)
        shadow.compare_with(speaker, exclusive)
        until = min(until, shadow.reached + SPAN)
        if until > shadow.reached:
            shadow.learn(until, LabelsThen(self._journal, state.number))

    def _speaker(self) -> Speaker:
        roles = self._state.roles
        is_another = roles.speaker == ANOTHER
        return Speaker(0 if is_another else self._state.version.number, roles.since)

    def _fail(self, shadow: Shadow, error: Exception) -> None:
        shadow.problem = str(error) or type(error).__name__
        shown = None if isinstance(error, (*REFUSED, ServiceError)) else error  # with a traceback
        log.error(
            "%s: the shadow %s is down, and nothing else: %s",
            self._state.name, shadow.name, shadow.problem, exc_info=shown,
        )  # fmt: skip

    def _save(self, shadow: Shadow) -> None:
        shadow.saved = shadow.reached
        self._saving.write(shadow.dumped(), shadow.version, shadow.reached, shadow.past)

    # Who speaks.

    def promote(self, name: str, by: str) -> None:
        """Let a shadow speak from now on. Who has spoken becomes a shadow."""
        with self.lock:
            self._promote(name, by)

    def undo(self) -> None:
        """Let the learner, or the other system, speak again that spoke before."""
        with self.lock:
            before = self._state.roles.before
            if before is None:
                raise Contradiction(f"nobody was promoted in {self._state.name}")
            self._promote(before, "undo")

    def _promote_who_is_better(self) -> None:
        """Promote by rule."""
        for name, shadow in self._shadows.items():
            model = self._state.model.voice(name)
            if model is None or model.promote != "when better" or not shadow.has_started:
                continue
            rounds = shadow.comparison.sums.rounds
            if rounds == self._looked_at.get(name):
                continue
            self._looked_at[name] = rounds
            if shadow.comparison.evaluation().interval[0] > 0:
                with suppress(Busy, Contradiction):  # it is tried again after more rounds
                    self.promote(name, "rule")

    def _promote(self, name: str, by: str) -> None:
        self._agree()
        state, roles = self._state, self._state.roles
        if name == roles.speaker:
            raise Contradiction(f"{name or 'another system'} speaks already for {state.name}")
        shadow = self._shadows.get(name)
        if name != ANOTHER:
            self._check_is_able(name, shadow)
        if shadow is not None:
            while self._step(shadow):
                if self._state.reached - shadow.reached > 2 * SPAN:
                    raise self._behind(shadow)
            self._check_is_able(name, shadow)
        with state.lock:
            self._rebuilding.check_free()
            self._journal.check_room(4)
            if state.is_stale:
                raise Busy(f"the learner of {state.name} is being built again", retry_after=5)
            self._journal.flush()
            if shadow is not None:
                if shadow.reached < state.reached:
                    self._learn_rest(shadow)
                if state.has_changed(shadow.past, shadow.reached):
                    raise self._behind(shadow)
            self._swap(name, shadow, by)

    def _learn_rest(self, shadow: Shadow) -> None:
        """Learn what came in the last moment; it is little, and requests wait for it."""
        try:
            shadow.learn(self._state.reached, LabelsThen(self._journal, self._state.number))
        except BaseException:
            shadow.has_started = False  # it may have learned a part of it
            raise

    def _check_is_able(self, name: str, shadow: Shadow | None) -> None:
        if shadow is None:
            known = ", ".join(self._shadows) or "none"
            raise Contradiction(f"{self._state.name} has no shadow {name!r}; there are: {known}")
        if shadow.problem:
            raise Contradiction(f"the shadow {name!r} is down: {shadow.problem}")
        if shadow.has_started and shadow.learner.full_information:
            raise Contradiction(
                f"{type(shadow.learner).__name__} is a reference that must be told the true label"
            )

    def _behind(self, shadow: Shadow) -> Busy:
        return Busy(
            f"the shadow {shadow.name!r} has {self._state.reached - shadow.reached:,} events to "
            "learn before it can speak",
            retry_after=5,
        )

    def _swap(self, name: str, shadow: Shadow | None, by: str) -> None:
        """Change who speaks: on disk first, then here. Both locks are held."""
        state, before = self._state, self._state.roles
        position, time = state.journal.stamp()
        takes_charge = shadow is not None and shadow.version != state.version.number
        shadows = {key: role for key, role in before.shadows.items() if key != name}
        if before.speaker != ANOTHER:
            speaking = state.model.voice(before.speaker)
            asked = None if speaking is None else identity(version_of(speaking, 0))
            shadows[before.speaker] = Role(state.version.number, asked)
        roles = Roles(name, position, shadows, before.speaker)
        body: dict[str, Any] = {"to": name, "from": before.speaker, "by": by}
        if shadow is not None:
            low, high = shadow.comparison.evaluation().interval
            body |= {"version": shadow.version, "low": low, "high": high}
        changed = [
            statements.note_roles(state.number, roles),
            statements.settle(state.number, self._journal.last_version(state.number)),
        ]
        if takes_charge:
            assert shadow is not None
            changed.append(self._versions.taking_charge(shadow.builder.version))
            followed = self._versions.followed_now(state.model.voice(name))
            changed += [] if followed is None else [followed]
        row = ChangeRow(position, state.number, time, "promote", None, _encode(body).decode())
        state.journal.append(row, statements=changed).done.result()
        self._swap_here(name, shadow, roles, takes_charge, position)
        log.warning("%s: %s speaks from now on (by %s)", state.name, name or "another system", by)

    def _swap_here(
        self, name: str, shadow: Shadow | None, roles: Roles, takes_charge: bool, position: int
    ) -> None:
        state, shadows = self._state, dict(self._shadows)
        shadows.pop(name, None)
        speaker = Speaker(0, position)
        if takes_charge:
            assert shadow is not None
            speaker = Speaker(shadow.version, position)
        for other in shadows.values():
            if other.has_started:
                other.compare_with(speaker, state.model.exclusive)
        former = roles.before
        if former is not None and former != ANOTHER:
            made = Shadow(former, state.builder, self._journal, state.number)
            learner = state.learner.copy() if not takes_charge else state.learner
            kept = Comparison.none(speaker, len(learner.labels), state.model.exclusive)
            made.take_on(learner, position, kept, state.past())
            shadows[former] = made
        if takes_charge:
            assert shadow is not None
            state.builder, state.learner = shadow.builder, shadow.learner
            self._decisions.clear()
            self._saving.reached = 0  # take one soon
        state.roles, state.reached = roles, position
        state.promotions.append(position)
        self._shadows = shadows

    # Reading.

    def card(self) -> dict[str, ShadowCard]:
        """What the shadows are, and how they do beside who speaks."""
        return {name: self._card_of(shadow) for name, shadow in self._shadows.items()}

    def _card_of(self, shadow: Shadow) -> ShadowCard:
        state, body = self._state, shadow.builder.version.body
        model = state.model.voice(shadow.name)
        told = {
            "learner": body["learner"],
            "settings": body["settings"],
            "seed": body["seed"],
            "version": shadow.version,
            "promote": "by hand" if model is None else model.promote,
            "problem": shadow.problem,
            "behind": max(state.reached - shadow.reached, 0),
        }
        if not shadow.has_started:
            return ShadowCard(**told)
        return ShadowCard(
            **told,
            names=shadow.learner.table.own_rows,
            vocabulary=shadow.learner.vocabulary,
            **shadow.comparison.told(),
        )

    # Running.

    def warm_up(self) -> None:
        """Compile what shadows need to learn, and to speak one day."""
        for name, shadow in self._shadows.items():
            try:
                learner = fresh(shadow.builder.version)
                shadow.builder.warm_up(learner)
                learn_block(learner, _any_block(learner.labels), tells=True)
            except Exception as error:
                log.warning("%s: the shadow %s was not compiled: %s", self._state.name, name, error)

    def settle(self) -> None:
        """Wait until all shadows have learned what there is."""
        while self.step():
            pass

    def replayed(self, name: str) -> Shadow:
        """A shadow built from the journal alone, without snapshots: for `onebit replay`."""
        state, shadow = self._state, self._shadows[name]
        with state.lock:
            self._journal.flush()
            until, speaker = state.reached, self._speaker()
        return replayed(shadow, speaker, state.model.exclusive, until)

    def close(self) -> None:
        """End the thread, and write last snapshots."""
        thread = self._thread
        if thread is not None:
            thread.join()
        if not self._journal.is_written:
            return
        with self.lock:
            for shadow in self._shadows.values():
                if shadow.has_started and not shadow.problem and shadow.reached > shadow.saved:
                    self._save(shadow)


def replayed(shadow: Shadow, speaker: Speaker, exclusive: Any, until: int) -> Shadow:
    """The same shadow, built anew up to a position."""
    made = Shadow(shadow.name, shadow.builder, shadow._journal, shadow._model)
    learner, reached = made.builder.beginning()
    kept = Comparison.none(speaker, len(learner.labels), exclusive)
    made.take_on(learner, reached, kept, shadow.past)
    while made.reached < until:
        made.learn(min(until, made.reached + SPAN), LabelsThen(made._journal, made._model))
    return made


def _any_block(labels: list[Any]) -> LogBlock:
    """A row of a log, to compile what learns it."""
    count = len(labels)
    return LogBlock(
        contexts=[{"a": 1.0}],
        said=np.zeros(1, np.int64),
        right=np.full(1, RIGHT, np.int64),
        truth=np.full(1, NOBODY, np.int64),
        propensity=np.ones(1),
        propensities=np.full((1, count), np.nan),
        allowed=np.zeros((0, count), bool),
        lines=np.zeros(1, np.int64),
        times=np.zeros(0),
        sources=(),
    )
