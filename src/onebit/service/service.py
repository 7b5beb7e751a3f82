"""The service: several models over one journal, without HTTP.

    service = Service(check("news.toml"))
    told = service.models["news"].decide({"goal": 1, "match": 2})
    service.models["news"].feedback(told.id, right=True)
    service.close()

Two threads work behind the scenes. One does what time brings: silence that is read as wrong,
snapshots. The other waits for the journal to fail; it then reads it anew, builds all learners from
what is on disk, and lets requests in again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from onebit.service import snapshots
from onebit.service.configuration import Configuration, Difference, Model, difference
from onebit.service.engine import Engine, parsed_id
from onebit.service.engine.building import REFUSED, is_unlearnable
from onebit.service.engine.progress import Progress, told, until_done
from onebit.service.faults import (
    Contradiction,
    ServiceError,
    Superseded,
    Unavailable,
    UnknownDecision,
    UnknownModel,
)
from onebit.service.journal import Journal
from onebit.service.journal.clock import Clock
from onebit.service.tally import JournalTally
from onebit.service.tokens import is_loopback

log = logging.getLogger("onebit.service")
TICK = 1.0  # seconds
RETRY = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between attempts to recover; the last goes on


def _is_of_one_model(error: Exception) -> bool:
    """Whether only a single model cannot be built: the journal and its disk are as they should."""
    return is_unlearnable(error) or not isinstance(error, Unavailable | OSError | sqlite3.Error)


class Service:
    """All models of a configuration. Closing it, or leaving a `with`, waits for what was accepted.

    clock, steady, tokens: for tests, as `Journal` takes them. ticks: whether a thread calls `tick`.
    building: tells by name how far the learners are that are being built, also before the models
    are there.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        clock: Callable[[], float] | None = None,
        steady: Callable[[], float] | None = None,
        tokens: Callable[[], str] | None = None,
        ticks: bool = True,
        snapshot_every: int = 10_000,
        building: dict[str, Progress] | None = None,
    ) -> None:
        self.configuration = configuration
        self._snapshot_every = snapshot_every
        self.building = {} if building is None else building
        options = configuration.service
        given = {} if tokens is None else {"tokens": tokens}
        self.journal = Journal(
            options.journal,
            durability=options.durability,
            queue=options.limits.queue,
            clock=clock,
            steady=steady,
            **given,
        )
        log.info(
            "journal %s, SQLite %s, durability %s",
            options.journal, sqlite3.sqlite_version, options.durability,
        )  # fmt: skip
        self._unready = "the models are being read"
        self._stopping = threading.Event()
        self._failed = threading.Event()
        self._lock = threading.RLock()  # for changes of the configuration
        self.journal.on_failure = self._on_failure
        # Other threads read these three, so they are replaced, never changed.
        self._models: Mapping[str, Engine] = {}
        self._names: Mapping[int, str] = {}
        self._down: Mapping[str, str] = {}
        self._folder = Path(f"{self.journal.path}.snapshots")
        try:
            snapshots.drop_newer(self._folder, self.journal.position)
            for name, model in configuration.models.items():
                self._open(name, model)
            self._unready = ""
        except BaseException:
            self.journal.close()
            raise
        self._threads = [threading.Thread(target=self._recover_all, daemon=True)]
        if ticks:
            self._threads.append(threading.Thread(target=self._tick_all, daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def models(self) -> Mapping[str, Engine]:
        return self._models

    @property
    def tally(self) -> JournalTally:
        return self.journal.tally

    @property
    def clock(self) -> Clock:
        return self.journal.clock

    def _opened(self, model: Model) -> Engine:
        options = self.configuration.service
        engine = Engine(
            self.journal,
            model,
            folder=self._folder,
            limits=options.limits,
            keep=options.snapshots,
            snapshot_every=self._snapshot_every,
            retention=options.retention,
            building=self.building,
        )
        try:
            engine.follow(model)
        except BaseException:
            engine.abandon()
            raise
        return engine

    def _open(self, name: str, model: Model) -> None:
        """Build a model. If that is not possible, it is down alone, and the others go on."""
        try:
            engine = self._opened(model)
        except Exception as error:
            if not _is_of_one_model(error):
                raise
            self._take_down(name, error)
        else:
            self._publish(name, engine)

    def _publish(self, name: str, engine: Engine) -> None:
        """Let requests reach a model."""
        self._models = {**self._models, name: engine}
        self._names = {**self._names, engine.number: name}
        self._down = {known: why for known, why in self._down.items() if known != name}

    def _take_down(self, name: str, error: Exception) -> None:
        """Let no requests reach a model that cannot be built; its decisions stay known."""
        shown = None if isinstance(error, (*REFUSED, ServiceError)) else error  # with a traceback
        log.error("model %s is down, the others are not: %s", name, error, exc_info=shown)
        engine = self._models.get(name)
        if engine is not None:
            engine.abandon()
        self._models = {known: e for known, e in self._models.items() if known != name}
        number = self.journal.models().get(name)
        if number is not None:
            self._names = {**self._names, number: name}
        self._down = {**self._down, name: str(error) or type(error).__name__}

    def warm_up(self) -> None:
        """Compile what requests will need."""
        for name, engine in self._models.items():
            try:
                engine.warm_up()
            except Exception as error:
                if not _is_of_one_model(error):
                    raise
                self._take_down(name, error)

    def model(self, name: str) -> Engine:
        if name in self._down:
            raise self.fault_of(name)
        try:
            return self._models[name]
        except KeyError:
            known = ", ".join(self._models)
            raise UnknownModel(f"there is no model {name!r}; there are: {known}") from None

    @property
    def down(self) -> Mapping[str, str]:
        """Models that could not be built, and why."""
        return self._down

    def fault_of(self, name: str) -> Unavailable:
        """What those are told who ask for a model that is down."""
        return Unavailable(
            f"model {name!r} is down, because it could not be built: {self._down[name]}. Its "
            "decisions and answers are in the journal; it is tried again at SIGHUP and at the "
            "next start",
            retry_after=60,
        )

    def model_of(self, id: str) -> str:
        """The name of the model that made a decision."""
        position, token = parsed_id(id)
        for name, engine in self._models.items():
            if engine.has_lately(position, token):
                return name
        found = self.journal.decision(position)
        if found is None or found[0].token != token or found[0].model not in self._names:
            raise UnknownDecision(f"there is no decision {id!r}")
        return self._names[found[0].model]

    def unready(self) -> str:
        """Why requests cannot be taken now; empty if they can."""
        failure = self.journal.failure
        if failure is not None:
            return told(f"the journal cannot be written: {failure}", self.building)
        if not self._unready and self._down and not self._models:
            return "no model could be built; the log says why"
        return self._unready and told(self._unready, self.building)

    def check_ready(self) -> None:
        """Unavailable if requests cannot be taken now."""
        if reason := self.unready():
            raise Unavailable(reason, retry_after=until_done(self.building))

    # Another configuration.

    def reload(self, configuration: Configuration) -> Difference:
        """Follow another configuration without losing a request; says what was different."""
        with self._lock:
            changed = difference(self.configuration, configuration)
            options, running = configuration.service, self.configuration.service
            if configuration.tokens is None and not is_loopback(running.host):
                # The new host may be loopback, but the port stays open on the old one.
                raise ValueError(
                    f"the service listens on {running.host!r} until it is restarted, so that it "
                    "needs tokens: keep them until then"
                )
            kept = {key: getattr(running, key) for key in changed.restart}
            followed, problems = dict(self.configuration.models), []
            for name in [*changed.removed, *self._down]:
                self._down = {known: why for known, why in self._down.items() if known != name}
                engine = self._models.get(name)
                if engine is None:
                    continue
                self._models = {known: e for known, e in self._models.items() if e is not engine}
                self._names = {n: known for n, known in self._names.items() if known != name}
                engine.close()
            for name, model in configuration.models.items():
                try:
                    if name in self._models:
                        self._models[name].follow(model)
                    else:
                        engine = self._opened(model)
                        engine.warm_up()
                        self._publish(name, engine)
                except (*REFUSED, OSError, ServiceError) as error:
                    problems.append(f"[models.{name}]: {error}")
                    if name not in self._models:
                        self._take_down(name, error)
                else:
                    followed[name] = model
                    if problem := self._models[name].problem:
                        problems.append(f"[models.{name}]: {problem}")
            for engine in self._models.values():
                engine.limit(options.limits, options.snapshots, options.retention)
            self.journal.limit(options.limits.queue)
            self.journal.trust_clock()
            # What was not followed counts as different the next time.
            self.configuration = replace(
                configuration,
                service=replace(options, **kept),
                models={name: followed[name] for name in self._models},
            )
            if problems:
                raise Contradiction("; ".join(problems))
            return changed

    # Behind the scenes.

    def tick(self) -> None:
        """Do what is due in all models."""
        self.journal.stamp(0)  # notices a clock that has jumped, also when nobody asks for anything
        for engine in self._models.values():
            try:
                engine.tick()
            except ServiceError as fault:
                log.warning("%s: %s", engine.name, fault.detail)
            except Exception:
                log.exception("%s: what was due could not be done", engine.name)

    def _tick_all(self) -> None:
        while not self._stopping.wait(TICK):
            if self.journal.failure is None:
                self.tick()

    def _on_failure(self, error: Exception) -> None:
        if isinstance(error, Superseded):
            self._end(error)
            return
        log.error("the journal cannot be written, so nothing is accepted: %s", error)
        self._failed.set()

    def _end(self, fault: Superseded) -> None:
        """Another process has the journal: from now on everything is refused."""
        log.critical("the service ends: %s", fault)
        self.on_end(fault)

    def on_end(self, fault: Superseded) -> None:
        """Called when the service can only be closed; the owner of the service replaces it."""

    def _recover_all(self) -> None:
        while True:
            self._failed.wait()
            if self._stopping.is_set():
                return
            self._failed.clear()
            self.recover()

    def recover(self) -> None:
        """Read the journal anew until that works, and build all learners from it."""
        attempt = 0
        self._unready = "the journal is being read anew"
        while not self._stopping.is_set():
            try:
                with ExitStack() as locks:  # nobody is half way through a request meanwhile
                    locks.enter_context(self._lock)
                    for engine in self._models.values():
                        locks.enter_context(engine.paused())
                    self.journal.recover(self._load_all)
            except Superseded as fault:
                self._end(fault)
                return
            except Exception as error:
                log.error("the journal cannot be read anew yet: %s", error)
                self._stopping.wait(RETRY[min(attempt, len(RETRY) - 1)])
                attempt += 1
            else:
                self._unready = ""
                log.warning("the journal was read anew; requests are accepted again")
                self.on_recovery()
                return

    def on_recovery(self) -> None:
        """Called after each recovery; the owner of the service replaces it."""

    def _load_all(self) -> None:
        snapshots.drop_newer(self._folder, self.journal.position)
        for name, engine in self._models.items():
            try:
                engine.load()
            except Exception as error:
                if not _is_of_one_model(error):
                    raise
                self._take_down(name, error)

    def give_up(self, reason: str) -> None:
        """Write nothing any more, not even snapshots: the files are gone."""
        self.journal.give_up(reason)

    def close(self) -> None:
        """Answer what was accepted, write snapshots, and let go of the journal."""
        self._unready = "the service stops"
        self._stopping.set()
        self._failed.set()
        for thread in self._threads:
            thread.join()
        for engine in self._models.values():
            try:
                engine.close()
            except Exception:
                log.exception("%s: no snapshot was written", engine.name)
        self.journal.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
