"""Study files: data, experiments, and the paper's results to compare with.

A study is a TOML file; docs/studies.md explains it by example. Errors name the file and the place.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from onebit.datasets import Steps
from onebit.datasets.catalogue import KNOWN
from onebit.feedback.channels import check, link
from onebit.lab.studies.conditions import ChannelSpec, SettingValue
from onebit.learner.learner import Learner
from onebit.registry.lookup import learner_named
from onebit.registry.recipes import check_made_of_settings, settings_of, wrong_setting

CLEAN = "clean"
LARGEST_FILE = 2**20  # bytes
LARGEST_GRID = 10_000
MOST_REPEATS = 10_000
_MOST = {"repeats": MOST_REPEATS, "epochs": 10_000, "rows": 10**9, "rounds": 10**9}
_DRAWN = [entry.name for entry in KNOWN if entry.drawn]
_SHARES = ("error", "greedy_error", "explored", "regret")
_WITH_BAYES = {"linear_noise"}  # of the catalogue


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
    drop: tuple[str, ...] = ()
    missing_label: str = ""
    several: str = ""
    features: int | None = None
    delimiter: str = ""
    encoding: str = ""
    note: str = ""  # how it differs from the paper's data

    @property
    def columns(self) -> tuple[tuple[str, Any], ...]:
        named = (
            "label",
            "text",
            "ngrams",
            "categories",
            "drop",
            "missing_label",
            "several",
            "features",
        )
        given = (*named, "delimiter", "encoding")
        return tuple((key, getattr(self, key)) for key in given if getattr(self, key))


class Method(_Strict, frozen=True):
    """A learner under the paper's name for it, with a grid of settings: lists are tried out.

    This is an entry of a study file. A `Recipe` in contrast has one value per setting.
    """

    name: str
    learner: str  # "Banditron"; "module:Mine" for a learner of an imported module
    settings: dict[str, SettingValue | list[SettingValue]] = {}
    on: dict[
        str, dict[str, SettingValue | list[SettingValue]]
    ] = {}  # per data set, overriding `settings`
    knows_flips: bool = False  # rho0 and rho1 are the channel's
    slow: bool = False  # left out of quick runs

    @property
    def kind(self) -> type[Learner]:
        return learner_named(self.learner)

    def grid(self, data: str) -> list[dict[str, SettingValue]]:
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

    def sized(self, quick: bool, repeats: int | None = None) -> Experiment:
        """The experiment at the size of a run. repeats: no more than these; folds are kept."""
        less: dict[str, int | None] = {}
        if quick:
            less = {key: getattr(self.quick, key) for key in ("repeats", "epochs", "rounds")}
        if repeats and self.protocol != "folds":  # the number of folds decides what a fold has
            less["repeats"] = min(repeats, less.get("repeats") or self.repeats)
        return msgspec.structs.replace(self, **{k: v for k, v in less.items() if v})

    def rows_of(self, data: Data, quick: bool) -> int | None:
        limits = [data.rows, self.rows, self.quick.rows if quick else None]
        return min((limit for limit in limits if limit), default=None)

    def method(self, name: str) -> Method:
        return next(method for method in self.methods if method.name == name)

    def data_of(self, part: Any) -> list[str]:
        """The data sets that a part of a section names; all, if it names none."""
        named = getattr(part, "data", None) or self.data
        return [named] if isinstance(named, str) else named


Measure = Literal[
    "error", "greedy_error", "explored", "updates", "seconds", "test_error",
    "regret",  # mistakes beyond the best rule's, for data whose best rule is known
]  # fmt: skip


class _Part(_Strict, frozen=True):
    """A part of a section."""

    experiment: str


class _Selection(_Part, frozen=True):
    """A part for some data sets and channels of its experiment; default: all."""

    data: list[str] = []
    channels: list[str] = []


class ChartSpec(_Selection, frozen=True):
    """One chart for each data set and channel."""

    x: str = "rounds"  # or the name of a setting that is a grid
    y: Measure = "error"
    x_log: bool = True
    y_log: bool = True
    counts: bool = False  # show counts, not shares
    first_epoch: bool = False
    methods: list[str] = []  # default: all


class TableSpec(_Selection, frozen=True):
    """Methods across, data sets down, one table for each channel."""

    title: str = ""
    y: Measure = "error"
    methods: list[str] = []  # default: all
    compared: list[str] = []  # the lowest of these is bold
    pair: list[str] = []  # the lower of these is underlined


class RatesSpec(_Part, frozen=True):
    """Rates of flips: the true rates, the paper's, and those of methods that estimate them."""

    title: str


class Less(_Selection, frozen=True, kw_only=True, tag="less"):
    """A method errs less than each of several others, on each data set and channel."""

    method: str
    than: list[str]
    y: Measure = "error"
    first_epoch: bool = False


class Order(_Part, frozen=True, tag="order"):
    """Methods come in the order of their published numbers, on each data set and channel."""

    y: Measure = "error"


class Interval(_Part, frozen=True):
    """A value lies in an interval; decided in a full run only."""

    method: str
    data: str
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return bool(self.low <= value <= self.high)


class Between(Interval, frozen=True, tag="between"):
    """The value is the measure in per cent."""

    y: Measure = "error"


class Slope(Interval, frozen=True, tag="slope"):
    """The value is the slope of a share or a count over the rounds, on logarithmic axes."""

    begin: int
    claim: str
    y: Measure = "error"
    counts: bool = False


class Optimum(Interval, frozen=True, tag="optimum"):
    """The value is the best one of a setting."""

    setting: str


class Lowest(_Part, frozen=True, tag="lowest"):
    """A method is the lowest of several on at least `least` data sets."""

    method: str
    among: list[str]
    least: int
    channels: list[str] = []
    y: Measure = "error"


class Nearer(_Part, frozen=True, tag="nearer"):
    """A method's rates of flips are nearer to the truth than another's, or than the paper's."""

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

    @property
    def parts(self) -> list[ChartSpec | TableSpec | RatesSpec | CheckSpec]:
        return [*self.charts, *self.tables, *self.rates, *self.checks]


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


_PAPERS = resources.files("onebit.lab.studies") / "papers"


def shipped() -> list[str]:
    """The names of the studies that come with the package."""
    names = [file.name for file in _PAPERS.iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def listed_studies() -> list[Study]:
    """The studies of the package, to be listed. Their learners are not made, because some need an
    extra."""
    return [_converted((_PAPERS / f"{name}.toml").read_bytes()) for name in shipped()]


def read_study(name: str) -> Study:
    """A study of the package, by its name, or a study file of the user."""
    if name in shipped():
        return parse((_PAPERS / f"{name}.toml").read_bytes())
    path = Path(name)
    if not path.is_file():
        raise ValueError(
            f"unknown study {name!r}; there are {', '.join(shipped())}, all, or your own .toml file"
        )
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{name} is larger than a study may be ({LARGEST_FILE:,} bytes)")
    with _named(name):
        return parse(path.read_bytes())


def parse(text: bytes) -> Study:
    """A study from its text. Inconsistencies are refused now, not in mid-run."""
    study = _converted(text)
    _check(study)
    return study


def _converted(text: bytes) -> Study:
    try:
        return msgspec.convert(tomllib.loads(text.decode()), Study)
    except UnicodeDecodeError as error:
        raise ValueError(f"not a text in UTF-8: {error.reason} at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not a TOML file: {error}") from None
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


@contextlib.contextmanager
def _named(where: str) -> Iterator[None]:
    """Put the place in front of an error's message."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _check(study: Study) -> None:
    """Refuse names that do not exist and values that cannot be used."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", study.name) or study.name == "index":
        raise ValueError(
            f"name {study.name!r} cannot be that of a file; take letters, digits and -"
        )
    for name, channel in study.channel.items():
        with _named(f"channel {name}"):
            if name == CLEAN:
                raise ValueError("this name means no channel; take another")
            channel.steps()
    for name, data in study.data.items():
        with _named(f"data {name}"):
            Steps(data.prepare)
            if not data.sources or (data.rows is not None and data.rows < 1):
                raise ValueError("it needs sources, and rows of at least 1")
    names = [experiment.name for experiment in study.experiments]
    for experiment in study.experiments:
        where = f"experiment {experiment.name}"
        with _named(where):
            if names.count(experiment.name) > 1:
                raise ValueError("it is defined twice")
            _check_known("data", experiment.data, study.data)
            _check_known("channel", experiment.channels, [CLEAN, *study.channel])
            _check_sizes(study, experiment)
            if experiment.protocol == "folds":
                _check_folds(study, experiment)
        for method in experiment.methods:
            with _named(f"{where}, method {method.name}"):
                _check_method(study, experiment, method)
        _check_published(experiment, where)
    for section in study.sections:
        with _named(f"section {section.title!r}"):
            for part in section.parts:
                _check_known("experiment", [part.experiment], names)
                _check_part(study.experiment(part.experiment), study.data, part)


def _check_known(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"no {kind} {name!r}; there are {', '.join(known)}")


def _is_drawn(data: Data) -> bool:
    return any(source in _DRAWN for source in data.sources)


def _check_sizes(study: Study, experiment: Experiment) -> None:
    folds = experiment.protocol == "folds"
    for prefix, sizes in (("", experiment), ("quick ", experiment.quick)):
        for key, high in _MOST.items():
            value, low = getattr(sizes, key), 2 if folds and key == "repeats" else 1
            if value is not None and not low <= value <= high:
                raise ValueError(
                    f"{prefix}{key} must be between {low:,} and {high:,}, not {value:,}"
                )
    if experiment.rounds and (experiment.epochs > 1 or folds):
        raise ValueError("rounds set the length of an online experiment; leave out epochs")
    for name in experiment.data:
        rows = study.data[name].rows or math.inf
        if rows < (experiment.rounds or 0) and _is_drawn(study.data[name]):
            raise ValueError(f"{name} has {rows:,} rows, and drawn rows are not repeated")
    if experiment.quick.rounds and not experiment.rounds:
        raise ValueError("quick rounds are for an experiment with rounds")
    if not 0 <= experiment.tuned <= 1000:
        raise ValueError(f"tuned must be between 0 and 1,000, not {experiment.tuned:,}")
    if folds and experiment.alone:
        raise ValueError("alone is for the time of online runs, not for folds")
    methods = [method.name for method in experiment.methods]
    listed = {"data": experiment.data, "channels": experiment.channels, "methods": methods}
    for key, names in listed.items():
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{key} must name at least one, and none twice")


def _check_folds(study: Study, experiment: Experiment) -> None:
    for name in experiment.data:
        if Steps(study.data[name].prepare).order_matters:
            raise ValueError(f"folds have no order of rounds, and a step for {name} needs one")
        if _is_drawn(study.data[name]):
            raise ValueError(f"{name} is drawn anew each time and cannot be cut into folds")
    for name in experiment.channels:
        channel = study.channel_of(name)
        if channel != ChannelSpec(label_noise=channel.label_noise):
            raise ValueError(
                f"folds support only label_noise by any label; channel {name!r} has more"
            )
    if experiment.tuned > 1:
        raise ValueError("folds are tuned on a single split; tuned must be 0 or 1")


def _check_method(study: Study, experiment: Experiment, method: Method) -> None:
    kind: Any = method.kind
    check_made_of_settings(kind)
    _check_known("data in `on`", method.on, experiment.data)
    if method.knows_flips and "rho0" not in settings_of(kind):
        raise ValueError(f"{method.learner} has no settings rho0 and rho1; remove knows_flips")
    for data in experiment.data:
        settings = {**method.settings, **method.on.get(data, {})}
        for key in settings:
            if wrong := wrong_setting(kind, key):
                raise ValueError(wrong)
        sizes = [len(value) if isinstance(value, list) else 1 for value in settings.values()]
        if not 1 <= math.prod(sizes) <= LARGEST_GRID:
            raise ValueError(f"a grid has between 1 and {LARGEST_GRID:,} settings")
        for grid in method.grid(data):
            kind(2, **grid)
    for channel in experiment.channels:
        check(link(study.channel_of(channel).steps(), 0), kind(2))


def _check_published(experiment: Experiment, where: str) -> None:
    for key in ("published_rates", "published"):
        with _named(f"{where}, {key}"):
            _check_known("data", getattr(experiment, key), experiment.data)
            for by_channel in getattr(experiment, key).values():
                _check_known("channel", by_channel, experiment.channels)
    methods = [method.name for method in experiment.methods]
    with _named(f"{where}, published"):
        for by_channel in experiment.published.values():
            for values in by_channel.values():
                _check_known("method", values, methods)
                for printed in values.values():
                    if isinstance(printed, str) and not re.search(r"\d+(\.\d+)?\Z", printed):
                        raise ValueError(f"{printed!r} does not end in a number")


def _check_part(experiment: Experiment, data: Mapping[str, Data], part: Any) -> None:
    y = getattr(part, "y", "error")
    if y == "test_error" and experiment.protocol != "folds":
        raise ValueError(f"only folds have a test_error; {experiment.name} is online")
    setting = getattr(part, "setting", getattr(part, "x", "rounds"))
    grids = [grid for m in experiment.methods for name in experiment.data for grid in m.grid(name)]
    known = dict.fromkeys(key for grid in grids for key in grid)
    if setting != "rounds" and setting not in known:
        raise ValueError(
            f"no setting {setting!r} in {experiment.name}; there are {', '.join(known)}"
        )
    at_the_end = y in ("seconds", "test_error")
    if isinstance(part, ChartSpec) and part.x == "rounds" and at_the_end:
        raise ValueError(
            f"{y} is known at the end alone and has no curve over rounds; take a table"
        )
    if getattr(part, "counts", False) and y not in _SHARES:
        raise ValueError(f"counts is for {', '.join(_SHARES)}, not for {y}")
    if isinstance(part, Slope) and y not in _SHARES:
        raise ValueError(f"a slope is measured of {', '.join(_SHARES)}, not of {y}")
    for name in experiment.data_of(part):
        if y == "regret" and name in data and set(data[name].sources) - _WITH_BAYES:
            raise ValueError(f"the best rule for {name} is not known, so there is no regret")
    if isinstance(part, Interval) and part.low > part.high:
        raise ValueError(f"low must be below high, not {part.low:g} above {part.high:g}")
    if isinstance(part, Less) and part.method in part.than:
        raise ValueError(f"{part.method} cannot be compared with itself")
    if isinstance(part, Slope) and experiment.protocol == "folds":
        raise ValueError("a slope is measured in online experiments; this one has folds")
    if getattr(part, "first_epoch", False) and at_the_end:
        raise ValueError(f"{y} of the first epoch is not known")
    methods = [method.name for method in experiment.methods]
    for key in ("methods", "than", "among", "compared", "pair", "method"):
        value = getattr(part, key, [])
        named = [value] if isinstance(value, str) else value
        _check_known("method", filter(None, named), methods)
    if isinstance(part, RatesSpec | Nearer):
        for method in experiment.methods:
            if not hasattr(method.kind, "rates"):
                raise ValueError(f"{method.learner} of {experiment.name} estimates no rates")
    _check_known("data", experiment.data_of(part), experiment.data)
    _check_known("channel", getattr(part, "channels", []), experiment.channels)
