"""The configuration of the service: one TOML file, checked as a whole.

    [service]
    port = 8331
    tokens = "tokens.toml"

    [models.news]
    labels = ["sport", "politics", "tech"]
    silence = { wrong_after = "24h" }

`check` reads a file and lists everything that is wrong with it at once. Times are texts with a unit
("90s", "24h", "30d"), sizes are bytes, and paths are relative to the folder of the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from onebit import algorithms
from onebit.core.settings import unknown_setting
from onebit.datasets import Steps
from onebit.learner.learner import Learner
from onebit.registry.lookup import learner_named, name_of
from onebit.registry.recipes import check_made_of_settings, read_recipe
from onebit.service.tokens import Tokens, is_loopback, nearest, read_tokens

Seconds = Annotated[float, Meta(gt=0, description="a time")]
Count = Annotated[int, Meta(ge=1, le=2**40)]
Label = str | int

LARGEST = 2**20  # bytes of a file
_S = TypeVar("_S", bound=Struct)


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[service.limits]: what is beyond is refused, never dropped."""

    body: Count = 2**20  # bytes of a request
    batch: Count = 1000  # decisions or answers in a request
    labels: Count = 1000  # of a model
    features: Count = 10_000  # names or numbers of a context
    open_decisions: Count = 1_000_000  # of a model, that wait for feedback
    queue: Count = 4096  # requests that wait for the disk
    connections: Count = 1000


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[service.timeouts]"""

    body: Seconds = 10.0  # for the head of a request, its body, and for reading some of the answer
    idle: Seconds = 30.0  # that a connection is kept between requests
    stop: Seconds = 30.0  # for answering accepted requests after a signal to stop


class ServiceOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[service]"""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8331
    journal: str = "onebit.journal"
    tokens: str | None = None
    durability: Literal["full", "normal"] = "full"
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    snapshots: Annotated[int, Meta(ge=1, le=1000)] = 3  # of each model are kept
    retention: Seconds | None = None  # age at which learned rounds may be compacted; None: never
    access_log: bool = True


# When a learner that does not speak is to speak: once the interval of its difference to the speaker
# is above 0.
Promote = Literal["by hand", "when better"]


class WrongAfter(Struct, frozen=True, forbid_unknown_fields=True):
    """silence = { wrong_after = "24h" }: no answer for so long is read as wrong."""

    wrong_after: Seconds


class ModelOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[models.NAME]

    A model starts from nothing (labels, perhaps learner and settings), from a recipe of `tune`
    (recipe, labels), or from a saved learner (learner_file). `check` fills in learner, settings and
    prepare from the recipe, and all of these from the saved learner.
    """

    labels: list[str | int] | Annotated[int, Meta(ge=2)] | None = None
    learner: str = "OneBit"
    settings: dict[str, Any] = {}
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    recipe: str | None = None
    learner_file: str | None = None
    silence: Literal["nothing"] | WrongAfter = "nothing"
    expires_after: Seconds | None = 30 * 86400.0  # feedback that comes later is refused
    revisions: bool = False  # whether an answer may be changed
    deferred: bool = False  # whether a decision counts only after it was shown
    title: str = ""
    # The most names with weights of their own; None: as many as fit into 256 MiB.
    vocabulary: Annotated[int, Meta(ge=1, le=2**24)] | None = None
    # How labels are right, for comparisons: exactly one (true), at most one, or each by itself.
    exclusive: bool | Literal["at most one"] = True
    apprentice: bool = False  # whether another system speaks at first
    promote: Promote = "by hand"


class ShadowOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[models.NAME.shadows.SHADOW]: as for a model, whose labels it has."""

    learner: str = "OneBit"
    settings: dict[str, Any] = {}
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    recipe: str | None = None
    vocabulary: Annotated[int, Meta(ge=1, le=2**24)] | None = None
    promote: Promote = "by hand"


class Model(ModelOptions, frozen=True, kw_only=True):
    """The options of a model that were checked, with all that its files say."""

    name: str
    prepare: tuple[str, ...] = ()  # steps for every context: `datasets.Steps`
    digest: str = ""  # of the saved learner
    shadows: dict[str, Model] = {}

    def voice(self, name: str) -> Model | None:
        """The model, or one of its shadows; None: there is none with this name."""
        return self if name == self.name else self.shadows.get(name)

    @property
    def names(self) -> list[Any]:
        """The labels as a list."""
        return list(range(self.labels)) if isinstance(self.labels, int) else list(self.labels or [])

    @property
    def wrong_after(self) -> float | None:
        """Seconds after which silence is read as wrong; None: never."""
        return None if self.silence == "nothing" else self.silence.wrong_after

    def make(self) -> Learner:
        """The learner at the start of its journal."""
        if self.learner_file is not None:
            return algorithms.load(self.learner_file)
        make: Any = learner_named(self.learner)
        given = {} if self.vocabulary is None else {"vocabulary": self.vocabulary}
        return make(self.labels, seed=self.seed, **self.settings, **given)


class Configuration(Struct, frozen=True, kw_only=True):
    """A configuration that was checked."""

    path: str
    service: ServiceOptions
    models: dict[str, Model]
    tokens: Tokens | None = None  # None: everyone on this machine may do everything


class ConfigurationError(ValueError):
    """All that is wrong with a configuration."""

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{path} has {count}:", *(f"  {text}" for text in problems)]))


def check(
    path: str | os.PathLike[str], *, host: str | None = None, port: int | None = None
) -> Configuration:
    """The configuration in a file; a ConfigurationError lists everything that is wrong with it.

    Nothing is written or opened for writing. host, port: win over the file.
    """
    name = os.fspath(path)
    problems = _Problems()
    given = _parsed(name)
    for key in given.keys() - {"service", "models"}:
        problems.add("", _unknown(key, ["service", "models"], "table"))
    flags = {"host": host, "port": port}
    options = _read(
        ServiceOptions,
        {**_table(given, "service", problems), **{k: v for k, v in flags.items() if v is not None}},
        "[service]",
        problems,
    )
    if options is not None and options.limits.batch > options.limits.queue:
        problems.add(
            "[service.limits] batch",
            f"a batch of {options.limits.batch} never fits into queue = {options.limits.queue}; "
            "lower batch, or raise queue",
        )
    tables = _table(given, "models", problems)
    if not tables and not problems.texts:
        problems.add("", 'no model; add [models.NAME] with labels = ["yes", "no"]')
    options = options or ServiceOptions()
    folder = Path(name).absolute().parent
    options = replace(
        options,
        journal=str(folder / options.journal),
        tokens=None if options.tokens is None else str(folder / options.tokens),
    )
    models: dict[str, Model] = {}
    for model, table in tables.items():
        made = _model(model, table, folder, options.limits, problems)
        if made is not None:
            models[model] = made
    for model in models.values():
        if options.retention is not None and (model.shadows or model.apprentice):
            text = "retention deletes the rounds that shadows are built from; leave one of them out"
            problems.add(f"[models.{model.name}]", text)
    tokens = None
    with problems.collected("[service] tokens"):
        tokens = _tokens(options, tables)
    if problems.texts:
        raise ConfigurationError(name, problems.texts)
    return Configuration(path=name, service=options, models=models, tokens=tokens)


# Reading tables.


class _Problems:
    """What is wrong, in the order of the file."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, where: str, text: str) -> None:
        self.texts.append(f"{where}: {text}" if where else text)

    @contextmanager
    def collected(self, where: str) -> Iterator[None]:
        """Errors inside are collected instead of raised."""
        try:
            yield
        except OSError as error:
            self.add(where, f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except (ValueError, TypeError, MemoryError) as error:
            self.add(where, str(error))


def _parsed(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise OSError(f"the configuration {path} cannot be read: {error.strerror}") from None
    try:
        if len(text) > LARGEST:
            raise ValueError(f"a configuration has at most {LARGEST:,} bytes")
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        problem = "not text in UTF-8"
    except RecursionError:
        problem = "tables in tables without end"
    except ValueError as error:
        problem = f"not TOML: {error}"
    raise ConfigurationError(path, [problem]) from None


def _table(given: dict[str, Any], key: str, problems: _Problems) -> dict[str, Any]:
    table = given.get(key, {})
    if isinstance(table, dict):
        return table
    problems.add(f"[{key}]", f"must be a table, not {table!r}")
    return {}


def _unknown(key: str, known: Sequence[str], sort: str = "key") -> str:
    return f"unknown {sort} {key!r}; {nearest(key, known)}"


def _read(kind: type[_S], table: Any, where: str, problems: _Problems) -> _S | None:
    """A table as a struct; None if something is wrong with it."""
    if not isinstance(table, dict):
        problems.add(where, f"must be a table, not {table!r}")
        return None
    before = len(problems.texts)
    known = {field.name: field.type for field in fields(kind)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            problems.add(where, _unknown(key, list(known)))
        elif isinstance(known[key], type) and issubclass(known[key], Struct):
            values[key] = _read(known[key], value, f"{where[:-1]}.{key}]", problems)
        else:
            with problems.collected(f"{where} {key}"):
                values[key] = _value(known[key], value)
    return kind(**values) if len(problems.texts) == before else None


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _value(kind: Any, value: Any) -> Any:
    if kind in (Seconds, Optional[Seconds]):  # noqa: UP045
        return duration(value)
    if WrongAfter in get_args(kind):
        return _silence(value)
    if get_origin(kind) is Literal and value not in get_args(kind):
        raise ValueError(f"must be {' or '.join(map(repr, get_args(kind)))}, not {value!r}")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said = re.sub(r"`([^`]+)`", lambda quoted: _in_words(quoted[1]), str(error))
        raise ValueError(f"{said[0].lower()}{said[1:]}") from None


def _in_words(types: str) -> str:
    names = [name for name in types.split(" | ") if name != "null"]
    return " or ".join(_WORDS.get(name, name) for name in names)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})\s*")
_LONGEST = 100 * 365 * 86400


def duration(text: Any) -> float:
    """The seconds of "90s", "24h", "30d" or "1h30m"."""
    parts = _DURATION.findall(text) if isinstance(text, str) else []
    if not parts or _DURATION.sub("", text):
        units = ", ".join(_UNITS)
        raise ValueError(f'a time is text with a unit ({units}), as in "24h", not {text!r}')
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 0 < seconds <= _LONGEST:
        raise ValueError(f"a time is above 0 and at most 100 years, not {text!r}")
    return seconds


def _silence(value: Any) -> Any:
    if value == "nothing":
        return value
    if isinstance(value, dict) and value.keys() == {"wrong_after"}:
        return WrongAfter(duration(value["wrong_after"]))
    raise ValueError(f'must be "nothing" or {{ wrong_after = "24h" }}, not {value!r}')


# Models.

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FROM_RECIPE = ("learner", "settings")
_FROM_LEARNER = ("labels", "learner", "settings", "seed", "recipe")


def _model(
    name: str, table: Any, folder: Path, limits: Limits, problems: _Problems
) -> Model | None:
    where = f"[models.{name}]"
    if not _NAME.fullmatch(name):
        problems.add(
            where, "a model's name has up to 64 of A-Z a-z 0-9 . _ - and starts with one of A-Z 0-9"
        )
    before = len(problems.texts)
    given = _table(table, "shadows", problems) if isinstance(table, dict) else {}
    if isinstance(table, dict):
        table = {key: value for key, value in table.items() if key != "shadows"}
    options = _read(ModelOptions, table, where, problems)
    if options is None or len(problems.texts) > before:
        return None
    source = "learner_file" if options.learner_file is not None else "recipe"
    told = _FROM_LEARNER if options.learner_file is not None else _FROM_RECIPE
    if getattr(options, source) is not None:
        for key in [key for key in told if key in table]:
            problems.add(f"{where} {key}", f"leave it out: {source} says it")
    if options.labels is None and options.learner_file is None:
        problems.add(where, 'no labels; add labels = ["yes", "no"], or learner_file = "FILE"')
    if len(problems.texts) > before:
        return None
    model = Model(
        name=name, **{key: getattr(options, key) for key in ModelOptions.__struct_fields__}
    )
    with problems.collected(f"{where} {source}"):
        if options.learner_file is not None:
            model = _with_saved_learner(model, folder)
        elif options.recipe is not None:
            model = _with_recipe(model, folder)
    if len(problems.texts) == before:
        with problems.collected(where):
            _check_model(model, limits)
    if len(problems.texts) == before:
        model = _with_shadows(model, given, folder, limits, problems)
    return model if len(problems.texts) == before else None


def _with_shadows(
    model: Model, tables: dict[str, Any], folder: Path, limits: Limits, problems: _Problems
) -> Model:
    """The model with its shadows, which are models with the same labels."""
    if model.promote != "by hand" and not model.apprentice:
        text = "the learner of a model speaks already, unless apprentice = true"
        problems.add(f"[models.{model.name}] promote", text)
    made: dict[str, Model] = {}
    for name, table in tables.items():
        shadow = _shadow(name, table, model, folder, limits, problems)
        if shadow is not None:
            made[name] = shadow
    return replace(model, shadows=made)


def _shadow(
    name: str, table: Any, model: Model, folder: Path, limits: Limits, problems: _Problems
) -> Model | None:
    where = f"[models.{model.name}.shadows.{name}]"
    if not _NAME.fullmatch(name) or name == model.name:
        problems.add(where, "a shadow has a name like a model, but not that of its model")
    options = _read(ShadowOptions, table, where, problems)
    if options is None:
        return None
    if options.recipe is not None:
        for key in [key for key in _FROM_RECIPE if key in table]:
            problems.add(f"{where} {key}", "leave it out: recipe says it")
    told = {key: getattr(options, key) for key in ShadowOptions.__struct_fields__}
    shadow = replace(model, learner_file=None, digest="", prepare=(), **told)
    with problems.collected(f"{where} recipe"):
        if options.recipe is not None:
            shadow = _with_recipe(shadow, folder)
    with problems.collected(where):
        _check_model(shadow, limits)
    return shadow


def _with_saved_learner(model: Model, folder: Path) -> Model:
    path = folder / str(model.learner_file)
    learner = algorithms.load(path)
    return replace(
        model,
        learner_file=str(path),
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        labels=learner.labels,
        learner=name_of(type(learner)),
        settings=learner.settings,
        seed=learner.seed,
    )


def _with_recipe(model: Model, folder: Path) -> Model:
    path = folder / str(model.recipe)
    recipe = read_recipe(path)
    if Steps(recipe.prepare).order_matters:
        raise ValueError(
            f"prepare = {list(recipe.prepare)} needs earlier rows, which the service does not "
            "keep; tune without tfidf and nystroem"
        )
    return replace(
        model,
        recipe=str(path),
        learner=name_of(recipe.learner),
        settings=recipe.settings,
        prepare=recipe.prepare,
    )


_ELSEWHERE = {
    "seed": "give it to the model: seed = 7",
    "vocabulary": "give it to the model: vocabulary = 200_000",
    "labels": 'give them to the model: labels = ["yes", "no"]',
}


def _check_model(model: Model, limits: Limits) -> None:
    """Refuse what cannot be run, by making the learner."""
    if len(model.names) > limits.labels:
        raise ValueError(
            f"{len(model.names)} labels, and [service.limits] labels = {limits.labels}"
        )
    wrong_after, expires_after = model.wrong_after, model.expires_after
    if wrong_after is not None and expires_after is not None and wrong_after > expires_after:
        raise ValueError("silence: wrong_after is longer than expires_after")
    check_learner(model)
    if model.learner_file is None:
        model.make()


def check_learner(model: Model) -> None:
    """Refuse a learner or settings that the service cannot run."""
    kind = learner_named(model.learner)
    if model.wrong_after is not None and kind.full_information:
        raise ValueError(
            f"silence: {model.learner} must be told the true label; silence names none"
        )
    if model.learner_file is not None:
        return
    check_made_of_settings(kind)
    for name in model.settings:
        if name in _ELSEWHERE:
            raise ValueError(f"settings: no {name!r} here; {_ELSEWHERE[name]}")
        if name not in kind.declared:
            raise ValueError(f"settings: {unknown_setting(kind, name)}")
    if model.settings.get("silence") == "wrong":
        raise ValueError(
            'settings: silence "wrong" needs a time here: silence = { wrong_after = "24h" }'
        )


# Tokens.


def _tokens(options: ServiceOptions, models: dict[str, Any]) -> Tokens | None:
    if options.tokens is None:
        if not is_loopback(options.host):
            raise ValueError(
                f"host {options.host!r} can be reached from other machines, and there are no "
                'tokens; add tokens = "FILE", or host = "127.0.0.1"'
            )
        return None
    tokens = read_tokens(options.tokens)
    for token in tokens.known:
        for name in [name for name in token.models if name not in ("*", *models)]:
            known = _unknown(name, list(models), "model")
            raise ValueError(f"{options.tokens}: [{token.name}] models: {known}")
    return tokens


# Reloading.


class Difference(Struct, frozen=True, kw_only=True):
    """What a reload has to do. Models are named; a model may be in several lists."""

    added: list[str] = []
    removed: list[str] = []
    retrained: list[str] = []  # a learner from the journal, by other settings
    new_labels: dict[str, list[Label]] = {}
    retired_labels: dict[str, list[Label]] = {}
    policies: list[str] = []  # take effect at once: silence, expiry, revisions, ...
    shadows: list[str] = []  # learners beside the one that speaks
    service: list[str] = []  # keys of [service] that take effect at once
    restart: list[str] = []  # keys of [service] that need a restart

    def __bool__(self) -> bool:
        return self != Difference()


_RETRAIN = ("learner", "settings", "seed", "prepare", "digest", "vocabulary")
_POLICIES = ("silence", "expires_after", "revisions", "deferred", "title")
_SHADOWS = ("shadows", "exclusive", "apprentice", "promote")
_AT_ONCE = ("tokens", "limits", "snapshots", "retention", "access_log")


def difference(old: Configuration, new: Configuration) -> Difference:
    """What changes from one configuration to another. The tokens are always read again."""
    both = [name for name in new.models if name in old.models]

    def differs(keys: Sequence[str], name: str) -> bool:
        before, after = old.models[name], new.models[name]
        return any(getattr(before, key) != getattr(after, key) for key in keys)

    def labels(first: Configuration, second: Configuration) -> dict[str, list[Label]]:
        """The labels that only the first has."""
        found = {
            name: [x for x in first.models[name].names if x not in second.models[name].names]
            for name in both
        }
        return {name: only for name, only in found.items() if only}

    keys = [
        key
        for key in ServiceOptions.__struct_fields__
        if getattr(old.service, key) != getattr(new.service, key)
    ]
    return Difference(
        added=[name for name in new.models if name not in old.models],
        removed=[name for name in old.models if name not in new.models],
        retrained=[*filter(partial(differs, _RETRAIN), both)],
        new_labels=labels(new, old),
        retired_labels=labels(old, new),
        policies=[*filter(partial(differs, _POLICIES), both)],
        shadows=[*filter(partial(differs, _SHADOWS), both)],
        service=[key for key in keys if key in _AT_ONCE],
        restart=[key for key in keys if key not in _AT_ONCE],
    )
