"""Measure onebit against its peers: `python -m benchmarks [--quick] [--markdown] [--json FILE]`.

Or against itself, at an earlier revision: `python -m benchmarks --against REVISION`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onebit as ob
from benchmarks import peers, streams
from benchmarks.against import compare
from benchmarks.peers import Run
from benchmarks.streams import Stream
from onebit.reading.contexts import encode_rows

EPSILON_GREEDY, SQUARECB = "--epsilon 0.05", "--squarecb"
VW_EPSILON = "Vowpal Wabbit, epsilon-greedy"
VW_SQUARECB = "Vowpal Wabbit, SquareCB"
VW_ADF = "Vowpal Wabbit, epsilon-greedy, ADF"
RIVER = "River, a model per label"
SKLEARN = "scikit-learn, true label"
SKLEARN_PASS = "scikit-learn, true labels, no predictions"
C = "C, tuned, labels fixed"
ONEBIT = "OneBit()"
DENSE = "dense K d x K d, numpy and LAPACK"
REPLICAS = 32
ONE_BY_ONE = f"{REPLICAS} single runs"
LOCKSTEP = f"{REPLICAS} Banditrons in lockstep"
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


@dataclass(frozen=True)
class Size:
    """How much to play."""

    synsep: int
    text: int
    rounds: int
    river_rounds: int
    sklearn_rounds: int
    repeats: int
    epochs: int  # against C
    dense_rounds: int  # of Newtron with its matrix laid out


FULL = Size(200_000, 200_000, 20_000, 5_000, 500, repeats=5, epochs=10, dense_rounds=3)
QUICK = Size(50_000, 50_000, 4_000, 1_000, 100, repeats=3, epochs=10, dense_rounds=2)


@dataclass(frozen=True)
class Line:
    """One line of the table: onebit and a peer on the same stream."""

    what: str
    stream: str
    peer: str
    onebit_run: Run
    peer_run: Run
    required: float | None  # the peer's time over onebit's, at least

    @property
    def ratio(self) -> float:
        return self.peer_run.microseconds / self.onebit_run.microseconds

    @property
    def is_met(self) -> bool | None:
        return None if self.required is None else self.ratio >= self.required


# --- measuring ------------------------------------------------------------------------------------


def pin_to_one_core() -> int | None:
    """Keep this process and its future threads on one core; where that cannot be had, None."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


@contextlib.contextmanager
def all_cores() -> Iterator[int]:
    """For a while, not pinned: how many cores there are."""
    if not hasattr(os, "sched_setaffinity"):
        yield os.cpu_count() or 1
        return
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    try:
        yield len(CORES)
    finally:
        os.sched_setaffinity(0, pinned)


def say(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


def fastest_runs(contestants: dict[str, Callable[[], Run]], repeats: int) -> dict[str, Run]:
    """Let all play in turn, again and again; keep each one's fastest run."""
    fastest: dict[str, Run] = {}
    for _ in range(repeats):
        for name, play in contestants.items():
            gc.collect()
            run = play()
            if name not in fastest or run.seconds < fastest[name].seconds:
                fastest[name] = run
    for name, run in fastest.items():
        say(f"    {name}: {run.microseconds:.3f} us a round")
    return fastest


def is_installed(package: str) -> bool:
    found = importlib.util.find_spec(package) is not None
    if not found:
        say(f"{package} is not installed: its lines are left out")
    return found


def new_learners(labels: int, gamma: float) -> dict[str, Callable[[], Any]]:
    return {
        f"Banditron(gamma={gamma})": lambda: ob.Banditron(labels=labels, gamma=gamma, seed=7),
        'Confidit(eta=1, reg=0.01, "coordinate")': lambda: ob.Confidit(
            labels=labels, eta=1, reg=0.01, update="coordinate", seed=7
        ),
        "UCWL()": lambda: ob.UCWL(labels=labels, seed=7),
        "SOBA(gamma=2**-7)": lambda: ob.SOBA(labels=labels, gamma=2**-7, seed=7),
        ONEBIT: lambda: ob.OneBit(labels=labels, seed=7),
    }


def whole_stream(
    stream: Stream, gamma: float, bits: int, required: tuple[float, float], size: Size
) -> list[Line]:
    """Every learner plays the whole stream inside its library's own loop, if it has one."""
    say(f"whole stream: {stream.name}, {len(stream.y)} rounds, {size.repeats} times each")
    learners = new_learners(stream.labels, gamma)
    contestants: dict[str, Callable[[], Run]] = {
        name: lambda new=new: peers.onebit_stream(new, stream) for name, new in learners.items()
    }
    for play in contestants.values():
        play()  # compiles
    with tempfile.TemporaryDirectory(prefix="onebit-benchmarks-") as folder:
        if is_installed("vowpalwabbit"):
            file = peers.VowpalWabbitFile(stream, Path(folder), bits)
            for name, exploration in ((VW_EPSILON, EPSILON_GREEDY), (VW_SQUARECB, SQUARECB)):
                contestants[name] = lambda exploration=exploration: file.play(exploration)
                start = file.seconds_to_start(exploration)
                say(f"    starting {name} without a stream: {start * 1e3:.1f} ms (not subtracted)")
        if is_installed("sklearn"):
            contestants[SKLEARN_PASS] = lambda: peers.sklearn_pass(stream)
        if is_installed("river"):
            contestants[RIVER] = lambda: peers.river_rounds(stream, size.river_rounds)
        runs = fastest_runs(contestants, size.repeats)
    first, *second_order = learners
    pairs = [(first, VW_EPSILON, required[0])]
    pairs += [(name, VW_SQUARECB, 1.0 if name == ONEBIT else required[1]) for name in second_order]
    pairs += [(first, RIVER, None), (first, SKLEARN_PASS, None)]
    return [
        Line(f"whole stream, {name}", stream.name, peer, runs[name], runs[peer], at_least)
        for name, peer, at_least in pairs
        if peer in runs
    ]


def round_by_round(stream: Stream, gamma: float, size: Size) -> list[Line]:
    """Decide and learn from Python, a call each a round."""
    say(f"round by round: {stream.name}, up to {size.rounds} rounds, {size.repeats} times each")
    name, new = next(iter(new_learners(stream.labels, gamma).items()))
    contestants: dict[str, Callable[[], Run]] = {
        name: lambda: peers.onebit_rounds(new, stream, size.rounds)
    }
    contestants[name]()  # compiles
    if is_installed("vowpalwabbit"):
        contestants[VW_EPSILON] = lambda: peers.vw_rounds(stream, size.rounds)
        contestants[VW_ADF] = lambda: peers.vw_adf_rounds(stream, size.river_rounds)
    if is_installed("river"):
        contestants[RIVER] = lambda: peers.river_rounds(stream, size.river_rounds)
    if is_installed("sklearn"):
        contestants[SKLEARN] = lambda: peers.sklearn_rounds(stream, size.sklearn_rounds)
    runs = fastest_runs(contestants, size.repeats)
    pairs = [(VW_EPSILON, 5.0), (VW_ADF, None), (RIVER, 5.0), (SKLEARN, None)]
    return [
        Line(f"round by round, {name}", stream.name, peer, runs[name], runs[peer], at_least)
        for peer, at_least in pairs
        if peer in runs
    ]


def within_limits(synsep: Stream, size: Size) -> list[Line]:
    """OneBit round by round, on sparse rows and on dense rows, and the time that it may take."""
    say(f"OneBit round by round: up to {size.rounds} rounds, {size.repeats} times each")
    lines = []
    for stream, as_arrays, limit in (
        (synsep, False, 40.0),
        (streams.gaussians(size.rounds), True, 100.0),
    ):
        contestants: dict[str, Callable[[], Run]] = {
            ONEBIT: lambda stream=stream, as_arrays=as_arrays: peers.onebit_rounds(
                lambda: ob.OneBit(labels=stream.labels, seed=7), stream, size.rounds, as_arrays
            )
        }
        contestants[ONEBIT]()  # compiles
        run = fastest_runs(contestants, size.repeats)[ONEBIT]
        allowed = Run(limit * 1e-6 * run.rounds, run.rounds, None)
        what, peer = f"round by round, {ONEBIT}", f"none: at most {limit:g} us"
        lines.append(Line(what, stream.name, peer, run, allowed, 1.0))
    return lines


def compiled_loop(stream: Stream, gamma: float, size: Size) -> list[Line]:
    """onebit's Banditron and the same algorithm in C, with the same draws.

    In many epochs: onebit checks its input once, which C does not.
    """
    repeats = 2 * size.repeats
    rounds = f"{size.epochs} x {len(stream.y)} rounds"
    say(f"compiled loop: {stream.name}, {rounds}, {repeats} times each")
    if not peers.BanditronInC.can_be_compiled():
        say("there is no C compiler (cc): the line against C is left out")
        return []
    name, new = next(iter(new_learners(stream.labels, gamma).items()))
    with tempfile.TemporaryDirectory(prefix="onebit-benchmarks-") as folder:
        try:
            in_c = peers.BanditronInC(stream, Path(folder))
        except subprocess.CalledProcessError:
            say("banditron.c does not compile here: the line against C is left out")
            return []
        contestants = {
            name: lambda: peers.onebit_stream(new, stream, size.epochs),
            C: lambda: in_c.play(gamma, seed=7, epochs=size.epochs),
        }
        contestants[name]()  # compiles
        runs = fastest_runs(contestants, repeats)
    if runs[name].mistakes != runs[C].mistakes:
        say(f"    mistakes differ: onebit {runs[name].mistakes}, C {runs[C].mistakes}")
    return [Line(f"compiled loop, {name}", stream.name, C, runs[name], runs[C], 1 / 1.4)]


def lockstep(stream: Stream, gamma: float, size: Size) -> list[Line]:
    """Many settings over one stream: in lockstep, and one after another."""
    gammas = np.geomspace(gamma / 10, min(10 * gamma, 1), REPLICAS)
    rows = encode_rows(stream.X, np.dtype(np.float32), None)  # checked once, for both
    say(f"lockstep: {stream.name}, {REPLICAS} x {len(stream.y)} rounds, {size.repeats} times each")

    def one_by_one() -> Run:
        begin = time.perf_counter()
        learners = [ob.Banditron(stream.labels, gamma=g, seed=7) for g in gammas]
        traces = [ob.simulate(learner, rows, stream.y) for learner in learners]
        return whole_run(time.perf_counter() - begin, traces)

    def together(threads: int) -> Run:
        begin = time.perf_counter()
        runs = ob.sweep(
            ob.Banditron,
            rows,
            stream.y,
            labels=stream.labels,
            gamma=gammas,
            seed=7,
            threads=threads,
        )
        return whole_run(time.perf_counter() - begin, [run.trace for run in runs])

    def whole_run(seconds: float, traces: list[Any]) -> Run:
        rounds = sum(int(trace.rounds[-1]) for trace in traces)
        return Run(seconds, rounds, sum(int(trace.mistakes[-1]) for trace in traces))

    together(1)  # compiles
    runs = fastest_runs({LOCKSTEP: lambda: together(1), ONE_BY_ONE: one_by_one}, size.repeats)
    lines = [Line(LOCKSTEP, stream.name, ONE_BY_ONE, runs[LOCKSTEP], runs[ONE_BY_ONE], 3.0)]
    with all_cores() as cores:
        if cores > 1:
            on_all = f"{LOCKSTEP}, {cores} threads"
            pair = {on_all: lambda: together(cores), LOCKSTEP: lambda: together(1)}
            runs = fastest_runs(pair, size.repeats)
            lines.append(Line(on_all, stream.name, LOCKSTEP, runs[on_all], runs[LOCKSTEP], 1.0))
    return lines


def newtron(size: Size) -> list[Line]:
    """Exact Newtron as it is here, and with its matrix laid out; both have the same past."""
    learned, rounds, repeats = 1000, 500, 2
    stream = streams.synnonsep(learned + rounds)
    say(f"Newtron: {stream.name}, rounds from {learned} on, {repeats} times each")
    settings = {"gamma": 0.006, "alpha": 10.0, "beta": 0.01, "D": 1.0}
    learner = ob.Newtron(stream.labels, features=stream.X.shape[1], seed=7, **settings)
    dense = peers.DenseNewtron(stream, **settings)

    def play(t: int) -> Any:
        decision = learner.decide(stream.row(t))
        learner.learn(decision, right=bool(decision.label == stream.y[t]))
        return decision

    for t in range(learned):
        d = play(t)
        dense.hear(t, d.place, d.note, d.other, right=bool(d.label == stream.y[t]))
    dense.solve()
    before = learner.copy()
    contestants = {
        "Newtron(gamma=0.006)": lambda: peers.onebit_from(before, stream, learned, rounds),
        DENSE: lambda: dense.play(learned, said),
    }
    contestants["Newtron(gamma=0.006)"]()  # compiles
    said = [play(learned + i).place for i in range(size.dense_rounds)]
    factors = dense.factors
    runs = fastest_runs(contestants, repeats)
    factors = (dense.factors - factors) / (repeats * size.dense_rounds)
    off = np.abs(dense.last - learner.weights).max() / np.abs(learner.weights).max()
    say(f"    {factors:.1f} Cholesky factors a dense round; the weights differ by {off:.0e}")
    if off > 1e-6:
        say("    this is more than rounding: one of them is wrong")
    name, peer = contestants
    return [Line(f"exact, {name}", stream.name, peer, runs[name], runs[peer], 10.0)]


# --- reporting ------------------------------------------------------------------------------------

HEAD = (
    *("what", "stream", "peer", "onebit, us", "peer, us", "peer / onebit", "required", "met"),
    *("error, onebit", "error, peer"),
)


def times(ratio: float) -> str:
    if ratio < 1:
        return f"1/{1 / ratio:.3g}"
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def cells(line: Line) -> list[str]:
    def percent(run: Run) -> str:
        return "-" if run.error is None else f"{run.error:.1%}"

    return [
        line.what,
        line.stream,
        line.peer,
        f"{line.onebit_run.microseconds:.3f}",
        f"{line.peer_run.microseconds:.3f}",
        times(line.ratio),
        "-" if line.required is None else times(line.required),
        {True: "yes", False: "NO", None: "-"}[line.is_met],
        percent(line.onebit_run),
        percent(line.peer_run),
    ]


def table(lines: list[Line], markdown: bool) -> str:
    rows = [list(HEAD), *(cells(line) for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]

    def written(row: list[str]) -> list[str]:
        text, numbers = row[:3], row[3:]
        left = [cell.ljust(width) for cell, width in zip(text, widths[:3], strict=True)]
        return left + [cell.rjust(width) for cell, width in zip(numbers, widths[3:], strict=True)]

    if not markdown:
        return "\n".join("  ".join(written(row)) for row in rows)
    ruler = ["-" * w for w in widths[:3]] + ["-" * (w - 1) + ":" for w in widths[3:]]
    rows_written = [written(rows[0]), ruler, *(written(row) for row in rows[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows_written)


def machine() -> dict[str, str]:
    """What was measured on and with."""
    facts = {"processor": platform.processor() or platform.machine()}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [s for s in cpuinfo.read_text().splitlines() if s.startswith("model name")]
        facts["processor"] = models[0].partition(":")[2].strip() if models else facts["processor"]
    facts |= {"python": platform.python_version(), "onebit": ob.__version__}
    for package in ("numpy", "numba", "vowpalwabbit", "river", "scikit-learn"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def as_json(lines: list[Line]) -> str:
    records = [
        {
            "what": line.what,
            "stream": line.stream,
            "peer": line.peer,
            "ratio": line.ratio,
            "required": line.required,
            "met": line.is_met,
            **{
                f"{who}_{field}": value
                for who, run in (("onebit", line.onebit_run), ("peer", line.peer_run))
                for field, value in (
                    ("microseconds", run.microseconds),
                    ("rounds", run.rounds),
                    ("error", run.error),
                )
            },
        }
        for line in lines
    ]
    return json.dumps({"machine": machine(), "lines": records}, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller streams, fewer repeats")
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the results here")
    parser.add_argument(
        "--against", metavar="REVISION", help="only this: speed now and at a revision of git"
    )
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL

    core = pin_to_one_core()
    say(f"pinned to core {core}" if core is not None else "cannot pin to a core on this system")
    if arguments.against:
        print(compare(arguments.against, arguments.quick, say))
        return
    synsep = streams.synsep(size.synsep)
    lines = compiled_loop(synsep, 0.014, size)
    lines += whole_stream(synsep, 0.014, 18, (40, 20), size)
    lines += round_by_round(synsep, 0.014, size)
    lines += within_limits(synsep, size)
    lines += lockstep(synsep, 0.014, size)
    lines += newtron(size)
    text = streams.text_shaped(size.text)
    lines += whole_stream(text, 0.05, 24, (15, 12), size)
    lines += round_by_round(text, 0.05, size)
    lines += lockstep(text, 0.05, size)

    if arguments.json:
        arguments.json.write_text(as_json(lines))
    print(table(lines, arguments.markdown))
    print(
        "\nCPU microseconds a round, one core (in lockstep: wall clock). "
        + ", ".join(map(" ".join, machine().items()))
    )


STARTED = time.perf_counter()

if __name__ == "__main__":
    main()
