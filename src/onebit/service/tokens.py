"""Bearer tokens: who may do what. They are kept in a TOML file that only its owner can read.

    [website]                              # a name, for logs
    token = "dY3-..."                      # or sha256 = "...", of the token in hexadecimal digits
    models = ["news"]                      # or "*": all models
    verbs = ["decide", "feedback"]         # and "read", "admin"

Tokens are kept as digests and compared in constant time. Neither tokens nor digests are shown.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import hmac
import ipaddress
import os
import re
import stat
import tomllib
from collections.abc import Sequence
from typing import Any, Literal, get_args

from msgspec import Struct

Verb = Literal["decide", "feedback", "read", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)
SHORTEST = 16  # characters of a token
LARGEST = 2**20  # bytes of a file


class Token(Struct, frozen=True):
    """The bearer of a token, and what it may do."""

    name: str
    models: tuple[str, ...]  # ("*",): all
    verbs: tuple[Verb, ...]
    digest: bytes

    def permits(self, verb: Verb, model: str) -> bool:
        """Whether it may do this to a model; "*": to all models."""
        return verb in self.verbs and ("*" in self.models or model in self.models)

    def __repr__(self) -> str:
        return f"Token({self.name!r}, models={self.models}, verbs={self.verbs})"


class Tokens(Struct, frozen=True):
    """All tokens of a file."""

    known: tuple[Token, ...]

    def find(self, secret: str) -> Token | None:
        """The token with this secret. The time taken does not tell how much of it was right."""
        digest = digest_of(secret)
        found = None
        for token in self.known:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """The tokens in a file; a ValueError says what is wrong, without showing a secret."""
    name = os.fspath(path)
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(
                f"{name} can be read or changed by other users (mode {stat.S_IMODE(mode):o}); "
                f"run: chmod 600 {name}"
            )
        text = file.read(LARGEST + 1)
    try:
        if len(text) > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        tables = _parsed(text)
        tokens = tuple(_token(title, table) for title, table in tables.items())
        if not tokens:
            raise ValueError("there is no token; add [NAME] with token, models and verbs")
        for token in tokens:
            twins = [twin.name for twin in tokens if twin.digest == token.digest]
            if len(twins) > 1:
                raise ValueError(f"{' and '.join(twins)} have the same token")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return Tokens(tokens)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except (UnicodeDecodeError, RecursionError):
        raise ValueError("not TOML") from None
    except tomllib.TOMLDecodeError as error:  # its message may quote a character of a secret
        where = re.search(r"\(at .*\)", str(error))
        raise ValueError(f"not TOML{' ' + where[0] if where else ''}") from None


def _token(title: str, table: Any) -> Token:
    if not isinstance(table, dict):
        raise ValueError(f"{title!r} stands outside of a table; each token has a table: [NAME]")
    if not title.isprintable():  # it is part of lines of the log
        raise ValueError(f"[{title!r}] the name of a token has printable characters only")
    known = ("token", "sha256", "models", "verbs")
    for key in table:
        if key not in known:
            raise ValueError(f"[{title}] unknown key {key!r}; {nearest(key, known)}")
    return Token(
        name=title,
        models=_names(title, table, "models", ()),
        verbs=_names(title, table, "verbs", VERBS),
        digest=_digest(title, table),
    )


def _digest(title: str, table: dict[str, Any]) -> bytes:
    if ("token" in table) == ("sha256" in table):
        raise ValueError(f"[{title}] needs either token or sha256")
    secret = table.get("token", table.get("sha256"))
    if not isinstance(secret, str):
        raise ValueError(f"[{title}] a token and its sha256 are text in quotes")
    if "sha256" in table:
        if not re.fullmatch("[0-9a-fA-F]{64}", secret):
            raise ValueError(f"[{title}] sha256 has 64 hexadecimal digits: `sha256sum` shows them")
        return bytes.fromhex(secret)
    if len(secret) < SHORTEST or not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", secret):
        raise ValueError(
            f"[{title}] a token has at least {SHORTEST} of A-Z a-z 0-9 . _ ~ + / = -; "
            "`openssl rand -base64 32` makes a good one"
        )
    return digest_of(secret)


def _names(title: str, table: dict[str, Any], key: str, known: Any) -> tuple[Any, ...]:
    """A list of names, or "*" for all."""
    given = table.get(key)
    if given == "*":
        return tuple(known) or ("*",)
    if not (isinstance(given, list) and given and all(isinstance(name, str) for name in given)):
        raise ValueError(f'[{title}] {key} must be a list of names, or "*" for all of them')
    for name in given:
        if known and name not in known:
            raise ValueError(f"[{title}] {key}: no {name!r}; {nearest(name, known)}")
    return tuple(given)


def nearest(name: str, known: Sequence[str]) -> str:
    """The part of a message about an unknown name that tells the right one."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"


@functools.lru_cache(256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host's address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def host_name(header: str) -> str:
    """The host of a header `host`, which may have a port."""
    name, _, port = header.rpartition(":")
    is_address = "]" in port or (":" in name and "]" not in name)  # of IPv6, without a port
    return header if is_address else name or header
