"""The configuration: checked as a whole, with every problem in a sentence."""

from __future__ import annotations

import msgspec
import pytest

import onebit as ob
from onebit.service.configuration import (
    Configuration,
    ConfigurationError,
    check,
    difference,
    duration,
)
from onebit.service.tokens import is_loopback

NEWS = """
[models.news]
labels = ["sport", "politics", "tech"]
"""


@pytest.fixture
def read(tmp_path):
    def checked(text, **flags) -> Configuration:
        path = tmp_path / "news.toml"
        path.write_text(text)
        return check(path, **flags)

    return checked


@pytest.fixture
def problems(read):
    def found(text, **flags) -> list[str]:
        with pytest.raises(ConfigurationError) as raised:
            read(text, **flags)
        return raised.value.problems

    return found


def test_defaults(read, tmp_path):
    made = read(NEWS)
    assert (made.service.host, made.service.port) == ("127.0.0.1", 8331)
    assert made.service.durability == "full"
    assert made.service.journal == str(tmp_path / "onebit.journal")
    news = made.models["news"]
    assert news.learner == "OneBit" and news.names == ["sport", "politics", "tech"]
    assert news.wrong_after is None and news.expires_after == 30 * 86400
    learner = news.make()
    assert type(learner) is ob.OneBit and learner.labels == news.names


def test_everything(read, tmp_path):
    text = """
    [service]
    host = "localhost"
    port = 9000
    journal = "/var/lib/onebit/news.journal"
    durability = "normal"
    snapshots = 5
    retention = "90d"
    access_log = false
    limits = { body = 4096, queue = 2000 }

    [service.timeouts]
    body = "500ms"

    [models.news]
    title = "What to show first"
    labels = 3
    learner = "banditron"
    settings = { gamma = 0.1, half_life = 1000, features = 20, dtype = "float64" }
    seed = 7
    silence = { wrong_after = "24h" }
    expires_after = "1w"
    revisions = true
    deferred = true

    [models.ads]
    labels = [10, 20]
    """
    made = read(text)
    assert made.service.journal == "/var/lib/onebit/news.journal"
    assert made.service.limits.body == 4096 and made.service.limits.batch == 1000
    assert made.service.timeouts.body == 0.5 and made.service.retention == 90 * 86400
    news = made.models["news"]
    assert news.wrong_after == 86400 and news.expires_after == 7 * 86400
    learner = news.make()
    assert type(learner) is ob.Banditron and learner.settings["gamma"] == 0.1
    assert (learner.seed, learner.features, learner.dtype) == (7, 20, "float64")
    assert made.models["ads"].make().labels == [10, 20]
    assert msgspec.json.decode(msgspec.json.encode(news))["settings"]["gamma"] == 0.1


def test_flags_win(read):
    made = read("[service]\nport = 9000\n" + NEWS, host="::1", port=9001)
    assert (made.service.host, made.service.port) == ("::1", 9001)


def test_all_problems_at_once(problems):
    found = problems("""
    [servise]
    [service]
    prot = 80
    host = 5
    durability = "some"
    limits = { bdoy = 1, batch = 0 }
    timeouts = { body = 10 }
    [models.news]
    lables = ["a", "b"]
    [models.ads]
    labels = ["a", "b"]
    learner = "Bandittron"
    [models."no/name"]
    labels = ["a", "a"]
    """)
    expected = [
        "unknown table 'servise'; did you mean 'service'?",
        "[service]: unknown key 'prot'; did you mean 'port'?",
        "[service] host: expected text in quotes, got a whole number",
        "[service] durability: must be 'full' or 'normal', not 'some'",
        "[service.limits]: unknown key 'bdoy'; did you mean 'body'?",
        "[service.limits] batch: expected a whole number >= 1",
        '[service.timeouts] body: a time is text with a unit (ms, s, m, h, d, w), as in "24h", '
        "not 10",
        "[models.news]: unknown key 'lables'; did you mean 'labels'?",
        "[models.ads]: no learner 'Bandittron'; did you mean 'Banditron'?",
        "[models.no/name]: a model's name has",
        "[models.no/name]: label 'a' occurs twice",
    ]
    assert len(found) == len(expected)
    for said, start in zip(found, expected, strict=True):
        assert said.startswith(start)


def test_a_batch_must_fit_into_the_queue(read, problems):
    assert problems(f"[service.limits]\nqueue = 100\n{NEWS}") == [
        "[service.limits] batch: a batch of 1000 never fits into queue = 100; lower batch, or "
        "raise queue"
    ]
    assert read(f"[service.limits]\nqueue = 100\nbatch = 100\n{NEWS}").service.limits.queue == 100


def test_the_message_names_the_file(read, tmp_path):
    with pytest.raises(ConfigurationError, match=r"news\.toml has a problem:\n  \[service\]"):
        read("[service]\nport = -1" + NEWS)
    with pytest.raises(ConfigurationError, match=r"news\.toml has 2 problems:\n"):
        read("[service]\nport = -1\nhost = 1" + NEWS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no model"),
        ("models = 5", "must be a table"),
        ("[models]\nnews = 5", "must be a table, not 5"),
        ("[service]\nlimits = 5" + NEWS, "[service.limits]: must be a table, not 5"),
        ("x = ", "not TOML"),
        ("[models.news]", "no labels"),
        ("[models.news]\nlabels = ['a', 1]", "all strings or all ints"),
        ("[models.news]\nlabels = ['a']", "between 2"),
        ("[models.news]\nlabels = 1", "labels: expected a whole number >= 2"),
        ("[models.news]\nlabels = 2000", "[service.limits] labels = 1000"),
        (NEWS + "settings = { inptus = 'dense' }", "did you mean 'inputs'"),
        (NEWS + "settings = { inputs = 'x' }", "inputs must be one of"),
        (NEWS + "settings = { seed = 3 }", "give it to the model: seed = 7"),
        (NEWS + "settings = { silence = 'wrong' }", "wrong_after"),
        (NEWS + "silence = 'wrong'", 'must be "nothing" or { wrong_after = "24h" }'),
        (NEWS + "silence = { wrong_after = 5 }", "a time is text"),
        (NEWS + "silence = { wrong_after = '40d' }", "longer than expires_after"),
        (NEWS + "learner = 'Perceptron'\nsilence = { wrong_after = '1d' }", "the true label"),
        (NEWS + "learner = 'Halving'", "can only be passed in Python"),
        (NEWS + "expires_after = '0s'", "above 0"),
        (NEWS + "recipe = 'none.toml'", "No such file"),
        (NEWS + "recipe = 'r.toml'\nlearner = 'UCWL'", "learner: leave it out: recipe says it"),
        (NEWS + "learner_file = 'x'", "labels: leave it out: learner_file says it"),
        ("[models.news]\nlearner_file = 'x'", "No such file"),
        ("[service]\nhost = '0.0.0.0'" + NEWS, "can be reached from other machines"),
        ("[service]\nhost = 'example.org'" + NEWS, "can be reached from other machines"),
        ("[service]\ntokens = 'none'" + NEWS, "No such file"),
    ],
)
def test_problems(problems, text, message):
    (found,) = problems(text)
    assert message in found


def test_not_text(tmp_path):
    path = tmp_path / "news.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        check(path)
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ConfigurationError, match="at most"):
        check(path)
    path.write_text("x = " + "[" * 50_000)
    with pytest.raises(ConfigurationError, match="without end"):
        check(path)


def test_silence_by_chances_is_a_setting(read):
    made = read(NEWS + "settings = { silence = { right = 0.7, wrong = 0.2 } }")
    assert made.models["news"].make().silence == {"right": 0.7, "wrong": 0.2}


def test_a_recipe(read, problems, tmp_path):
    recipe = tmp_path / "tuned.toml"
    recipe.write_text('learner = "Banditron"\nprepare = ["unit_norm"]\n[settings]\ngamma = 0.2')
    made = read(NEWS + "recipe = 'tuned.toml'\nseed = 5").models["news"]
    assert (made.learner, made.prepare, made.seed) == ("Banditron", ("unit_norm",), 5)
    learner = made.make()
    assert type(learner) is ob.Banditron and learner.settings["gamma"] == 0.2
    assert learner.seed == 5
    recipe.write_text('learner = "Banditron"\nprepare = ["tfidf"]')
    (found,) = problems(NEWS + "recipe = 'tuned.toml'")
    assert "[models.news] recipe: prepare = ['tfidf'] needs earlier rows" in found


def test_a_saved_learner(read, tmp_path):
    learner = ob.Banditron(labels=["a", "b"], gamma=0.3, seed=9)
    learner.decide({"x": 1})
    learner.save(tmp_path / "saved.onebit")
    made = read("[models.news]\nlearner_file = 'saved.onebit'").models["news"]
    assert made.names == ["a", "b"] and made.seed == 9 and made.settings["gamma"] == 0.3
    assert made.make().round == 1


def test_tokens(read, problems, tmp_path):
    tokens = tmp_path / "tokens.toml"
    tokens.write_text("[w]\ntoken = 'a-token-of-16-letters'\nmodels = ['nwes']\nverbs = '*'")
    tokens.chmod(0o600)
    (found,) = problems("[service]\ntokens = 'tokens.toml'\nhost = '0.0.0.0'" + NEWS)
    assert found.endswith("[w] models: unknown model 'nwes'; did you mean 'news'?")
    tokens.write_text(tokens.read_text().replace("nwes", "news"))
    made = read("[service]\ntokens = 'tokens.toml'\nhost = '0.0.0.0'" + NEWS)
    assert made.tokens and made.tokens.find("a-token-of-16-letters")
    assert "a-token" not in repr(made)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("24h", 86400),
        ("30d", 2592000),
        ("1h30m", 5400),
        ("1.5 s", 1.5),
        ("5ms", 0.005),
    ],
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", 5, "5 years", "-5s", "s", "200w200000d", None])
def test_no_durations(text):
    with pytest.raises(ValueError, match="a time is"):
        duration(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("news.local", False),
    ],
)
def test_is_loopback(host, expected):
    assert is_loopback(host) is expected


def test_difference(read, tmp_path):
    old = read(NEWS + "[models.ads]\nlabels = 2\n[models.old]\nlabels = 2")
    assert not difference(old, old)
    new = read(
        "[service]\nport = 1\nlimits = { body = 5 }\n[models.news]\n"
        "labels = ['sport', 'tech', 'food']\nlearner = 'UCWL'\nrevisions = true\n"
        "[models.ads]\nlabels = 3\nexpires_after = '1d'\n[models.new]\nlabels = 2"
    )
    found = difference(old, new)
    assert found
    assert found.added == ["new"] and found.removed == ["old"]
    assert found.retrained == ["news"] and found.policies == ["news", "ads"]
    assert found.new_labels == {"news": ["food"], "ads": [2]}
    assert found.retired_labels == {"news": ["politics"]}
    assert found.service == ["limits"] and found.restart == ["port"]


def test_difference_sees_into_files(read, tmp_path):
    recipe, text = tmp_path / "tuned.toml", NEWS + "recipe = 'tuned.toml'"
    recipe.write_text('learner = "Banditron"\n[settings]\ngamma = 0.2')
    old = read(text)
    recipe.write_text('learner = "Banditron"\n[settings]\ngamma = 0.3')
    assert difference(old, read(text)).retrained == ["news"]
    for seed in (1, 2):
        ob.Banditron(labels=2, seed=seed).save(tmp_path / f"{seed}.onebit")
    saved = tmp_path / "1.onebit"
    old = read("[models.news]\nlearner_file = '1.onebit'")
    saved.write_bytes((tmp_path / "2.onebit").read_bytes())
    assert difference(old, read("[models.news]\nlearner_file = '1.onebit'")).retrained == ["news"]


def test_files_that_are_missing_are_named(tmp_path):
    with pytest.raises(OSError, match=r"none\.toml cannot be read: No such file or directory$"):
        check(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_text('[service]\ntokens = "gone"\n[models.a]\nlabels = 2\n')
    with pytest.raises(ConfigurationError, match=r"tokens: .*gone: No such file or directory"):
        check(tmp_path / "x.toml")
