"""Changing a model: other labels, another learner or its settings, a changed configuration file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from onebit.learner.labels import check_texts
from onebit.learner.learner import Learner
from onebit.service.configuration import Model, check_learner
from onebit.service.engine.building import code_of, fresh, identity, is_unlearnable, version_of
from onebit.service.engine.checks import refusing
from onebit.service.engine.pending import all_done
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.engine.state import EngineState
from onebit.service.engine.versions import Versions
from onebit.service.faults import Contradiction, Refused, ServiceError, TooLarge
from onebit.service.journal import ChangeRow, Version
from onebit.service.journal.relabelling import Relabelling, step
from onebit.service.messages import Label, LabelChange, Retraining

_encode = msgspec.json.Encoder().encode
log = logging.getLogger("onebit.service")


class Changing:
    """Changes the model from now on.

    Lock: the methods take the lock of the engine. What has to be compiled first is compiled
    without it, after a first check; then everything is checked again with it. `follow` waits for a
    learner that is being built, and must not be called with it.
    """

    def __init__(self, state: EngineState, versions: Versions, rebuilding: Rebuilding) -> None:
        self._state, self._versions, self._rebuilding = state, versions, rebuilding

    # Labels.

    def change_labels(self, change: LabelChange) -> Future[None]:
        """Labels that may be said from now on, and labels that may not."""
        state = self._state
        with state.lock:
            trial, new = self._relabelled(change)
        if new:
            state.builder.warm_up(trial)  # more labels may be other code; no request waits for it
        with state.lock:
            trial, new = self._relabelled(change)  # another request may have changed something else
            known, back = state.learner.labels, state.retired.intersection(change.add)
            state.learner = trial
            changes = [("label", label) for label in new]
            changes += [("restore", label) for label in known if label in back]
            gone = [label for label in dict.fromkeys(change.retire) if label not in state.retired]
            changes += [("retire", label) for label in gone]
            commits = [self._change(kind, {"label": label}) for kind, label in changes]
            state.retired = (state.retired - back) | set(change.retire)
        return all_done(commits)

    def _relabelled(self, change: LabelChange) -> tuple[Learner, list[Label]]:
        """The learner with the labels that are new to it, and these; all of them or none."""
        state = self._state
        known = state.learner.labels
        for i, label in enumerate(change.retire):
            if label not in known:
                raise Refused(f"{label!r} is not a label", where=f"$.retire[{i}]")
        new = [label for label in dict.fromkeys(change.add) if label not in known]
        left = {*known, *new} - (state.retired - set(change.add))
        if not left - set(change.retire):
            raise Refused("no label would be left", where="$.retire")
        if len(known) + len(new) > state.limits.labels:
            raise TooLarge(f"a model has at most {state.limits.labels:,} labels")
        state.journal.check_room(len(change.add) + len(change.retire))
        trial = state.learner.copy() if new else state.learner
        for label in new:
            with refusing(f"$.add[{change.add.index(label)}]"):
                check_texts([label])
                trial = state.builder.with_label(trial, label)
        return trial, new

    def _change(self, kind: str, body: dict[str, Any]) -> Future[None]:
        state = self._state
        position, time = state.journal.stamp()
        row = ChangeRow(position, state.number, time, kind, None, _encode(body).decode())
        state.reached = position
        if kind == "label":
            state.labelled_at = position
        return state.journal.append(row).done

    @property
    def relabelling(self) -> Relabelling:
        """What earlier labels are called now."""
        return self._state.builder.relabelling

    def relabel(self, names: Mapping[Label, Label | None]) -> None:
        """Rename labels, merge them into others, or remove them (None)."""
        state = self._state
        with state.lock:
            known, present = state.learner.labels, state.version
            if state.roles.shadows:
                raise Contradiction(f"{state.name} has shadows, which know the labels: remove them")
            for old in names:
                if old not in known:
                    raise Refused(f"{old!r} is not a label")
            named = [names.get(label, label) for label in known]
            left = [label for label in dict.fromkeys(named) if label is not None]
            if len(left) < 2:
                raise Refused("two labels at least have to be left")
            if present.learner is not None:
                raise Contradiction(
                    f"{state.name} began with a saved learner, which has its labels"
                )
            with refusing("$"):
                check_texts(label for label in names.values() if label is not None)
            last, time = state.journal.stamp(0)
            renamed = step(present.number, time, names, [x for x in known if x not in names])
            body = {
                **present.body,
                "labels": left,
                "labels_since": last - 1,
                "relabelled": [*present.body.get("relabelled", ()), renamed],
            }
            self._retrain(body)
            state.retired -= set(names)

    # The learner and its settings.

    def retrain(self, change: Retraining) -> None:
        """Another learner from the same journal; the present one answers until it is there."""
        values = {
            name: getattr(change, name)
            for name in ("learner", "settings", "seed")
            if getattr(change, name) is not UNSET
        }
        with self._state.lock:
            version = self._changed(values)
        self._rebuilding.compile(version)
        with self._state.lock:
            version = self._changed(values)  # another request may have changed something else
            self._retrain(version.body, version.learner)

    def _changed(self, values: dict[str, Any]) -> Version:
        """The present version with other values."""
        state, present = self._state, self._state.version
        if not values:
            return present
        if present.learner is not None:
            raise Contradiction(
                f"{state.name} began with a saved learner, which has its own settings: build "
                "another model from the journal, or retrain it as it is"
            )
        body = {**present.body, **values}
        if "learner" in values and "settings" not in values:
            body["settings"] = {}
        kept = {name: body[name] for name in ("learner", "settings", "seed")}
        with refusing("$"):
            check_learner(replace(state.model, learner_file=None, **kept))
        return Version(present.number, body, None)

    def _retrain(self, body: dict[str, Any], learner: bytes | None = None) -> None:
        """Build a learner of another version, which then takes over."""
        state = self._state
        with state.lock:
            self._rebuilding.check_free()
            with refusing("$"):
                body = {**body, "code": code_of(body)}
                version = Version(state.journal.new_configuration(), body, learner)
                fresh(version)
            state.journal.check_room()
            self._versions.write(version).result()
            state.problem = ""
            try:
                self._rebuilding.build_again(None, version)
            except ServiceError as fault:
                self._versions.drop(version)
                if is_unlearnable(fault):
                    raise Refused(self._rebuilding.not_in_charge(version, fault)) from fault
                raise

    # The configuration file.

    def follow(self, model: Model) -> None:
        """Take over another configuration of the same model.

        Only what differs from the configuration that was followed before: labels and settings that
        were changed by requests stay, whether the process was started again or not. A learner that
        cannot be built is tried again at the next start; `problem` says why it is not in charge.
        """
        state, versions = self._state, self._versions
        asked = model.voice(self._state.roles.in_charge(model.name))
        wanted = self._state.version if asked is None else version_of(asked, 0)
        if identity(wanted) != (versions.followed() or {}).get("identity", identity(state.version)):
            self._rebuilding.settle()  # one learner is built at a time
            self._rebuilding.compile(wanted)
        with state.lock:
            state.model, state.problem = model, ""
            before = versions.followed() or {
                "labels": state.learner.labels,
                "identity": identity(state.version),
            }
            self._follow_labels(before["labels"], model.names)
            followed = identity(wanted)
            if followed != before["identity"] and not self._follow_learner(wanted):
                followed = identity(state.version)
            versions.note_followed(model.names, followed, model.title)

    def _follow_labels(self, before: list[Label], now: list[Label]) -> None:
        """Add the labels that the file names since, and retire those it names no more."""
        known = set(self._state.learner.labels)
        add = [label for label in now if label not in before]
        gone = [x for x in before if x in known and x not in now]
        if add or gone:
            self.change_labels(LabelChange(add=add, retire=gone)).result()

    def _follow_learner(self, wanted: Version) -> bool:
        """Build the learner that the file asks for; returns whether it can be built."""
        state, body = self._state, wanted.body
        if isinstance(body["labels"], list):  # retired ones stay, for earlier decisions
            retired = [x for x in state.learner.labels if x not in body["labels"]]
            body = {**body, "labels": [*body["labels"], *retired]}
        try:
            self._retrain(body, wanted.learner)
        except (Refused, Contradiction) as fault:
            state.problem = fault.detail
            log.error("%s: %s", state.name, state.problem)
            return False
        return True
