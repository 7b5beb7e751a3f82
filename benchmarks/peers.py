"""Whoever plays a stream: onebit, its peers and C. Each function plays once and says what it cost.

Every contestant gets the stream in its own best form (a cache file, text, dictionaries, CSR), made
before its clock starts.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

import onebit as ob
from benchmarks.streams import Stream, vw_features, write_vw_file


@dataclass(frozen=True)
class Run:
    """CPU time of the whole process, all threads, over so many rounds."""

    seconds: float
    rounds: int
    mistakes: int | None  # None where the contestant does not predict

    @property
    def microseconds(self) -> float:
        return self.seconds / self.rounds * 1e6

    @property
    def error(self) -> float | None:
        return None if self.mistakes is None else self.mistakes / self.rounds


# --- onebit ---------------------------------------------------------------------------------------


def onebit_stream(new_learner: Callable[[], Any], stream: Stream, epochs: int = 1) -> Run:
    """A new learner plays the whole stream."""
    begin = time.process_time()
    trace = ob.simulate(new_learner(), stream.X, stream.y, epochs=epochs)
    seconds = time.process_time() - begin
    return Run(seconds, int(trace.rounds[-1]), int(trace.mistakes[-1]))


def onebit_rounds(
    new_learner: Callable[[], Any], stream: Stream, rounds: int, as_arrays: bool = False
) -> Run:
    """Decide and learn, one Python call each a round, on sparse rows or on dense arrays."""
    rows = list(stream.X[:rounds].toarray()) if as_arrays else list(map(stream.row, range(rounds)))
    answers = stream.y[:rounds].tolist()
    learner = new_learner()
    mistakes = 0
    begin = time.process_time()
    for row, answer in zip(rows, answers, strict=True):
        decision = learner.decide(row)
        right = decision.label == answer
        learner.learn(decision, right=right)
        mistakes += not right
    return Run(time.process_time() - begin, rounds, mistakes)


def onebit_from(learner: Any, stream: Stream, first: int, rounds: int) -> Run:
    """A copy of a learner that has learned the rows before the first goes on."""
    learner = learner.copy()
    X, y = stream.X[first : first + rounds], stream.y[first : first + rounds]
    begin = time.process_time()
    trace = ob.simulate(learner, X, y)
    seconds = time.process_time() - begin
    return Run(seconds, rounds, int(trace.mistakes[-1]))


# --- Newtron with its matrix laid out -------------------------------------------------------------


class DenseNewtron:
    """Newtron by the book: A, of K d by K d numbers, and b are kept, and every round solves for W.

    The least of W'AW/2 + b.W in the ball is -(A + mu I)^-1 b; mu is found by Newton's method on
    1/|W| - 1/D (More, Sorensen 1983) from the last round's, at a Cholesky factor a step.
    """

    def __init__(
        self, stream: Stream, *, gamma: float, alpha: float, beta: float, D: float
    ) -> None:
        self.stream, self.labels, self.features = stream, stream.labels, stream.X.shape[1]
        self.gamma, self.alpha, self.beta, self.D = gamma, alpha, beta, D
        size = self.labels * self.features
        self.A = np.zeros((size, size), order="F")
        np.fill_diagonal(self.A, 1.0 / D)
        self.factor = np.empty_like(self.A)
        self.b, self.W, self.mu = np.zeros(size), np.zeros(size), 0.0
        self.factors = 0  # made so far

    def hear(self, t: int, said: int, p: float, score: float, right: bool) -> None:
        """Let A and b grow by what round t tells; p is the softmax of the said label."""
        law = (1.0 - self.gamma) * p + self.gamma / self.labels
        c = -(1.0 - p) / law if right else p / law
        kappa = law if right else 1.0
        indices, values = self.stream.row(t)
        direction = np.full(self.labels, -c / self.labels)
        direction[said] += c
        g = np.outer(direction, values).ravel()
        places = (np.arange(self.labels)[:, None] * self.features + indices).ravel()
        self.A[np.ix_(places, places)] += kappa * self.beta * np.outer(g, g)
        self.b[places] += (1.0 - kappa * self.beta * c * score) * g

    def solve(self) -> None:
        """W from A and b."""
        diagonal = np.einsum("ii->i", self.factor)
        while True:
            np.copyto(self.factor, self.A)
            diagonal += self.mu
            lower, _ = cho_factor(self.factor, lower=True, overwrite_a=True, check_finite=False)
            self.factors += 1
            self.W = -cho_solve((lower, True), self.b, check_finite=False)
            norm = np.linalg.norm(self.W)
            if abs(norm - self.D) <= 1e-9 * self.D or (self.mu == 0.0 and norm < self.D):
                return
            half = solve_triangular(lower, self.W, lower=True, check_finite=False)
            step = norm**2 / (half @ half) * (norm / self.D - 1.0)
            self.mu = max(self.mu + step, 0.0)

    def play(self, first: int, said: list[int]) -> Run:
        """Rounds from the first on, in which the labels are said that it is told to say."""
        A, b, W, mu = self.A.copy(order="F"), self.b.copy(), self.W, self.mu
        answers = self.stream.y.tolist()
        begin = time.process_time()
        for t, label in enumerate(said, first):
            indices, values = self.stream.row(t)
            scores = self.W.reshape(self.labels, -1)[:, indices] @ values
            powers = np.exp(self.alpha * (scores - scores.max()))
            p = powers[label] / powers.sum()
            self.hear(t, label, p, scores[label], right=label == answers[t])
            self.solve()
        seconds = time.process_time() - begin
        self.last = self.W.reshape(self.labels, -1)
        self.A, self.b, self.W, self.mu = A, b, W, mu  # to be played again
        return Run(seconds, len(said), None)


# --- Vowpal Wabbit --------------------------------------------------------------------------------


class VowpalWabbitFile:
    """A stream as Vowpal Wabbit's cache file, to be played whole inside its own C++ loop."""

    def __init__(self, stream: Stream, folder: Path, bits: int) -> None:
        self.stream = stream
        text, cache = folder / f"{stream.name}.vw", folder / f"{stream.name}.cache"
        write_vw_file(stream, text)
        self.learner = f"--cbify {stream.labels} --cb_explore_adf -b {bits} --quiet"
        self.source = f"-d {text} --cache_file {cache}"
        self.play("--epsilon 0.05")  # reads the text and writes the cache
        text.unlink()  # from here on nothing but the cache can be read
        text.touch()

    def play(self, exploration: str) -> Run:
        """The workspace's constructor plays the whole file."""
        import vowpalwabbit

        begin = time.process_time()
        workspace = vowpalwabbit.Workspace(f"{self.learner} {exploration} {self.source}")
        seconds = time.process_time() - begin
        rounds = round(workspace.get_weighted_examples())
        mistakes = round(workspace.get_sum_loss())
        workspace.finish()
        if rounds != len(self.stream.y):
            raise RuntimeError(f"Vowpal Wabbit played {rounds} of {len(self.stream.y)} rounds")
        return Run(seconds, rounds, mistakes)

    def seconds_to_start(self, exploration: str) -> float:
        """The constructor without a stream."""
        import vowpalwabbit

        begin = time.process_time()
        workspace = vowpalwabbit.Workspace(f"{self.learner} {exploration} --no_stdin")
        seconds = time.process_time() - begin
        workspace.finish()
        return seconds


def _sample(probabilities: list[float], draw: float) -> int:
    for label, probability in enumerate(probabilities):
        draw -= probability
        if draw < 0:
            return label
    return len(probabilities) - 1


def vw_rounds(stream: Stream, rounds: int) -> Run:
    """Predict and learn on text, one call each a round.

    Labels without features of their own are what `--cb_explore` is for: the text is one line.
    """
    import vowpalwabbit

    lines = [f"| {vw_features(stream, t)}" for t in range(rounds)]
    answers = stream.y[:rounds].tolist()
    workspace = vowpalwabbit.Workspace(f"--cb_explore {stream.labels} --epsilon 0.05 --quiet")
    rng = random.Random(0)
    mistakes = 0
    begin = time.process_time()
    for line, answer in zip(lines, answers, strict=True):
        probabilities = workspace.predict(line)
        label = _sample(probabilities, rng.random())
        wrong = label != answer
        workspace.learn(f"{label + 1}:{int(wrong)}:{probabilities[label]} {line}")
        mistakes += wrong
    seconds = time.process_time() - begin
    workspace.finish()
    return Run(seconds, rounds, mistakes)


def vw_adf_rounds(stream: Stream, rounds: int) -> Run:
    """The same through `--cb_explore_adf`: a shared line, a line a label, crossed by `-q sa`."""
    import vowpalwabbit

    shared = [f"shared |s {vw_features(stream, t)}" for t in range(rounds)]
    actions = [f"|a label{k}" for k in range(stream.labels)]
    answers = stream.y[:rounds].tolist()
    workspace = vowpalwabbit.Workspace(
        "--cb_explore_adf --epsilon 0.05 -q sa --ignore_linear s --quiet"
    )
    rng = random.Random(0)
    mistakes = 0
    begin = time.process_time()
    for context, answer in zip(shared, answers, strict=True):
        probabilities = workspace.predict([context, *actions])
        label = _sample(probabilities, rng.random())
        wrong = label != answer
        lines = [context, *actions]
        lines[label + 1] = f"0:{int(wrong)}:{probabilities[label]} {actions[label]}"
        workspace.learn(lines)
        mistakes += wrong
    seconds = time.process_time() - begin
    workspace.finish()
    return Run(seconds, rounds, mistakes)


# --- River and scikit-learn -----------------------------------------------------------------------


def river_rounds(stream: Stream, rounds: int) -> Run:
    """A logistic regression per label in a loop of one's own; exploration 0.05.

    River's default rate, 0.01, learns too slowly for these streams; the time is the same.
    """
    from river import linear_model, optim

    rows = [
        dict(zip(*(part.tolist() for part in stream.row(t)), strict=True)) for t in range(rounds)
    ]
    answers = stream.y[:rounds].tolist()
    models = [
        linear_model.LogisticRegression(optimizer=optim.SGD(1.0)) for _ in range(stream.labels)
    ]
    rng = random.Random(0)
    mistakes = 0
    begin = time.process_time()
    for row, answer in zip(rows, answers, strict=True):
        scores = [model.predict_proba_one(row)[True] for model in models]
        label = scores.index(max(scores))
        if rng.random() < 0.05:
            label = rng.randrange(stream.labels)
        right = label == answer
        models[label].learn_one(row, right)
        mistakes += not right
    return Run(time.process_time() - begin, rounds, mistakes)


def sklearn_rounds(stream: Stream, rounds: int) -> Run:
    """Predict and partial_fit on one CSR row a round. It receives the true label every time."""
    from sklearn.linear_model import SGDClassifier

    rows = [stream.X[t] for t in range(rounds)]
    answers = [stream.y[t : t + 1] for t in range(rounds)]
    model = SGDClassifier(loss="log_loss", random_state=0)
    model.partial_fit(rows[0], answers[0], classes=np.arange(stream.labels))
    mistakes = 0
    begin = time.process_time()
    for row, answer in zip(rows, answers, strict=True):
        mistakes += int(model.predict(row)[0] != answer[0])
        model.partial_fit(row, answer)
    return Run(time.process_time() - begin, rounds, mistakes)


def sklearn_pass(stream: Stream) -> Run:
    """One partial_fit over the whole stream. It receives the true labels and predicts nothing."""
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(loss="log_loss", random_state=0, shuffle=False)
    begin = time.process_time()
    model.partial_fit(stream.X, stream.y, classes=np.arange(stream.labels))
    return Run(time.process_time() - begin, len(stream.y), None)


# --- C --------------------------------------------------------------------------------------------


class BanditronInC:
    """banditron.c, compiled here and now for this stream's number of labels."""

    def __init__(self, stream: Stream, folder: Path) -> None:
        self.stream = stream
        library = folder / "banditron.so"
        subprocess.run(
            [
                *("cc", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"),
                *(f"-DLABELS={stream.labels}", "-o", str(library)),
                str(Path(__file__).with_name("banditron.c")),
            ],
            check=True,
        )
        self.function = ctypes.CDLL(str(library)).banditron
        self.function.restype = ctypes.c_int64
        self.arrays = (
            np.ascontiguousarray(stream.X.indices, np.uint32),
            np.ascontiguousarray(stream.X.data, np.float32),
            np.ascontiguousarray(stream.X.indptr, np.int64),
            np.ascontiguousarray(stream.y, np.int64),
        )

    @staticmethod
    def can_be_compiled() -> bool:
        return shutil.which("cc") is not None

    def play(self, gamma: float, seed: int, epochs: int) -> Run:
        begin = time.process_time()
        room = np.zeros(self.stream.X.shape[1] * 16 + 16, np.float32)
        start = -room.ctypes.data % 64 // 4  # align to 64 bytes
        mistakes = self.function(
            *(ctypes.c_void_p(array.ctypes.data) for array in (room[start:], *self.arrays)),
            ctypes.c_int64(len(self.stream.y)),
            ctypes.c_int64(epochs),
            ctypes.c_double(gamma),
            ctypes.c_uint64(seed),
        )
        seconds = time.process_time() - begin
        return Run(seconds, len(self.stream.y) * epochs, mistakes)
