"""Tokens: who may do what, and no secret is shown."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from onebit.service import tokens as module
from onebit.service.tokens import read_tokens

SECRET = "dY3-website-secret"
OTHER = "another-secret-of-ops"


@pytest.fixture
def write(tmp_path):
    def written(text, mode=0o600):
        path = tmp_path / "tokens.toml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return written


TWO = f"""
[website]
token = "{SECRET}"
models = ["news"]
verbs = ["decide", "feedback"]

[ops]
sha256 = "{hashlib.sha256(OTHER.encode()).hexdigest()}"
models = "*"
verbs = "*"
"""


def test_a_token_is_found_by_its_secret_or_its_digest(write):
    tokens = read_tokens(write(TWO))
    website, ops = tokens.find(SECRET), tokens.find(OTHER)
    assert website and ops and (website.name, ops.name) == ("website", "ops")
    assert tokens.find("nonsense") is None
    assert tokens.find("") is None
    assert tokens.find("\udcff") is None  # a header that is not UTF-8


def test_permits(write):
    tokens = read_tokens(write(TWO))
    website, ops = tokens.known
    assert website.permits("decide", "news") and website.permits("feedback", "news")
    assert not website.permits("read", "news") and not website.permits("decide", "ads")
    assert not website.permits("decide", "*")
    assert ops.permits("admin", "ads") and ops.permits("read", "*")


def test_secrets_are_not_shown(write):
    tokens = read_tokens(write(TWO))
    digest = hashlib.sha256(SECRET.encode())
    for text in (repr(tokens), str(tokens), f"{tokens.known}"):
        assert SECRET not in text and digest.hexdigest() not in text
        assert repr(digest.digest()) not in text


def test_all_tokens_are_compared_whichever_fits(write, monkeypatch):
    compared, real = [], hmac.compare_digest

    def compare(left, right):
        compared.append(left)
        return real(left, right)

    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    tokens = read_tokens(write(TWO))
    for secret in (SECRET, OTHER, "nonsense"):
        compared.clear()
        tokens.find(secret)
        assert len(compared) == 2


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602])
def test_a_file_of_others_is_refused(write, mode):
    with pytest.raises(ValueError, match=r"other users \(mode 6\d\d\); run: chmod 600 .*tokens"):
        read_tokens(write(TWO, mode))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no token"),
        ('token = "x"', "outside of a table"),
        ("[a]\nmodels = '*'\nverbs = '*'", "either token or sha256"),
        (f'["a\\n1"]\ntoken="{SECRET}"\nmodels="*"\nverbs="*"', "printable characters only"),
        (f"[a]\ntoken='{SECRET}'\nsha256='{'0' * 64}'\nmodels='*'\nverbs='*'", "either"),
        ("[a]\ntoken=5\nmodels='*'\nverbs='*'", "text in quotes"),
        ("[a]\ntoken='short'\nmodels='*'\nverbs='*'", "at least 16"),
        (f"[a]\ntoken='{SECRET} x'\nmodels='*'\nverbs='*'", "at least 16 of A-Z"),
        (f"[a]\nsha256='{SECRET}'\nmodels='*'\nverbs='*'", "64 hexadecimal"),
        (f"[a]\ntokne='{SECRET}'", "did you mean 'token'"),
        (f"[a]\ntoken='{SECRET}'\nverbs='*'", "models must be a list of names"),
        (f"[a]\ntoken='{SECRET}'\nmodels=[]\nverbs='*'", "models must be a list of names"),
        (f"[a]\ntoken='{SECRET}'\nmodels='*'\nverbs=['decied']", "did you mean 'decide'"),
        (f"[a]\ntoken='{SECRET}'\nmodels='*'\nverbs=['x']", "there are decide, feedback"),
        (TWO + f"[b]\ntoken='{SECRET}'\nmodels='*'\nverbs='*'", "website and b have the same"),
        (f"[a]\ntoken = {SECRET}", "not TOML .at line 2"),
        ("#" + " " * 2**20, "bytes"),
    ],
)
def test_what_is_wrong_is_said_without_a_secret(write, text, message):
    with pytest.raises(ValueError, match=message) as raised:
        read_tokens(write(text))
    assert SECRET not in str(raised.value) and "tokens.toml: " in str(raised.value)


def test_not_text(tmp_path):
    path = tmp_path / "tokens.toml"
    path.write_bytes(b"\xff")
    path.chmod(0o600)
    with pytest.raises(ValueError, match="not TOML"):
        read_tokens(path)
