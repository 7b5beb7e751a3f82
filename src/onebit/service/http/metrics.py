"""Metrics for Prometheus: the tallies of the service, and the requests that HTTP answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from onebit.service.engine.progress import Progress
from onebit.service.service import Service
from onebit.service.tally import ModelTally, Spread

CONTENT_TYPE = CONTENT_TYPE_LATEST
LATENCIES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 4)

_COUNTS = {
    "decisions": "Decisions made.",
    "explored": "Decisions for a label other than the best-scoring one.",
    "silences": "Decisions without an answer that were read as wrong.",
    "cancelled": "Decisions cancelled.",
    "expired": "Feedback that was refused because its decision had expired.",
    "revised": "Answers revised or revoked.",
    "logged": "Decisions of other systems that were recorded.",
    "sharing": "Decisions in which names share a feature, because the vocabulary is full.",
}
_GAUGES = {
    "open": "Decisions that wait for feedback, or expired since they were last counted.",
    "smallest_propensity": "Smallest probability with which a label was said.",
}
_SHADOWS = {
    "up": "1 if a shadow learns, 0 if it is down.",
    "behind": "Events that a shadow has still to learn.",
    "rounds": "Answered rounds in which a shadow was compared with who speaks.",
    "difference": "Right labels, shadow minus speaker, estimated.",
    "difference_low": "Lower end of the interval of this difference.",
    "difference_high": "Upper end of the interval of this difference.",
}
_BUILDING: dict[str, tuple[str, Callable[[Progress], int]]] = {
    "lag": ("Events that a learner which is being built has to learn.", lambda it: it.lag),
    "building_rounds": (
        "Rounds that a learner which is being built goes through.", lambda it: it.rounds
    ),
    "building_rounds_done": ("Rounds that it has gone through.", lambda it: it.done),
}  # fmt: skip


class Requests:
    """The requests that HTTP answered, by route and status."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, int], int] = {}  # by method, route, status
        self.seconds: dict[tuple[str, str], Spread] = {}  # by method, route

    def add(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """seconds: until the answer; None: nobody knows."""
        key = (method, route, status)
        self.counts[key] = self.counts.get(key, 0) + 1
        if seconds is None:
            return
        spread = self.seconds.get((method, route))
        if spread is None:
            spread = self.seconds[method, route] = Spread(LATENCIES)
        spread.add(seconds)


class _Tallies(Collector):
    def __init__(self, service: Service, requests: Requests) -> None:
        self._service, self._requests = service, requests

    def collect(self) -> Iterable[Metric]:
        yield from self._models({name: e.tally for name, e in self._service.models.items()})
        yield from _building(self._service.building, self._service.models)
        yield from self._names()
        yield from self._shadows()
        yield from self._journal()
        yield _ready(not self._service.unready())
        yield from _answered(self._requests)

    def _models(self, tallies: dict[str, ModelTally]) -> Iterable[Metric]:
        for name, text in _COUNTS.items():
            yield _family(CounterMetricFamily, name, text, tallies, lambda t, n=name: getattr(t, n))
        for name, text in _GAUGES.items():
            yield _family(GaugeMetricFamily, name, text, tallies, lambda t, n=name: getattr(t, n))
        answers = CounterMetricFamily(
            "onebit_answers", "First answers to decisions.", labels=["model", "answer"]
        )
        for model, tally in tallies.items():
            answers.add_metric([model, "right"], tally.right)
            answers.add_metric([model, "wrong"], tally.wrong)
        yield answers
        text = "Share of the answers to own decisions, as they stand now, that say wrong."
        yield _family(GaugeMetricFamily, "error_share", text, tallies, _error_share)
        text = "Share of wrong answers among those to decisions of other systems."
        yield _family(GaugeMetricFamily, "logged_error_share", text, tallies, _logged_error_share)
        text = "Share of the decisions for a label other than the best-scoring one."
        yield _family(GaugeMetricFamily, "explored_share", text, tallies, _explored_share)
        delay = HistogramMetricFamily(
            "onebit_answer_delay_seconds", "Time from decision to feedback.", labels=["model"]
        )
        for model, tally in tallies.items():
            delay.add_metric([model], *_histogram(tally.delay))
        yield delay

    def _names(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("onebit_model_up", "1 if a model answers, else 0.", labels=["model"])
        names = GaugeMetricFamily(
            "onebit_names", "Names with weights of their own.", labels=["model"]
        )
        vocabulary = GaugeMetricFamily(
            "onebit_vocabulary", "The most names that may have weights.", labels=["model"]
        )
        for model, engine in self._service.models.items():
            used, most = engine.names
            up.add_metric([model], 1)
            names.add_metric([model], used)
            if most is not None:
                vocabulary.add_metric([model], most)
        for model in self._service.down:
            up.add_metric([model], 0)
        yield from (up, names, vocabulary)

    def _shadows(self) -> Iterable[Metric]:
        families = {
            name: GaugeMetricFamily(f"onebit_shadow_{name}", text, labels=["model", "shadow"])
            for name, text in _SHADOWS.items()
        }
        for model, engine in self._service.models.items():
            for name, card in engine.shadows.card().items():
                low, high = (-1.0, 1.0)
                if card.interval is not None:
                    low, high = card.interval.low, card.interval.high
                difference = float("nan") if card.difference is None else card.difference
                values = {
                    "up": float(not card.problem), "behind": card.behind, "rounds": card.rounds,
                    "difference": difference, "difference_low": low, "difference_high": high,
                }  # fmt: skip
                for family, value in values.items():
                    families[family].add_metric([model, name], value)
        yield from families.values()

    def _journal(self) -> Iterable[Metric]:
        tally = self._service.tally
        yield CounterMetricFamily("onebit_journal_commits", "Commits.", value=tally.commits)
        yield CounterMetricFamily("onebit_journal_events", "Events written.", value=tally.events)
        text = "Commits that failed."
        yield CounterMetricFamily("onebit_journal_failures", text, value=tally.failures)
        text = "Rows that wait for the next commit."
        yield GaugeMetricFamily("onebit_journal_waiting", text, value=tally.waiting)
        yield GaugeMetricFamily("onebit_journal_bytes", "Size of the journal.", value=tally.bytes)
        text = "Seconds by which the system's clock is ahead, if it has jumped and is not followed."
        jump = self._service.clock.jump
        yield GaugeMetricFamily("onebit_clock_jump_seconds", text, value=jump)
        buckets, total = _histogram(tally.sync)
        text = "Time of a commit, with its fsync."
        yield HistogramMetricFamily("onebit_journal_sync_seconds", text, buckets, total)


class _Start(Collector):
    def __init__(self, building: Mapping[str, Progress], requests: Requests) -> None:
        self._progress, self._requests = building, requests

    def collect(self) -> Iterable[Metric]:
        yield from _building(self._progress, list(self._progress))
        yield _ready(False)
        yield from _answered(self._requests)


def metrics_of_start(building: Mapping[str, Progress], requests: Requests) -> bytes:
    """What `/metrics` shows until the models are read from the journal."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Start(building, requests))
    return generate_latest(registry)


def _answered(requests: Requests) -> Iterable[Metric]:
    answered = CounterMetricFamily(
        "onebit_http_requests", "Requests answered.", labels=["method", "route", "status"]
    )
    for (method, route, status), count in list(requests.counts.items()):
        answered.add_metric([method, route, str(status)], count)
    yield answered
    latency = HistogramMetricFamily(
        "onebit_http_request_seconds", "Time to answer.", labels=["method", "route"]
    )
    for route, spread in list(requests.seconds.items()):
        latency.add_metric(list(route), *_histogram(spread))
    yield latency


def _ready(is_ready: bool) -> Metric:
    text = "1 if requests are taken, else 0."
    return GaugeMetricFamily("onebit_ready", text, value=float(is_ready))


def _building(building: Mapping[str, Progress], models: Iterable[str]) -> Iterable[Metric]:
    """How far the learners are that are being built."""
    known = {name: building.get(name) for name in models}
    for name, (text, value) in _BUILDING.items():
        family = GaugeMetricFamily(f"onebit_{name}", text, labels=["model"])
        for model, progress in known.items():
            family.add_metric([model], 0 if progress is None else value(progress))
        yield family


def _family(kind: Any, name: str, text: str, tallies: dict[str, ModelTally], value: Any) -> Metric:
    family = kind(f"onebit_{name}", text, labels=["model"])
    for model, tally in tallies.items():
        family.add_metric([model], value(tally))
    return family


def _error_share(tally: ModelTally) -> float:
    return _share(tally.mistakes, tally.answers)


def _logged_error_share(tally: ModelTally) -> float:
    return _share(tally.logged_mistakes, tally.logged_answers)


def _explored_share(tally: ModelTally) -> float:
    return _share(tally.explored, tally.decisions)


def _share(part: int, total: int) -> float:
    return part / total if total else float("nan")


def _histogram(spread: Spread) -> tuple[list[tuple[str, float]], float]:
    """Counts of the values up to each bound, as Prometheus wants them, and the sum of all."""
    names = [*map(str, map(float, spread.bounds)), "+Inf"]
    counts = map(float, accumulate(spread.counts))
    return list(zip(names, counts, strict=True)), spread.sum


class Metrics:
    """What `/metrics` shows."""

    def __init__(self, service: Service, requests: Requests) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Tallies(service, requests))

    def text(self) -> bytes:
        return generate_latest(self._registry)
