"""Measure estimates and intervals from logs: `python -m benchmarks.evidence [SECTION...]`.

digits: the experiment of obp's examples/multiclass: a log of 1,258 digits by a logistic regression
that speaks in 80 % of the rounds judges the same with 90 %; the mean relative error of 20 runs.
widths: intervals on simulated logs beside those of vw-estimators (`pip install vw-estimators`).
coverage: how often intervals are ever wrong, on simulated logs of six worlds (--logs of each).
explore: what explore=0.05 costs OneBit, and how wide the interval for a rival is, by three laws.
sets: logs of OneBit with explore=0.05 on seven sets (ONEBIT_DATA) judge learners that learn from
them, against the truth.
obd: in the sample of the Open Bandit Dataset (ONEBIT_DATA), the random log judges the other policy.
speed: replay beside simulate, which runs as many rounds.
size: time and memory for a Parquet log of 10 million rows.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import onebit as ob
from onebit.evidence.replaying import learn_block
from onebit.learner.looking import propensities_then

RUNS = 20
LARGE = 10_000_000
SETS = ("satimage", "optdigits", "usps", "segment", "vowel", "phoneme", "shuttle")
POLICIES = ("Confidit", "UCWL", "SquareCB", "Banditron", "OneBit")
EXPLORE = 0.05
LAWS = {"all labels": 1.0, "not ruled out": 0.0, "the default": 0.2}  # the share for all labels


def drawn(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A label of each row, by its probabilities."""
    found = (shares.cumsum(axis=1) < rng.random((len(shares), 1))).sum(axis=1)
    return np.minimum(found, shares.shape[1] - 1)


def softened(places: np.ndarray, labels: int, share: float) -> np.ndarray:
    """A label with this probability, and any label with the rest."""
    return share * np.eye(labels)[places] + (1 - share) / labels


# The digits.


def digits_run(seed: int) -> dict[str, float]:
    """The relative errors of one run."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X, y, test_size=0.7, random_state=seed)
    X_train, X_log, y_train, y_log = (np.asarray(part) for part in parts)
    model = LogisticRegression(max_iter=10_000, random_state=seed).fit(X_train, y_train)
    logger, policy = (softened(model.predict(X_log), 10, share) for share in (0.8, 0.9))
    rng = np.random.default_rng(seed)
    said = drawn(logger, rng)
    truth = policy[np.arange(len(y_log)), y_log].mean()
    rows = {tuple(x): shares for x, shares in zip(X_log, policy, strict=True)}

    def rule(x: np.ndarray) -> np.ndarray:
        return rows[tuple(x)]

    def log_of(part: slice) -> ob.Log:
        X_part, said_part = X_log[part], said[part]
        right = said_part == y_log[part]
        return ob.Log.of(X_part, said_part, right, labels=10, propensities=logger[part])

    half = len(y_log) // 2
    logs = [log_of(slice(0, half)), log_of(slice(half, None))]
    taught = [twice_taught(log) for log in logs]
    crossed = ob.evaluate(logs[0], rule, forecaster=taught[1]) + ob.evaluate(
        logs[1], rule, forecaster=taught[0]
    )
    once = ob.evaluate(log_of(slice(None)), rule)
    errors = {name: abs(value / truth - 1) for name, value in once.estimates.items()}
    errors |= {
        f"{name}, crossed": abs(value / truth - 1)
        for name, value in crossed.estimates.items()
        if name in ("DR", "xDR")
    }
    return errors


def twice_taught(log: ob.Log) -> ob.Learner:
    """A forecaster for the other half of a log."""
    learner = ob.OneBit(log.labels)
    for _ in range(2):
        ob.replay(learner, log)
    return learner


def digits() -> Iterator[str]:
    runs = [digits_run(seed) for seed in range(RUNS)]
    yield "| estimate | mean relative error | published (obp) |"
    yield "|---|--:|--:|"
    published = {"IPS": ".0133", "SNIPS": ".0068", "DR": ".0078"}
    for name in runs[0]:
        error = np.mean([run[name] for run in runs])
        yield f"| {name} | {error:.4f} | {published.get(name, '')} |"


# Widths.


def widths() -> Iterator[str]:
    try:
        from estimators.bandits.cs import Interval
    except ImportError:
        Interval = None
    yield "| rounds | drifts=True | drifts=False | vw-estimators |"
    yield "|--:|--:|--:|--:|"
    for size in (500, 2000, 8000, 32_000):
        found = [width_of(size, seed, Interval) for seed in range(5)]
        cells = " | ".join(f"{width:.3f}" for width in np.mean(found, axis=0))
        yield f"| {size:,} | {cells} |"


def width_of(size: int, seed: int, interval: Callable[[], object] | None) -> tuple[float, ...]:
    """10 labels, and a logger that draws any label in 20 % of the rounds."""
    rng = np.random.default_rng(seed)
    kinds = 20
    chances = rng.dirichlet(np.full(10, 0.2), kinds)
    kind = rng.integers(kinds, size=size)
    shares = softened(chances.argmax(axis=1), 10, 0.8)[kind]
    said = drawn(shares, rng)
    right = said == drawn(chances[kind], rng)
    policy = np.zeros((kinds, 10))
    policy[np.arange(kinds), chances.argsort(axis=1)[:, -2]] = 0.3
    policy[np.arange(kinds), chances.argmax(axis=1)] = 0.7
    log = ob.Log.of(np.eye(kinds)[kind], said, right, labels=10, propensities=shares)

    def rule(x: np.ndarray) -> np.ndarray:
        return policy[int(np.argmax(x))]

    made = []
    for drifts in (True, False):
        low, high = ob.evaluate(log, rule, drifts=drifts, forecaster=ob.Confidit(10)).interval
        made.append(high - low)
    if interval is None:
        return *made, np.nan
    theirs = interval()
    said_by = shares[np.arange(size), said]
    for p_log, r, p_pred in zip(said_by, right, policy[kind, said], strict=True):
        theirs.add_example(float(p_log), float(r), float(p_pred))
    low, high = theirs.get(0.05)
    return *made, high - low


# Coverage.


def coverage(logs: int) -> Iterator[str]:
    """The worlds are those of the tests: 300 rounds, looked at six times."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "evidence"))
    from worlds import KINDS, misses  # type: ignore[reportMissingImports]

    names = ("swings", "bets", "bracket")
    yield f"Of {logs:,} logs, those in which a bound of 95 % was ever wrong:\n"
    yield "| world | `drifts=True` | `drifts=False` | bracket |"
    yield "|---|--:|--:|--:|"
    for kind in KINDS:
        found = [misses(kind, seed) for seed in range(logs)]
        shares = [sum(name in wrong for wrong in found) / logs for name in names]
        cells = [f"{share:.2%}" for share in shares]
        if kind == "drift":
            cells[1] = ""
        yield f"| {kind} | {' | '.join(cells)} |"


# Exploration and real sets.


def rows_of(name: str, most: int, again: bool = False) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows of a set in random order, their labels, and the number of labels. again: as many as
    `most`, drawn with replacement."""
    data = ob.datasets.get(name)
    rng = np.random.default_rng(0)
    size = len(data.y)
    rows = rng.integers(size, size=most) if again else rng.permutation(size)[:most]
    return np.asarray(data.X, float)[rows], data.y[rows], len(data.labels)


def log_by_onebit(
    X: np.ndarray, y: np.ndarray, labels: int, explore: float, even: float | None = None
) -> tuple[ob.Log, int]:
    """The log of OneBit, and its mistakes. even: the share of drawn rounds for all labels."""
    learner = ob.OneBit(labels, explore=explore)
    if even is not None:
        learner.params = learner.params._replace(even=even)
    said, shares = np.zeros(len(y), int), np.zeros((len(y), labels))
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        decision = learner.decide(x)
        said[i], shares[i] = decision.place, propensities_then(learner, decision, True)
        learner.learn(decision, right=bool(decision.place == truth))
    log = ob.Log.of(X, said, said == y, labels=labels, propensities=shares)
    return log, int((said != y).sum())


def explore() -> Iterator[str]:
    """The rival is Confidit, which learns from the log."""
    yield "| set | rounds | drawn from | more mistakes | widths | without support |"
    yield "|---|--:|---|--:|---|--:|"
    for name, most, again in (("optdigits", 5620, False), ("usps", 9298, False),
                              ("shuttle", 100_000, True)):  # fmt: skip
        X, y, labels = rows_of(name, most, again)
        _, least = log_by_onebit(X, y, labels, 0.0)
        for law, even in LAWS.items():
            log, mistakes = log_by_onebit(X, y, labels, EXPLORE, even)
            rival = ob.Confidit(labels, inputs="auto")
            found = ob.compare(log, rival, learns=True)
            yield (
                f"| {name} | {len(y):,} | {law} | {mistakes - least:,} | {widths_of(found)} "
                f"| {found.unsupported:.1%} |"
            )


def widths_of(found: ob.Evaluation) -> str:
    """The widths of the interval after 1,000, 10,000, ... rounds, and in the end."""
    points = [p for p in found.curve if np.log10(p.rounds) in (3, 4) or p.rounds == found.rounds]
    return ", ".join(f"{point.high - point.low:.3f} ({point.rounds:,})" for point in points)


def sets() -> Iterator[str]:
    yield "| set | rounds | policy | truth | estimate | interval | bracket | widths |"
    yield "|---|--:|---|--:|--:|---|---|---|"
    inside = total = 0
    for name in SETS:
        X, y, labels = rows_of(name, 10_000)
        log, _ = log_by_onebit(X, y, labels, EXPLORE)
        for policy in POLICIES:
            learner = getattr(ob, policy)(labels, inputs="auto")
            told = learn_block(learner.copy(), next(log.blocks()), tells=True)
            truth = told.propensities[np.arange(len(y)), y].mean()
            found = ob.evaluate(log, learner, learns=True)
            low, high = found.interval
            inside, total = inside + (low <= truth <= high), total + 1
            estimate = "none" if found.estimate is None else f"{found.estimate:.3f}"
            yield (
                f"| {name} | {len(y):,} | {policy} | {truth:.3f} | {estimate} "
                f"| {low:.3f} to {high:.3f} | {found.bracket[0]:.3f} to {found.bracket[1]:.3f} "
                f"| {widths_of(found)} |"
            )
    yield f"\n{inside} of {total} intervals contain the truth."


# The Open Bandit Dataset.


def obd() -> Iterator[str]:
    """The random log judges the other policy, whose items are drawn by their position alone."""
    path = Path(os.environ["ONEBIT_DATA"]) / "obd_small.tar.gz"
    yield "| campaign | items | random clicks | other policy's own log | estimate | interval |"
    yield "|---|--:|--:|--:|--:|---|"
    for campaign in ("all", "men", "women"):
        random, other = (
            clicks_of(path, f"obd/{policy}/{campaign}/{campaign}.csv")
            for policy in ("random", "bts")
        )
        items = int(max(random["item"].max(), other["item"].max())) + 1
        shares = {
            place: np.bincount(other["item"][other["position"] == place], minlength=items)
            / (other["position"] == place).sum()
            for place in np.unique(other["position"]).tolist()
        }
        log = ob.Log.of(
            random["position"][:, None].astype(float),
            random["item"],
            random["click"],
            labels=items,
            propensities=np.full((len(random["item"]), items), 1 / items),
        )

        def rule(x: np.ndarray, shares: dict[int, np.ndarray] = shares) -> np.ndarray:
            return shares[int(x[0])]

        found = ob.evaluate(log, rule, exclusive=False)
        low, high = found.interval
        yield (
            f"| {campaign} | {items} | {random['click'].mean():.4f} | {other['click'].mean():.4f} "
            f"| {found.estimate:.4f} | {low:.4f} to {high:.4f} |"
        )


def clicks_of(path: Path, name: str) -> dict[str, np.ndarray]:
    """Items, positions and clicks of a file in the archive."""
    with tarfile.open(path) as archive:
        file = archive.extractfile(name)
        assert file is not None
        rows = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    columns = {"item": "item_id", "position": "position", "click": "click"}
    return {short: np.array([int(row[long]) for row in rows]) for short, long in columns.items()}


# Speed and size.


def speed() -> Iterator[str]:
    """replay beside simulate: 9 labels, 50 dense features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400_000, 50)).astype(np.float32)
    y = X[:, :9].argmax(axis=1)
    said = rng.integers(9, size=len(y))
    yield "| learner | simulate, s | replay, s |"
    yield "|---|--:|--:|"
    for name in ("Banditron", "UCWL", "Confidit"):
        make = getattr(ob, name)
        rows = make(9).rows(X)
        log = ob.Log.of(rows, said, said == y, labels=9, propensity=1 / 9)
        block = next(log.blocks())
        simulate = min(seconds(lambda m=make, r=rows: ob.simulate(m(9), r, y)) for _ in range(3))
        replay = min(seconds(lambda m=make, b=block: learn_block(m(9), b)) for _ in range(3))
        yield f"| {name} | {simulate:.3f} | {replay:.3f} |"


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


READ = """
import re, sys, time
from pathlib import Path
import onebit as ob
log, started = ob.Log(sys.argv[1], labels=["x", "y", "z"]), time.perf_counter()
found = ob.compare(log, "x", forecaster=ob.Confidit(log.labels))
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
megabytes = int(peak[1]) / 1024
print(f"{found.rounds:,} rows: {time.perf_counter() - started:.0f} s, {megabytes:.0f} MB")
"""


def size() -> Iterator[str]:
    """A Parquet log of 10 million rows, read by a process of its own."""
    import polars

    rng = np.random.default_rng(0)
    kind, said = rng.integers(3, size=LARGE), rng.integers(3, size=LARGE)
    columns = {
        "a": (kind == 0).astype(float),
        "b": (kind == 1).astype(float),
        "c": rng.normal(size=LARGE),
        "label": np.array(["x", "y", "z"])[said],
        "right": said == kind,
        "propensity": np.full(LARGE, 1 / 3),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.parquet")
        polars.DataFrame(columns).write_parquet(path, row_group_size=100_000)
        del columns
        command = [sys.executable, "-W", "ignore", "-c", READ, path]
        yield subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sections = {
        "digits": digits,
        "widths": widths,
        "coverage": lambda: coverage(asked.logs),
        "explore": explore,
        "sets": sets,
        "obd": obd,
        "speed": speed,
        "size": size,
    }
    parser.add_argument("sections", nargs="*", choices=[*sections, []], default=list(sections))
    parser.add_argument("--logs", type=int, default=10_000, help="of each world, for coverage")
    asked = parser.parse_args()
    for name in asked.sections:
        print(f"\n## {name}\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for line in sections[name]():
                print(line, flush=True)


if __name__ == "__main__":
    main()
