"""Streams of contexts, and for each round and label whether the label is right, or the chance.

There are offers that are clicked, models that answer well, documents with several topics, and
texts that fit no label; in one stream exactly one label is right. A stream is drawn from its name,
and its rounds are shuffled by the number of the order: nothing else matters, and nothing is kept.

Streams of the group "choose" may be used to choose a constant of a learner, those of "judge" only
to judge.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import onebit as ob
from benchmarks.default.sets import files_of, path_of
from onebit.core.draws import uniform
from onebit.datasets.tables import fields_of
from onebit.lab.truth import RIGHT_DRAW

Drawer = np.random.Generator
GROUPS = 3  # every third stream may choose


class World(NamedTuple):
    """A stream in the order in which its rounds come."""

    X: Any  # a list of texts or dicts, an array, or a CSR matrix
    Y: np.ndarray  # [round, label]: bytes, 1 where the label is right; or the chance that it is


@dataclass(frozen=True)
class Stream:
    name: str
    kind: str  # of its contexts: "text", "dict", "dense" or "sparse"
    rounds: int
    labels: int
    make: Callable[[Drawer], tuple[Any, np.ndarray]]  # so many rows at least; the same every time

    @property
    def group(self) -> str:
        """ "choose": may choose constants of a learner. "judge": may not."""
        return "choose" if zlib.crc32(self.name.encode()) % GROUPS == 0 else "judge"

    def load(self, order: int) -> World:
        """The rounds in an order of their own. A learner that plays them has this seed."""
        key = zlib.crc32(self.name.encode())
        X, Y = self.make(np.random.default_rng(key))
        chosen = np.random.default_rng([key, order]).permutation(len(Y))[: self.rounds]
        Y = np.ascontiguousarray(Y[chosen], np.uint8 if Y.dtype.kind in "bui" else np.float64)
        return World([X[i] for i in chosen] if isinstance(X, list) else X[chosen], Y)


# --- what is counted ------------------------------------------------------------------------------


def share_right(Y: np.ndarray, said: np.ndarray) -> float:
    """The expected share of right labels among those said, by their places."""
    return float(Y[np.arange(len(said)), said].mean())


def best_fixed(Y: np.ndarray) -> float:
    """The share right of the label that is best if always the same label is said."""
    return float(Y.mean(axis=0).max())


def ceiling(Y: np.ndarray) -> float:
    """The share right of the best label of each row."""
    return float(Y.max(axis=1).mean())


def drawn(Y: np.ndarray, order: int) -> np.ndarray:
    """The answers [round, label] that `simulate` draws for a learner of this seed: 0 or 1."""
    if Y.dtype == np.uint8:
        return Y
    rounds, labels = Y.shape
    draws = np.array(
        [
            [uniform(order, turn, RIGHT_DRAW + label) for label in range(labels)]
            for turn in range(rounds)
        ]
    )
    return (draws < Y).astype(np.uint8)


# --- chances --------------------------------------------------------------------------------------


def logit(p: Any) -> Any:
    return np.log(p / (1 - p))


def sigmoid(u: Any) -> Any:
    return 1 / (1 + np.exp(-u))


def popularity(rng: Drawer, labels: int, lowest: float, highest: float) -> np.ndarray:
    """The chances of the labels for an average context, in equal ratios."""
    return rng.permutation(np.geomspace(lowest, highest, labels))


def rates_about(rng: Drawer, labels: int, base: float, ratio: float) -> np.ndarray:
    """Chances whose mean is the base rate; the best and the worst are in this ratio."""
    rates = np.geomspace(1, ratio, labels)
    return rng.permutation(base * rates / rates.mean())


def suited(
    rng: Drawer, Z: np.ndarray, popular: np.ndarray, taste: float, bounds: tuple[float, float]
) -> np.ndarray:
    """Logistic functions of the columns of Z, of a deviation in log odds, within bounds."""
    scores = Z @ rng.normal(size=(Z.shape[1], len(popular)))
    scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    return np.clip(sigmoid(logit(popular) + taste * scores), *bounds)


def one_hot(places: np.ndarray, size: int) -> np.ndarray:
    return np.eye(size, dtype=np.uint8)[places]


# --- drawn streams --------------------------------------------------------------------------------


def buttons(rounds: int, chances: Sequence[float], context: Any = None) -> Callable[..., Any]:
    """Chances that depend on nothing; every context is the same."""
    context = {"page": "start"} if context is None else context
    return lambda rng: ([context] * rounds, np.tile(chances, (rounds, 1)))


def segments(rng: Drawer) -> tuple[Any, np.ndarray]:
    """Two actions; in each of two segments another is better."""
    segment = rng.integers(2, size=5_000)
    X = [{"segment": "ab"[i]} for i in segment]
    return X, np.where(one_hot(segment, 2) == 1, 0.05, 0.01)


def visitors(rng: Drawer, rounds: int) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Category, device and hour as dicts, and as columns of which chances are linear."""
    category, device = rng.integers(6, size=rounds), rng.integers(3, size=rounds)
    hour = rng.integers(24, size=rounds)
    X = [
        {"category": f"c{category[i]}", "device": f"d{device[i]}", "hour": int(hour[i])}
        for i in range(rounds)
    ]
    turn = 2 * np.pi * hour / 24
    columns = (np.sin(turn), np.cos(turn), one_hot(category, 6), 0.7 * one_hot(device, 3))
    return X, np.column_stack(columns)


def offers_to_visitors(rng: Drawer) -> tuple[Any, np.ndarray]:
    X, Z = visitors(rng, 10_000)
    return X, suited(rng, Z, popularity(rng, 8, 0.02, 0.09), 0.6, (0.01, 0.3))


def offers_by_numbers(
    rounds: int, labels: int, columns: int, highest: float, taste: float
) -> Callable[..., Any]:
    """Numbers of different units."""

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        Z = rng.normal(size=(rounds, columns))
        popular = popularity(rng, labels, highest / 5, highest)
        Y = suited(rng, Z, popular, taste, (0.01, 0.9))
        return Z * rng.permutation(np.geomspace(0.1, 1_000, columns)) + 5, Y

    return make


def rare(rounds: int, labels: int, base: float, in_context: bool) -> Callable[..., Any]:
    """Clicks that are rare, on labels of which some are better; and better for some visitors."""

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        rates = rates_about(rng, labels, base, 3 if in_context else 8)
        if not in_context:
            return buttons(rounds, rates.tolist())(rng)
        X, Z = visitors(rng, rounds)
        return X, suited(rng, Z, rates, 0.8, (0, 0.9))

    return make


def mute(rounds: int, labels: int, kind: str, one_right: bool = False) -> Callable[..., Any]:
    """Contexts that say nothing, and labels of which some are better.

    one_right: exactly one label is right in each round, and some are more often.
    """

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        popular = popularity(rng, labels, 0.02, 0.4)
        X: Any = rng.normal(size=(rounds, 12))
        if kind == "text":
            words = np.minimum(rng.zipf(1.3, (rounds, 9)), 3_000)
            X = [" ".join(f"w{word}" for word in row) for row in words]
        elif kind == "dict":
            X = [{"x": float(a), "y": float(b), "z": f"v{abs(c):.1f}"} for a, b, c, *_ in X]
        if not one_right:
            return X, np.tile(popular, (rounds, 1))
        return X, one_hot(rng.choice(labels, rounds, p=popular / popular.sum()), labels)

    return make


def clicks(rng: Drawer) -> tuple[Any, np.ndarray]:
    """The clicks of the catalogue."""
    data = ob.datasets.clicks(rows=10_000)
    return data.X, data.y


# --- texts and embeddings of the data folder ------------------------------------------------------


def lines_of(file: str) -> tuple[list[str], np.ndarray, list[str]]:
    """Texts, the place of each one's class, and the classes."""
    lines = gzip.decompress(path_of(f"{file}.tsv.gz").read_bytes()).decode().splitlines()
    names, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    classes, y = np.unique(names, return_inverse=True)
    return list(texts), y, classes.tolist()


def embeddings_of(file: str) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of sentences, and the place of each one's class (0 if there are none)."""
    fields = fields_of(path_of(f"emb_{file}.npz"))
    X = np.asarray(fields["X"], np.float32) / np.float32(fields["scale"])
    return X, np.unique(fields.get("y", np.zeros(len(X))), return_inverse=True)[1]


def offers_by_embeddings(rng: Drawer) -> tuple[Any, np.ndarray]:
    X, _ = embeddings_of("clinc150")
    return X, suited(rng, X - X.mean(axis=0), popularity(rng, 10, 0.02, 0.08), 1.2, (0.01, 0.3))


def routed(file: str, means: Sequence[float], deviation: float) -> Callable[..., Any]:
    """Texts to models: how often a model answers well depends on it and on the category."""

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        texts, y, classes = lines_of(file)
        skills = np.array(means) + deviation * rng.normal(size=(len(classes), len(means)))
        return texts, np.clip(skills, 0.3, 0.97)[y]

    return make


def among_strangers(
    labels: int, X: Any, y: np.ndarray, strangers: Any, rng: Drawer
) -> tuple[Any, np.ndarray]:
    """As many rows of some labels as strangers, for which no label is right."""
    chosen = rng.permutation(y.max() + 1)[:labels]
    Y = (y[:, None] == chosen).astype(np.uint8)
    fitting = rng.permutation(np.flatnonzero(Y.any(axis=1)))[: len(strangers)]
    Y = np.concatenate([Y[fitting], np.zeros((len(strangers), labels), np.uint8)])
    if isinstance(X, list):
        return [X[i] for i in fitting] + list(strangers), Y
    return np.concatenate([X[fitting], strangers]), Y


def strange_texts(rng: Drawer) -> tuple[Any, np.ndarray]:
    """Ten intents, and as many texts that have none of 150."""
    texts, y, _ = lines_of("clinc150")
    return among_strangers(10, texts, y, lines_of("clinc_oos")[0], rng)


def strange_embeddings(rng: Drawer) -> tuple[Any, np.ndarray]:
    X, y = embeddings_of("clinc150")
    return among_strangers(20, X, y, embeddings_of("clinc_oos")[0], rng)


def half_of_the_intents(rng: Drawer) -> tuple[Any, np.ndarray]:
    """Texts of 60 intents, of which 30 are labels."""
    texts, y, _ = lines_of("clinc150")
    chosen = rng.permutation(150)
    strangers = [text for text, i in zip(texts, y, strict=True) if i in chosen[30:60]]
    kept = [i for i, place in enumerate(y) if place in chosen[:30]]
    labels = {place: k for k, place in enumerate(chosen[:30])}
    named = np.array([labels[y[i]] for i in kept])
    return among_strangers(30, [texts[i] for i in kept], named, strangers, rng)


def thumbs(rng: Drawer) -> tuple[Any, np.ndarray]:
    """Requests to seven assistants: the right one pleases often, others sometimes."""
    texts, y, _ = lines_of("snips")
    return texts, np.where(one_hot(y, 7) == 1, 0.85, rng.uniform(0.02, 0.3, (7, 7))[y])


def reviews(rng: Drawer) -> tuple[Any, np.ndarray]:
    """Reviews of 14 kinds of goods; the kind is right, and whether the review is positive."""
    texts, kinds, positive = [], [], []
    for name, file in files_of("amazon14_fdu_raw"):
        for line in file.splitlines():
            sentiment, _, text = line.partition("\t")
            texts.append(text)
            kinds.append(name.split("/")[1].split(".")[0])
            positive.append(int(sentiment))
    classes, y = np.unique(kinds, return_inverse=True)
    return texts, np.hstack([one_hot(y, len(classes)), one_hot(np.array(positive), 2)])


# --- sets with several labels ---------------------------------------------------------------------


def yeast(rng: Drawer) -> tuple[Any, np.ndarray]:
    fields = fields_of(path_of("ml_yeast.npz"))
    return fields["X"], np.unpackbits(fields["Y"], axis=1)[:, : int(fields["k"])]


def tmc(rng: Drawer) -> tuple[Any, np.ndarray]:
    fields = fields_of(path_of("ml_tmc.npz"))
    X = np.unpackbits(fields["X"], axis=1)[:, : int(fields["d"])]
    Y = np.unpackbits(fields["Y"], axis=1)[:, : int(fields["k"])]
    return sparse.csr_matrix(X, dtype=np.float32), Y


def topics(all_of_them: bool) -> Callable[..., Any]:
    """Documents of RCV1, without repeats: their topics at the top, or all."""

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        fields = fields_of(path_of("rcv1_topics.npz"))
        kept = ~fields["repeat"]
        Y = np.unpackbits(fields["topics_packed"], axis=1)[:, :101]
        return fields["X"][kept], (Y if all_of_them else fields["top4"])[kept]

    return make


class Films(NamedTuple):
    titles: dict[str, str]
    genres: dict[str, list[str]]
    tags: dict[str, list[str]]
    ratings: list[tuple[str, str, float]]  # user, film, stars


def films() -> Films:
    """MovieLens."""
    tables = {
        name.split("/")[-1]: list(csv.DictReader(io.StringIO(file)))
        for name, file in files_of("movielens_latest_small_2016")
        if name.endswith(".csv")
    }
    tags = defaultdict(list)
    for row in tables["tags.csv"]:
        tags[row["movieId"]].append(row["tag"])
    return Films(
        {row["movieId"]: row["title"] for row in tables["movies.csv"]},
        {row["movieId"]: row["genres"].split("|") for row in tables["movies.csv"]},
        tags,
        [(r["user_id"], r["movie_id"], float(r["rating"])) for r in tables["ratings.csv"]],
    )


def genres_of_films(rng: Drawer) -> tuple[Any, np.ndarray]:
    """Titles and tags; every genre of the film is right."""
    data = films()
    genres = sorted({genre for row in data.genres.values() for genre in row})
    X = [" ".join([title, *data.tags.get(film, [])]) for film, title in data.titles.items()]
    rows = data.genres.values()
    return X, np.array([[genre in row for genre in genres] for row in rows], np.uint8)


def films_for_users(offered: int, visits: int, as_numbers: bool) -> Callable[..., Any]:
    """The most rated films are offered; right are those that the user gave four stars or more.

    The context is what the user thinks of other films, by genre: the mean of the stars and how
    many films, as numbers; or the three genres that the user likes best, as a dict. Users come
    several times.
    """

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        data = films()
        counts = Counter(film for _, film, _ in data.ratings)
        place = {film: k for k, (film, _) in enumerate(counts.most_common(offered))}
        users = {user: i for i, user in enumerate(dict.fromkeys(r[0] for r in data.ratings))}
        names = sorted({genre for row in data.genres.values() for genre in row})
        Y = np.zeros((len(users), offered), np.uint8)
        stars, seen = np.zeros((2, len(users), len(names)))
        for user, film, rating in data.ratings:
            if film in place:
                Y[users[user], place[film]] = rating >= 4
                continue
            for genre in data.genres[film]:
                stars[users[user], names.index(genre)] += rating
                seen[users[user], names.index(genre)] += 1
        liking = (stars + 3.5) / (seen + 1)  # as if one film more had had the usual stars
        visit = rng.integers(len(users), size=visits)
        if as_numbers:
            return np.hstack([liking, np.log1p(seen)])[visit], Y[visit]
        favourites = np.argsort(-liking, axis=1, kind="stable")[:, :3]
        X = [{names[j]: 1 for j in favourites[i]} | {"user": f"u{i}"} for i in visit]
        return X, Y[visit]

    return make


def shop(campaign: str) -> Callable[..., Any]:
    """Visitors of the Open Bandit sample, and estimates of their chance to click on each item.

    The log has some 40 clicks in 10,000 rounds, so a replay that rejects what was not shown would
    leave a few hundred rounds and a click or two. Instead, an item's chance is its share of clicks
    in the logs of both policies, and it is multiplied by how much more often visitors with the
    same features click than all do; one click is added to each count, at the usual rate. So the
    features tell how often a visitor clicks, not on what: the log has too few clicks for that.
    """

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        logs = {
            name: list(csv.DictReader(io.StringIO(file)))
            for name, file in files_of("obd_small")
            if name.endswith(f"/{campaign}/{campaign}.csv")
        }
        rows = [row for log in logs.values() for row in log]
        base = sum(int(row["click"]) for row in rows) / len(rows)

        def rates(column: str) -> dict[str, float]:
            shown = Counter(row[column] for row in rows)
            clicked = Counter(row[column] for row in rows if row["click"] == "1")
            return {name: (clicked[name] + 1) / (shown[name] + 1 / base) for name in shown}

        features = [f"user_feature_{i}" for i in range(4)]
        by_item, by_feature = rates("item_id"), {name: rates(name) for name in features}
        items = np.array([by_item[str(i)] for i in range(len(by_item))])
        visits = next(log for name, log in logs.items() if "/random/" in name)
        lifts = [math.prod(by_feature[f][row[f]] / base for f in features) for row in visits]
        X = [{feature: row[feature][:8] for feature in features} for row in visits]
        return X, np.minimum(np.outer(lifts, items), 1)

    return make


# --- all ------------------------------------------------------------------------------------------


def _rare_streams() -> Iterator[Stream]:
    """Each rate with each number of labels, with contexts or without: in turn."""
    for i, base in enumerate((0.001, 0.005, 0.01, 0.05)):
        for j, labels in enumerate((2, 10, 100)):
            in_context = (i + j) % 2 == 1
            name = f"rare_{base}_{labels}" + "_in_context" * in_context
            rounds = 5_000 if labels == 2 else 10_000
            yield Stream(name, "dict", rounds, labels, rare(rounds, labels, base, in_context))


STREAMS = {
    stream.name: stream
    for stream in (
        Stream("buttons", "dict", 2_000, 2, buttons(2_000, (0.02, 0.1))),
        Stream("buttons_empty_text", "text", 2_000, 2, buttons(2_000, (0.02, 0.1), "")),
        Stream("buttons_empty_dict", "dict", 2_000, 2, buttons(2_000, (0.02, 0.1), {})),
        Stream("buttons_often", "dict", 2_000, 2, buttons(2_000, (0.6, 0.9))),
        Stream(
            *("five_buttons", "dict", 5_000, 5, buttons(5_000, (0.02, 0.01, 0.1, 0.05, 0.02))),
        ),
        Stream("segments", "dict", 5_000, 2, segments),
        Stream("offers_dicts", "dict", 10_000, 8, offers_to_visitors),
        Stream("offers_embeddings", "dense", 10_000, 10, offers_by_embeddings),
        Stream(
            *("offers_8_numbers", "dense", 10_000, 20, offers_by_numbers(10_000, 20, 8, 0.08, 1.1)),
        ),
        Stream(
            *("offers_20_numbers", "dense", 5_000, 10, offers_by_numbers(5_000, 10, 20, 0.2, 1.2)),
        ),
        Stream("clicks", "sparse", 10_000, 10, clicks),
        Stream("routing_5", "text", 5_943, 5, routed("trec6", (0.8, 0.75, 0.7, 0.6, 0.4), 0.09)),
        Stream("routing_4", "text", 8_000, 4, routed("snips", (0.7, 0.7, 0.65, 0.5), 0.12)),
        Stream("thumbs", "text", 5_000, 7, thumbs),
        Stream("strange_texts", "text", 2_400, 10, strange_texts),
        Stream("strange_embeddings", "dense", 2_400, 20, strange_embeddings),
        Stream("half_of_the_intents", "text", 9_000, 30, half_of_the_intents),
        Stream("reviews", "text", 6_000, 16, reviews),
        Stream("yeast", "dense", 2_417, 14, yeast),
        Stream("tmc", "sparse", 10_000, 22, tmc),
        Stream("topics", "sparse", 10_000, 4, topics(False)),
        Stream("topics_101", "sparse", 10_000, 101, topics(True)),
        Stream("films_genres", "text", 9_125, 20, genres_of_films),
        Stream("films_tastes", "dense", 5_000, 20, films_for_users(20, 5_000, True)),
        Stream("films_users", "dict", 10_000, 100, films_for_users(100, 10_000, False)),
        Stream("shop_men", "dict", 10_000, 34, shop("men")),
        Stream("shop_all", "dict", 10_000, 80, shop("all")),
        Stream("mute_texts", "text", 5_000, 20, mute(5_000, 20, "text")),
        Stream("mute_dicts", "dict", 10_000, 50, mute(10_000, 50, "dict")),
        Stream("mute_numbers", "dense", 8_000, 30, mute(8_000, 30, "dense")),
        Stream("mute_one_right", "text", 5_000, 20, mute(5_000, 20, "text", one_right=True)),
        *_rare_streams(),
    )
}
