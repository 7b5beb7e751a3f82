"""Pages from templates: one HTML file each, with its style and script inside."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render(template: str, **data: Any) -> str:
    """A whole page. Text in the data is escaped; ``Markup`` is HTML already."""
    return TEMPLATES.get_template(template).render(data)


def picture(template: str, **data: Any) -> Markup:
    """A part of a page, such as a chart."""
    return Markup(render(template, **data).lstrip())


def static(name: str) -> Markup:
    """The text of a style sheet or script."""
    return Markup((files("onebit.pages") / "static" / name).read_text(encoding="utf-8"))


def style_of(name: str) -> Markup:
    """All styles of a page in one file; name: the sheet of this kind of page."""
    return Markup("\n") + static("page.css") + static(name)


def script_of() -> Markup:
    """The script of a page in one file."""
    return Markup("\n") + static("page.js")


def policy(style: str, script: str, *, style_attributes: bool = False) -> str:
    """The policy of a page in one file: it runs and shows what is inside it, and loads nothing.

    style_attributes: whether elements may have a `style`.
    """
    attributes = "style-src-attr 'unsafe-inline'; " if style_attributes else ""
    return (
        f"default-src 'none'; style-src {_digest(style)}; {attributes}"
        f"script-src {_digest(script)}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest())
    return f"'sha256-{digest.decode()}'"


def csv_cell(value: Any) -> Any:
    """A cell of a csv file. A dict becomes JSON; a text that a spreadsheet would take for a formula
    gets a `'`."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def counted(number: int, thing: str) -> str:
    """1 round, 2,000 rounds."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def number(value: float, digits: int = 0) -> str:
    """1234.5 as 1,234.50; a dash for NaN and infinity."""
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–"


def percent(share: float, digits: int = 2) -> str:
    return number(100 * share, digits)


TEMPLATES = Environment(
    loader=PackageLoader("onebit.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.globals |= {"style_of": style_of, "script_of": script_of, "policy": policy}
TEMPLATES.filters |= {"counted": counted, "number": number, "percent": percent}
TEMPLATES.filters["place"] = "{:.1f}".format  # in a picture
