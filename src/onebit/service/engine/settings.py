"""Other labels, another learner, other settings; and a configuration file that has changed."""

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
from onebit.service.engine.pending import DONE, Pending, all_done
from onebit.service.engine.progress import until_done
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.faults import Busy, Contradiction, Refused, ServiceError, TooLarge
from onebit.service.journal import ChangeRow, Version, statements
from onebit.service.journal.queries import titled
from onebit.service.journal.relabelling import Relabelling, step
from onebit.service.messages import Card, Label, LabelChange, Retraining

_encode = msgspec.json.Encoder().encode
log = logging.getLogger("onebit.service")


class Settings(Rebuilding):
    """Changes the model from now on."""

    def submit_labels(self, change: LabelChange) -> Pending[Card]:
        """Labels that may be said from now on, and labels that may not."""
        with self._lock:
            trial, new = self._relabelled(change)
        if new:
            self._builder.warm_up(trial)  # more labels may be other code; no request waits for it
        with self._lock:
            trial, new = self._relabelled(change)  # another request may have changed something else
            known, back = self._learner.labels, self._retired.intersection(change.add)
            self._learner = trial
            changes = [("label", label) for label in new]
            changes += [("restore", label) for label in known if label in back]
            gone = [label for label in dict.fromkeys(change.retire) if label not in self._retired]
            changes += [("retire", label) for label in gone]
            commits = [self._change(kind, {"label": label}) for kind, label in changes]
            self._retired = (self._retired - back) | set(change.retire)
        return Pending(all_done(commits), self.card())

    def _relabelled(self, change: LabelChange) -> tuple[Learner, list[Label]]:
        """The learner with the labels that are new to it, and these; all of them or none."""
        known = self._learner.labels
        for i, label in enumerate(change.retire):
            if label not in known:
                raise Refused(f"{label!r} is not a label", where=f"$.retire[{i}]")
        new = [label for label in dict.fromkeys(change.add) if label not in known]
        left = {*known, *new} - (self._retired - set(change.add))
        if not left - set(change.retire):
            raise Refused("no label would be left", where="$.retire")
        if len(known) + len(new) > self._limits.labels:
            raise TooLarge(f"a model has at most {self._limits.labels:,} labels")
        self.journal.check_room(len(change.add) + len(change.retire))
        trial = self._learner.copy() if new else self._learner
        for label in new:
            with refusing(f"$.add[{change.add.index(label)}]"):
                check_texts([label])
                trial = self._builder.with_label(trial, label)
        return trial, new

    def _change(self, kind: str, body: dict[str, Any]) -> Future[None]:
        position, time = self.journal.stamp()
        row = ChangeRow(position, self.number, time, kind, None, _encode(body).decode())
        self._reached = position
        if kind == "label":
            self._labelled_at = position
        return self.journal.append(row).done

    def submit_retrain(self, change: Retraining) -> Pending[Card]:
        """Another learner from the same journal; the present one answers until it is there."""
        values = {
            name: getattr(change, name)
            for name in ("learner", "settings", "seed")
            if getattr(change, name) is not UNSET
        }
        with self._lock:
            version = self._changed(values)
        self._compile(version)
        with self._lock:
            version = self._changed(values)  # another request may have changed something else
            self.retrain(version.body, version.learner)
        return Pending(DONE, self.card())

    @property
    def relabelling(self) -> Relabelling:
        """What earlier labels are called now."""
        return self._builder.relabelling

    def submit_relabel(self, names: Mapping[Label, Label | None]) -> Pending[Card]:
        """Rename labels, merge them into others, or remove them (None).

        A learner of the labels that are left is built from the journal, with the answers read by
        their new names. The present one answers until it is there.
        """
        with self._lock:
            known, present = self._learner.labels, self._version
            for old in names:
                if old not in known:
                    raise Refused(f"{old!r} is not a label")
            named = [names.get(label, label) for label in known]
            left = [label for label in dict.fromkeys(named) if label is not None]
            if len(left) < 2:
                raise Refused("two labels at least have to be left")
            if present.learner is not None:
                raise Contradiction(f"{self.name} began with a saved learner, which has its labels")
            with refusing("$"):
                check_texts(label for label in names.values() if label is not None)
            last, time = self.journal.stamp(0)
            renamed = step(present.number, time, names, [x for x in known if x not in names])
            body = {
                **present.body,
                "labels": left,
                "labels_since": last - 1,
                "relabelled": [*present.body.get("relabelled", ()), renamed],
            }
            self.retrain(body)
            self._retired -= set(names)
        return Pending(DONE, self.card())

    def _changed(self, values: dict[str, Any]) -> Version:
        """The present version with other values."""
        present = self._version
        if not values:
            return present
        if present.learner is not None:
            raise Contradiction(
                f"{self.name} began with a saved learner, which has its own settings: build "
                "another model from the journal, or retrain it as it is"
            )
        body = {**present.body, **values}
        if "learner" in values and "settings" not in values:
            body["settings"] = {}
        kept = {name: body[name] for name in ("learner", "settings", "seed")}
        with refusing("$"):
            check_learner(replace(self.model, learner_file=None, **kept))
        return Version(present.number, body, None)

    def retrain(self, body: dict[str, Any], learner: bytes | None = None) -> None:
        """Build a learner of another configuration, which then takes over."""
        with self._lock:
            if self._rebuilding is not None:
                progress = self._building.get(self.name)
                left = until_done({} if progress is None else {self.name: progress})
                raise Busy("a learner is being built already", retry_after=left or 5)
            with refusing("$"):
                body = {**body, "code": code_of(body)}
                version = Version(self.journal.new_configuration(), body, learner)
                fresh(version)
            self.journal.check_room()
            self._write_version(version).result()
            self.problem = ""
            try:
                self._build_again(None, version)
            except ServiceError as fault:
                self._drop_version(version)
                if is_unlearnable(fault):
                    raise Refused(self._not_in_charge(version, fault)) from fault
                raise

    def follow(self, model: Model) -> None:
        """Take over another configuration of the same model.

        Only what differs from the configuration that was followed before: labels and settings that
        were changed by requests stay, whether the process was started again or not. A learner that
        cannot be built is tried again at the next start; `problem` says why it is not in charge.
        """
        wanted = version_of(model, 0)
        if identity(wanted) != (self._followed() or {}).get("identity", identity(self._version)):
            self.settle()  # one learner is built at a time
            self._compile(wanted)
        with self._lock:
            self.model, self.problem = model, ""
            now = {"labels": model.names, "identity": identity(wanted)}
            before = self._followed() or {
                "labels": self._learner.labels,
                "identity": identity(self._version),
            }
            known = set(self._learner.labels)
            add = [label for label in model.names if label not in before["labels"]]
            gone = [x for x in before["labels"] if x in known and x not in model.names]
            if add or gone:
                self.submit_labels(LabelChange(add=add, retire=gone)).wait()
            if now["identity"] != before["identity"]:
                body = wanted.body
                if isinstance(body["labels"], list):  # retired ones stay, for earlier decisions
                    retired = [x for x in self._learner.labels if x not in model.names]
                    body = {**body, "labels": [*body["labels"], *retired]}
                try:
                    self.retrain(body, wanted.learner)
                except (Refused, Contradiction) as fault:
                    self.problem, now["identity"] = fault.detail, identity(self._version)
                    log.error("%s: %s", self.name, self.problem)
            if now != self._followed():
                note = self._follow_note(now["labels"], now["identity"])
                self.journal.append(statements=[note]).done.result()
            if model.title != (self.journal.note(titled(self.number)) or ""):
                note = statements.note(titled(self.number), model.title)
                self.journal.append(statements=[note]).done.result()
