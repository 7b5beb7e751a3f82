"""Study files: data, experiments, and the paper's results to compare with.

A study is a TOML file; docs/studies.md explains it by example. Errors name the file and the place.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from onebit.datasets import Steps
from onebit.datasets.catalogue import KNOWN
from onebit.feedback.channels import check, link
from onebit.lab.lookup import learner_named
from onebit.lab.recipes import check_made_of_settings, settings_of, wrong_setting
from onebit.lab.studies.conditions import ChannelSpec, Setting
from onebit.learner import Learner

CLEAN = "clean"
LARGEST_FILE = 2**20  # bytes
LARGEST_GRID = 10_000
_DRAWN = [entry.name for entry in KNOWN if entry.drawn]


class _Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Data(_Strict, frozen=True):
    """A data set of the paper, and the names under which it or a substitute is found."""

    sources: list[str]  # names as in `onebit data list`, the best first
    rows: int | None = None  # rows drawn, or kept of a table
    prepare: list[str] = []
    # How a user's own file is read, as in `datasets.read`.
    label: str = ""
    text: str = ""
    ngrams: int | None = None
    categories: tuple[str, ...] = ()
    features: int | None = None
    delimiter: str = ""
    encoding: str = ""
    note: str = ""  # how it differs from the paper's data

    @property
    def columns(self) -> tuple[tuple[str, Any], ...]:
        named = ("label", "text", "ngrams", "categories", "features", "delimiter", "encoding")
        return tuple((key, getattr(self, key)) for key in named if getattr(self, key))


class Method(_Strict, frozen=True):
    """A learner under the paper's name for it, with a grid of settings: lists are tried out.

    This is an entry of a study file. A `Recipe` in contrast has one value per setting.
    """

    name: str
    learner: str  # "Banditron"; "module:Mine" for a learner of an imported module
    settings: dict[str, Setting | list[Setting]] = {}
    on: dict[str, dict[str, Setting | list[Setting]]] = {}  # per data set, overriding `settings`
    knows_flips: bool = False  # rho0 and rho1 are the channel's
    slow: bool = False  # left out of quick runs

    @property
    def kind(self) -> type[Learner]:
        return learner_named(self.learner)

    def grid(self, data: str) -> list[dict[str, Setting]]:
        """Every combination of the settings."""
        settings = {**self.settings, **self.on.get(data, {})}
        lists = [value if isinstance(value, list) else [value] for value in settings.values()]
        return [dict(zip(settings, values, strict=True)) for values in itertools.product(*lists)]


class Quick(_Strict, frozen=True):
    """The sizes of a quick run."""

    repeats: int | None = None
    rows: int | None = None
    epochs: int | None = None
    rounds: int | None = None


class Experiment(_Strict, frozen=True):
    name: str
    data: list[str]
    methods: list[Method]
    protocol: Literal["online", "folds"] = "online"
    repeats: int = 1  # streams, drawn or shuffled anew; or folds
    epochs: int = 1
    rounds: int | None = None  # rounds on each data set, in as many epochs as it takes
    rows: int | None = None  # most rows of each data set
    channels: list[str] = field(default_factory=lambda: [CLEAN])
    tuned: int = 0  # streams on which one setting of a grid is chosen first; 0: all are run
    alone: bool = False  # run one learner at a time, to measure its time
    quick: Quick = field(default_factory=Quick)
    # in per cent, by data set, channel and method; a text may have marks: "(*)24.73"
    published: dict[str, dict[str, dict[str, float | str]]] = {}
    # the paper's estimated rates of flips, by data set and channel
    published_rates: dict[str, dict[str, tuple[float, float]]] = {}

    def sized(self, quick: bool) -> Experiment:
        if not quick:
            return self
        less = {key: getattr(self.quick, key) for key in ("repeats", "epochs", "rounds")}
        return msgspec.structs.replace(self, **{k: v for k, v in less.items() if v})

    def rows_of(self, data: Data, quick: bool) -> int | None:
        limits = [data.rows, self.rows, self.quick.rows if quick else None]
        return min((limit for limit in limits if limit), default=None)

    def method(self, name: str) -> Method:
        return next(method for method in self.methods if method.name == name)


Measure = Literal[
    "error", "greedy_error", "explored", "updates", "seconds", "test_error",
    "regret",  # mistakes beyond the best rule's, for data whose best rule is known
]  # fmt: skip


class ChartSpec(_Strict, frozen=True):
    """One chart for each data set and channel."""

    experiment: str
    x: str = "rounds"  # or the name of a setting that is a grid
    y: Measure = "error"
    x_log: bool = True
    y_log: bool = True
    counts: bool = False  # show counts, not shares
    first_epoch: bool = False
    methods: list[str] = []  # default: all; the same for data and channels
    data: list[str] = []
    channels: list[str] = []


class TableSpec(_Strict, frozen=True):
    """Methods across, data sets down, one table for each channel."""

    experiment: str
    title: str = ""
    y: Measure = "error"
    methods: list[str] = []
    data: list[str] = []
    channels: list[str] = []
    compared: list[str] = []  # the lowest of these is bold
    pair: list[str] = []  # the lower of these is underlined


class RatesSpec(_Strict, frozen=True):
    """Rates of flips: the true rates, the paper's, and those of methods that estimate them."""

    experiment: str
    title: str


class Less(_Strict, frozen=True, tag="less"):
    """A method errs less than each of several others, on each data set and channel."""

    experiment: str
    method: str
    than: list[str]
    y: Measure = "error"
    first_epoch: bool = False
    data: list[str] = []
    channels: list[str] = []


class Order(_Strict, frozen=True, tag="order"):
    """Methods come in the order of their published numbers, on each data set and channel."""

    experiment: str
    y: Measure = "error"


class _Interval(_Strict, frozen=True):
    experiment: str
    method: str
    data: str
    low: float
    high: float


class Between(_Interval, frozen=True, tag="between"):
    """A method's value lies in an interval (per cent); decided in a full run only."""

    y: Measure = "error"


class Slope(_Interval, frozen=True, tag="slope"):
    """The slope of a share or a count over the rounds, on logarithmic axes."""

    begin: int
    claim: str
    y: Measure = "error"
    counts: bool = False


class Optimum(_Interval, frozen=True, tag="optimum"):
    """The best value of a setting lies in a range."""

    setting: str


class Lowest(_Strict, frozen=True, tag="lowest"):
    """A method is the lowest of several on at least `least` data sets."""

    experiment: str
    method: str
    among: list[str]
    least: int
    channels: list[str] = []
    y: Measure = "error"


class Nearer(_Strict, frozen=True, tag="nearer"):
    """A method's rates of flips are nearer to the truth than another's, or than the paper's."""

    experiment: str
    method: str
    than: str = ""  # default: the paper


CheckSpec = Less | Order | Between | Slope | Optimum | Lowest | Nearer


class SectionSpec(_Strict, frozen=True):
    title: str
    about: str = ""
    charts: list[ChartSpec] = []
    tables: list[TableSpec] = []
    rates: list[RatesSpec] = []
    checks: list[CheckSpec] = []
    notes: list[str] = []


class Study(_Strict, frozen=True):
    name: str
    title: str
    paper: str
    about: str
    data: dict[str, Data]
    experiments: list[Experiment] = field(name="experiment")
    sections: list[SectionSpec] = field(name="section")
    channel: dict[str, ChannelSpec] = {}

    def experiment(self, name: str) -> Experiment:
        return next(experiment for experiment in self.experiments if experiment.name == name)

    def channel_of(self, name: str) -> ChannelSpec:
        return ChannelSpec() if name == CLEAN else self.channel[name]


def shipped() -> list[str]:
    """The names of the studies that come with the package."""
    folder = resources.files("onebit.lab.studies") / "papers"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def read_study(name: str) -> Study:
    """A study of the package, by its name, or a study file of the user."""
    if name in shipped():
        return parse(
            (resources.files("onebit.lab.studies") / "papers" / f"{name}.toml").read_bytes()
        )
    path = Path(name)
    if not path.is_file():
        raise ValueError(
            f"no study {name!r}; there are {', '.join(shipped())}, all, or a .toml file of your own"
        )
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{name} is larger than a study may be ({LARGEST_FILE:,} bytes)")
    try:
        return parse(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def parse(text: bytes) -> Study:
    """A study from its text. Inconsistencies are refused now, not in mid-run."""
    try:
        study = msgspec.convert(tomllib.loads(text.decode()), Study)
    except UnicodeDecodeError as error:
        raise ValueError(f"not a text in UTF-8: {error.reason} at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not a TOML file: {error}") from None
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    for what in _wrong(study):
        raise ValueError(what)
    return study


def _wrong(study: Study) -> Iterator[str]:
    """Messages about names that do not exist and values that cannot be used."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", study.name) or study.name == "index":
        yield f"name {study.name!r} cannot be that of a file; take letters, digits and -"
    for name, channel in study.channel.items():
        if name == CLEAN:
            yield f"channel {CLEAN}: this name means no channel; take another"
        yield from _refused(f"channel {name}", channel.steps)
    for name, data in study.data.items():
        yield from _refused(f"data {name}", lambda data=data: Steps(data.prepare))
        if not data.sources or (data.rows is not None and data.rows < 1):
            yield f"data {name}: it needs sources, and rows of at least 1"
    names = [experiment.name for experiment in study.experiments]
    yield from (
        f"experiment {name}: it is defined twice" for name in names if names.count(name) > 1
    )
    for experiment in study.experiments:
        where = f"experiment {experiment.name}"
        yield from _unknown(where, {"data": experiment.data}, study.data)
        yield from _unknown(where, {"channel": experiment.channels}, [CLEAN, *study.channel])
        yield from _wrong_sizes(study, experiment, where)
        yield from _wrong_folds(study, experiment, where) if experiment.protocol == "folds" else ()
        for method in experiment.methods:
            there = f"{where}, method {method.name}"
            yield from _refused(there, lambda method=method: method.kind)
            kind: Any = method.kind
            yield from _refused(there, lambda kind=kind: check_made_of_settings(kind))
            yield from _unknown(there, {"data in `on`": list(method.on)}, experiment.data)
            yield from _wrong_method(experiment, method, there)
            for channel in experiment.channels:
                learner = kind(2)
                way = link(study.channel_of(channel).steps(), 0)
                yield from _refused(there, lambda way=way, learner=learner: check(way, learner))
        for data, by_channel in experiment.published_rates.items():
            yield from _unknown(f"{where}, published_rates", {"data": [data]}, experiment.data)
            names = {"channel": list(by_channel)}
            yield from _unknown(f"{where}, published_rates", names, experiment.channels)
        for data, by_channel in experiment.published.items():
            yield from _unknown(f"{where}, published", {"data": [data]}, experiment.data)
            for channel, values in by_channel.items():
                yield from _unknown(
                    f"{where}, published", {"channel": [channel]}, experiment.channels
                )
                known = [method.name for method in experiment.methods]
                yield from _unknown(f"{where}, published", {"method": list(values)}, known)
                for said in values.values():
                    if isinstance(said, str) and not re.search(r"\d+(\.\d+)?$", said):
                        yield f"{where}, published: {said!r} does not end in a number"
    for section in study.sections:
        for part in (*section.charts, *section.tables, *section.rates, *section.checks):
            yield from _wrong_part(study, f"section {section.title!r}", part)


def _is_drawn(data: Data) -> bool:
    return any(source in _DRAWN for source in data.sources)


def _wrong_sizes(study: Study, experiment: Experiment, where: str) -> Iterator[str]:
    least = 2 if experiment.protocol == "folds" else 1
    for which, part in (("", experiment), ("quick ", experiment.quick)):
        for key, low, high in (
            ("repeats", least, 10_000),
            ("epochs", 1, 10_000),
            ("rows", 1, 10**9),
            ("rounds", 1, 10**9),
        ):
            value = getattr(part, key)
            if value is not None and not low <= value <= high:
                yield f"{where}: {which}{key} must be between {low:,} and {high:,}, not {value:,}"
    if experiment.rounds and (experiment.epochs > 1 or experiment.protocol == "folds"):
        yield f"{where}: rounds say how long an online experiment is, without epochs"
    for name in experiment.data:
        data = study.data.get(name)
        if (
            data
            and experiment.rounds
            and data.rows
            and data.rows < experiment.rounds
            and _is_drawn(data)
        ):
            yield f"{where}: {name} has {data.rows:,} rows, and drawn rows are not repeated"
    if experiment.quick.rounds and not experiment.rounds:
        yield f"{where}: quick rounds are for an experiment with rounds"
    if not 0 <= experiment.tuned <= 1000:
        yield f"{where}: tuned must be between 0 and 1,000, not {experiment.tuned:,}"
    if experiment.protocol == "folds" and experiment.alone:
        yield f"{where}: alone is for the time of online runs, not for folds"
    names = {
        "data": experiment.data,
        "channels": experiment.channels,
        "methods": [m.name for m in experiment.methods],
    }
    for key, listed in names.items():
        if not listed or len(set(listed)) < len(listed):
            yield f"{where}: {key} must name at least one, and none twice"


def _wrong_method(experiment: Experiment, method: Method, where: str) -> Iterator[str]:
    make: Any = method.kind
    if method.knows_flips and "rho0" not in settings_of(make):
        yield f"{where}: {method.learner} has no settings rho0 and rho1; remove knows_flips"
        return
    for data in experiment.data:
        settings = {**method.settings, **method.on.get(data, {})}
        for key in settings:
            if wrong := wrong_setting(make, key):
                yield f"{where}: {wrong}"
                return
        sizes = [len(value) if isinstance(value, list) else 1 for value in settings.values()]
        if not 1 <= math.prod(sizes) <= LARGEST_GRID:
            yield f"{where}: a grid has between 1 and {LARGEST_GRID:,} settings"
            return
        for grid in method.grid(data):
            yield from _refused(where, lambda m=make, s=grid: m(2, **s))


def _wrong_folds(study: Study, experiment: Experiment, where: str) -> Iterator[str]:
    for name in experiment.data:
        data = study.data[name]
        if Steps(data.prepare).order_matters:
            yield f"{where}: folds have no order of rounds, and a step for {name} needs one"
        if _is_drawn(data):
            yield f"{where}: {name} is drawn anew each time and cannot be cut into folds"
    for name in experiment.channels:
        if study.channel_of(name) != ChannelSpec(label_noise=study.channel_of(name).label_noise):
            yield f"{where}: folds support only label_noise by any label; channel {name!r} has more"
    if experiment.tuned > 1:
        yield f"{where}: folds are tuned on experiment split; tuned must be 0 or 1"


_SHARES = ("error", "greedy_error", "explored", "regret")
_WITH_BAYES = {"linear_noise"}  # of the catalogue


def _wrong_measure(
    data: Mapping[str, Data], experiment: Experiment, where: str, part: Any
) -> Iterator[str]:
    """Messages about values that cannot be drawn or judged."""
    y = getattr(part, "y", "error")
    if y == "test_error" and experiment.protocol != "folds":
        yield f"{where}: only folds have a test_error; {experiment.name} is online"
    settings = {
        key
        for m in experiment.methods
        for d in experiment.data
        for grid in m.grid(d)
        for key in grid
    }
    setting = getattr(part, "setting", getattr(part, "x", "rounds"))
    if setting != "rounds" and setting not in settings:
        known = ", ".join(settings)
        yield f"{where}: no setting {setting!r} in {experiment.name}; there are {known}"
    if isinstance(part, ChartSpec) and part.x == "rounds" and y in ("seconds", "test_error"):
        yield f"{where}: {y} is known at the end alone and has no curve over rounds; take a table"
    if getattr(part, "counts", False) and y not in _SHARES:
        yield f"{where}: counts is for {', '.join(_SHARES)}, not for {y}"
    if isinstance(part, Slope) and y not in _SHARES:
        yield f"{where}: a slope is told of {', '.join(_SHARES)}, not of {y}"
    named = getattr(part, "data", None) or experiment.data
    for name in [named] if isinstance(named, str) else named:
        if y == "regret" and name in data and set(data[name].sources) - _WITH_BAYES:
            yield f"{where}: the best rule for {name} is not known, so there is no regret"
    if isinstance(part, _Interval) and part.low > part.high:
        yield f"{where}: low must be below high, not {part.low:g} above {part.high:g}"
    if isinstance(part, Less) and part.method in part.than:
        yield f"{where}: {part.method} cannot be compared with itself"
    if isinstance(part, Slope) and experiment.protocol == "folds":
        yield f"{where}: a slope is told of online experiments"
    if getattr(part, "first_epoch", False) and y in ("seconds", "test_error"):
        yield f"{where}: {y} of the first epoch is not known"


def _wrong_part(study: Study, where: str, part: Any) -> Iterator[str]:
    yield from _unknown(
        where,
        {"experiment": [part.experiment]},
        [experiment.name for experiment in study.experiments],
    )
    experiment = study.experiment(part.experiment)
    yield from _wrong_measure(study.data, experiment, where, part)
    methods = [method.name for method in experiment.methods]
    for key in ("methods", "than", "among", "compared", "pair", "method"):
        value = getattr(part, key, [])
        named = [value] if isinstance(value, str) else value
        yield from _unknown(where, {"method": [name for name in named if name]}, methods)
    if isinstance(part, RatesSpec | Nearer):
        for method in experiment.methods:
            if not hasattr(method.kind, "rates"):
                yield f"{where}: {method.learner} of {experiment.name} estimates no rates"
    data = getattr(part, "data", [])
    yield from _unknown(where, {"data": [data] if isinstance(data, str) else data}, experiment.data)
    yield from _unknown(where, {"channel": getattr(part, "channels", [])}, experiment.channels)


def _unknown(where: str, named: Mapping[str, list[str]], known: Any) -> Iterator[str]:
    for what, names in named.items():
        for name in names:
            if name not in known:
                yield f"{where}: no {what} {name!r}; there are {', '.join(known)}"


def _refused(where: str, make: Any) -> Iterator[str]:
    try:
        make()
    except (TypeError, ValueError) as error:
        yield f"{where}: {error}"
