"""What a study file says: data, experiments, and what of the paper to set beside them.

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
from onebit.lab.studies.conditions import Channel, Setting
from onebit.learner import Learner

CLEAN = "clean"
LARGEST_FILE = 2**20  # bytes
LARGEST_GRID = 10_000
_DRAWN = [entry.name for entry in KNOWN if entry.drawn]


class _Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Data(_Strict, frozen=True):
    """A data set of the paper, and where to look for it or for what stands in for it."""

    sources: list[str]  # names as in `onebit data list`, the best first
    rows: int | None = None  # how many are drawn; a table is cut to so many
    prepare: list[str] = []
    # How a file of one's own is read, as in `datasets.read`.
    label: str = ""
    text: str = ""
    ngrams: int | None = None
    categories: tuple[str, ...] = ()
    features: int | None = None
    delimiter: str = ""
    encoding: str = ""
    note: str = ""  # how it differs from the paper's

    @property
    def columns(self) -> tuple[tuple[str, Any], ...]:
        named = ("label", "text", "ngrams", "categories", "features", "delimiter", "encoding")
        return tuple((key, getattr(self, key)) for key in named if getattr(self, key))


class Method(_Strict, frozen=True):
    """A learner under the name that the paper has for it; a list is a grid."""

    name: str
    learner: str  # "Banditron"; "module:Mine" for one from elsewhere, whose module is imported
    settings: dict[str, Setting | list[Setting]] = {}
    on: dict[str, dict[str, Setting | list[Setting]]] = {}  # by data set, over the former
    knows_flips: bool = False  # rho0 and rho1 are those of the channel
    slow: bool = False  # left out of quick runs

    @property
    def kind(self) -> type[Learner]:
        return learner_named(self.learner)

    def grid(self, data: str) -> list[dict[str, Setting]]:
        """Every combination of the settings."""
        settings = {**self.settings, **self.on.get(data, {})}
        lists = [value if isinstance(value, list) else [value] for value in settings.values()]
        return [dict(zip(settings, one, strict=True)) for one in itertools.product(*lists)]


class Quick(_Strict, frozen=True):
    """What a quick run does with less of."""

    repeats: int | None = None
    rows: int | None = None
    epochs: int | None = None
    rounds: int | None = None


class Experiment(_Strict, frozen=True):
    name: str
    data: list[str]
    methods: list[Method]
    protocol: Literal["online", "folds"] = "online"
    repeats: int = 1  # of the stream, drawn or shuffled anew; or folds
    epochs: int = 1
    rounds: int | None = None  # so many on each data set, in as many epochs as it takes
    rows: int | None = None  # at most so many of each data set
    channels: list[str] = field(default_factory=lambda: [CLEAN])
    tuned: int = 0  # streams on which one setting of a grid is chosen first; 0: all are run
    alone: bool = False  # one learner at a time, so that its time can be told
    quick: Quick = field(default_factory=Quick)
    # per cent by data set, channel and method; a text may carry marks: "(*)24.73"
    published: dict[str, dict[str, dict[str, float | str]]] = {}
    # rates of flips as the paper estimates them, by data set and channel
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
    "regret",  # mistakes beyond those of the best rule, of data that know it
]  # fmt: skip


class ChartSpec(_Strict, frozen=True):
    """One chart for each data set and channel."""

    experiment: str
    x: str = "rounds"  # or the name of a setting that is a grid
    y: Measure = "error"
    x_log: bool = True
    y_log: bool = True
    counts: bool = False  # how many so far, not which share
    first_epoch: bool = False
    methods: list[str] = []  # all unless given; so for the next two
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
    """Rates of flips: the true ones, the paper's, and those of methods that estimate them."""

    experiment: str
    title: str


class Less(_Strict, frozen=True, tag="less"):
    """One method errs less than each of others, on each data set and channel."""

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


class Between(_Strict, frozen=True, tag="between"):
    """The figure of a method lies in a band (per cent); told of a full run only."""

    experiment: str
    method: str
    data: str
    low: float
    high: float
    y: Measure = "error"


class Slope(_Strict, frozen=True, tag="slope"):
    """How fast a share falls, or its count grows: the slope when both axes are logarithmic."""

    experiment: str
    method: str
    data: str
    low: float
    high: float
    begin: int
    claim: str
    y: Measure = "error"
    counts: bool = False


class Optimum(_Strict, frozen=True, tag="optimum"):
    """The best value of a setting lies in a range."""

    experiment: str
    method: str
    data: str
    setting: str
    low: float
    high: float


class Lowest(_Strict, frozen=True, tag="lowest"):
    """A method is the lowest of several on at least so many of the data sets."""

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
    than: str = ""  # the paper unless given


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
    channel: dict[str, Channel] = {}

    def experiment(self, name: str) -> Experiment:
        return next(one for one in self.experiments if one.name == name)

    def channel_of(self, name: str) -> Channel:
        return Channel() if name == CLEAN else self.channel[name]


def shipped() -> list[str]:
    """The names of the studies that come with the package."""
    folder = resources.files("onebit.lab.studies") / "papers"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def read_study(name: str) -> Study:
    """A study that comes with the package, by its name, or a file of one's own."""
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
    """A study from its text; what does not fit together is refused now, not in mid-run."""
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
    """What is named but not there, or cannot be."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", study.name) or study.name == "index":
        yield f"name {study.name!r} cannot be that of a file; take letters, digits and -"
    for name, channel in study.channel.items():
        if name == CLEAN:
            yield f"channel {CLEAN}: this is the name of having none"
        yield from _refused(f"channel {name}", channel.steps)
    for name, data in study.data.items():
        yield from _refused(f"data {name}", lambda data=data: Steps(data.prepare))
        if not data.sources or (data.rows is not None and data.rows < 1):
            yield f"data {name}: it needs sources, and rows of at least 1"
    names = [one.name for one in study.experiments]
    yield from (f"experiment {name}: it is there twice" for name in names if names.count(name) > 1)
    for one in study.experiments:
        where = f"experiment {one.name}"
        yield from _unknown(where, {"data": one.data}, study.data)
        yield from _unknown(where, {"channel": one.channels}, [CLEAN, *study.channel])
        yield from _wrong_sizes(study, one, where)
        yield from _wrong_folds(study, one, where) if one.protocol == "folds" else ()
        for method in one.methods:
            there = f"{where}, method {method.name}"
            yield from _refused(there, lambda method=method: method.kind)
            kind: Any = method.kind
            yield from _refused(there, lambda kind=kind: check_made_of_settings(kind))
            yield from _unknown(there, {"data in `on`": list(method.on)}, one.data)
            yield from _wrong_method(one, method, there)
            for channel in one.channels:
                learner = kind(2)
                way = link(study.channel_of(channel).steps(), 0)
                yield from _refused(there, lambda w=way, one=learner: check(w, one))
        for data, by_channel in one.published_rates.items():
            yield from _unknown(f"{where}, published_rates", {"data": [data]}, one.data)
            names = {"channel": list(by_channel)}
            yield from _unknown(f"{where}, published_rates", names, one.channels)
        for data, by_channel in one.published.items():
            yield from _unknown(f"{where}, published", {"data": [data]}, one.data)
            for channel, values in by_channel.items():
                yield from _unknown(f"{where}, published", {"channel": [channel]}, one.channels)
                known = [method.name for method in one.methods]
                yield from _unknown(f"{where}, published", {"method": list(values)}, known)
                for said in values.values():
                    if isinstance(said, str) and not re.search(r"\d+(\.\d+)?$", said):
                        yield f"{where}, published: {said!r} does not end in a number"
    for section in study.sections:
        for part in (*section.charts, *section.tables, *section.rates, *section.checks):
            yield from _wrong_part(study, f"section {section.title!r}", part)


def _is_drawn(data: Data) -> bool:
    return any(source in _DRAWN for source in data.sources)


def _wrong_sizes(study: Study, one: Experiment, where: str) -> Iterator[str]:
    least = 2 if one.protocol == "folds" else 1
    for which, part in (("", one), ("quick ", one.quick)):
        for key, low, high in (
            ("repeats", least, 10_000),
            ("epochs", 1, 10_000),
            ("rows", 1, 10**9),
            ("rounds", 1, 10**9),
        ):
            value = getattr(part, key)
            if value is not None and not low <= value <= high:
                yield f"{where}: {which}{key} must be between {low:,} and {high:,}, not {value:,}"
    if one.rounds and (one.epochs > 1 or one.protocol == "folds"):
        yield f"{where}: rounds say how long an online experiment is, without epochs"
    for name in one.data:
        data = study.data.get(name)
        if data and one.rounds and data.rows and data.rows < one.rounds and _is_drawn(data):
            yield f"{where}: {name} has {data.rows:,} rows, and a drawn set does not come twice"
    if one.quick.rounds and not one.rounds:
        yield f"{where}: quick rounds are for an experiment with rounds"
    if not 0 <= one.tuned <= 1000:
        yield f"{where}: tuned must be between 0 and 1,000, not {one.tuned:,}"
    if one.protocol == "folds" and one.alone:
        yield f"{where}: alone is for the time of online runs, not for folds"
    names = {"data": one.data, "channels": one.channels, "methods": [m.name for m in one.methods]}
    for key, some in names.items():
        if not some or len(set(some)) < len(some):
            yield f"{where}: {key} must name at least one, and none twice"


def _wrong_method(one: Experiment, method: Method, where: str) -> Iterator[str]:
    make: Any = method.kind
    if method.knows_flips and "rho0" not in settings_of(make):
        yield f"{where}: {method.learner} has no rates of flips to know"
        return
    for data in one.data:
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


def _wrong_folds(study: Study, one: Experiment, where: str) -> Iterator[str]:
    for name in one.data:
        data = study.data[name]
        if Steps(data.prepare).order_matters:
            yield f"{where}: folds have no order of rounds, and a step for {name} needs one"
        if _is_drawn(data):
            yield f"{where}: {name} is drawn anew each time and cannot be cut into folds"
    for name in one.channels:
        if study.channel_of(name) != Channel(label_noise=study.channel_of(name).label_noise):
            yield f"{where}: of channels folds know label_noise alone, by any label; see {name!r}"
    if one.tuned > 1:
        yield f"{where}: folds are tuned on one split; tuned must be 0 or 1"


_SHARES = ("error", "greedy_error", "explored", "regret")
_WITH_BAYES = {"linear_noise"}  # of the catalogue


def _wrong_measure(
    data: Mapping[str, Data], one: Experiment, where: str, part: Any
) -> Iterator[str]:
    """What cannot be drawn or judged."""
    y = getattr(part, "y", "error")
    if y == "test_error" and one.protocol != "folds":
        yield f"{where}: only folds have a test_error; {one.name} is online"
    settings = {key for m in one.methods for d in one.data for grid in m.grid(d) for key in grid}
    setting = getattr(part, "setting", getattr(part, "x", "rounds"))
    if setting != "rounds" and setting not in settings:
        yield f"{where}: no setting {setting!r} in {one.name}; there are {', '.join(settings)}"
    if isinstance(part, ChartSpec) and part.x == "rounds" and y in ("seconds", "test_error"):
        yield f"{where}: {y} is known at the end alone and has no curve over rounds; take a table"
    if getattr(part, "counts", False) and y not in _SHARES:
        yield f"{where}: counts is for {', '.join(_SHARES)}, not for {y}"
    if isinstance(part, Slope) and y not in _SHARES:
        yield f"{where}: a slope is told of {', '.join(_SHARES)}, not of {y}"
    named = getattr(part, "data", None) or one.data
    for name in [named] if isinstance(named, str) else named:
        if y == "regret" and name in data and set(data[name].sources) - _WITH_BAYES:
            yield f"{where}: the best rule for {name} is not known, so there is no regret"
    if isinstance(part, Between | Slope | Optimum) and part.low > part.high:
        yield f"{where}: low must be below high, not {part.low:g} above {part.high:g}"
    if isinstance(part, Less) and part.method in part.than:
        yield f"{where}: {part.method} cannot be compared with itself"
    if isinstance(part, Slope) and one.protocol == "folds":
        yield f"{where}: a slope is told of online experiments"
    if getattr(part, "first_epoch", False) and y in ("seconds", "test_error"):
        yield f"{where}: {y} of the first epoch is not known"


def _wrong_part(study: Study, where: str, part: Any) -> Iterator[str]:
    yield from _unknown(
        where, {"experiment": [part.experiment]}, [one.name for one in study.experiments]
    )
    one = study.experiment(part.experiment)
    yield from _wrong_measure(study.data, one, where, part)
    methods = [method.name for method in one.methods]
    for key in ("methods", "than", "among", "compared", "pair", "method"):
        value = getattr(part, key, [])
        named = [value] if isinstance(value, str) else value
        yield from _unknown(where, {"method": [name for name in named if name]}, methods)
    if isinstance(part, RatesSpec | Nearer):
        for method in one.methods:
            if not hasattr(method.kind, "rates"):
                yield f"{where}: {method.learner} of {one.name} estimates no rates"
    data = getattr(part, "data", [])
    yield from _unknown(where, {"data": [data] if isinstance(data, str) else data}, one.data)
    yield from _unknown(where, {"channel": getattr(part, "channels", [])}, one.channels)


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
