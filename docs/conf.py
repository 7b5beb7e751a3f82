"""Sphinx: the pages of this folder and the API reference as a site. Built by `./run docs`."""

from __future__ import annotations

import html
import os
import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.errors import ConfigError

from onebit._version import __version__

HERE = Path(__file__).parent
PAGES = Path(os.environ.get("ONEBIT_RESULTS") or HERE / "studies" / "pages")

project = "onebit"
version = release = __version__
copyright = "the onebit authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["results", "studies/pages"]
myst_heading_anchors = 3

smartquotes = False  # most quotes are values of settings

html_theme = "furo"
html_title = f"onebit {__version__}"
html_show_copyright = False
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88


def pages_of(folder: Path) -> list[Path]:
    """The study pages in a folder of results; the overview, index.html, first."""
    return sorted(folder.glob("*.html"), key=lambda page: (page.stem != "index", page.stem))


def title_of(page: Path) -> str:
    found = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"), re.S)
    title = html.unescape(found[1]).removesuffix(" | onebit") if found else ""
    return f"{'overview' if page.stem == 'index' else page.stem}: {title}"


def add_navigation(app: Any, name: str, source: list[str]) -> None:
    """The lists of index.md become the navigation; the gallery lists the pages that there are."""
    if name == "index":
        for title, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", source[0], re.S | re.M):
            pages = re.findall(r"\]\((.*?)\.(?:md|rst)\)", body)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n"
            source[0] += "\n".join(pages) + "\n```\n"
    elif name == "studies/gallery":
        links = [
            f'- <a href="{page.name}">{html.escape(title_of(page))}</a>' for page in pages_of(PAGES)
        ]
        source[0] += "\n## Pages\n\n" + ("\n".join(links) or "There are no pages yet.") + "\n"


def read_as_plain_text(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text: `names` in backticks, code indented, signs such as |W| as is."""
    marked: list[str] = []
    in_code = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not in_code:
            marked += ["", "::", ""]
        elif in_code and line and not indented:
            marked += [""]
        in_code = indented or (in_code and not line)
        marked.append(line if in_code else _escaped(line))
    lines[:] = marked


def show_results(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returned: str | None
) -> tuple[str, str | None]:
    """The methods of the client are written as requests; what they return is the answer."""
    return signature, re.sub(r"^\S*_Request\[(.*)\]$", r"\1", returned) if returned else returned


def _escaped(line: str) -> str:
    parts = re.split(r"(``.+?``|`.+?`)", line)
    parts[::2] = [re.sub(r"([|*_\\])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
    return "".join(parts)


def copy_studies(app: Any, error: Exception | None) -> None:
    for page in pages_of(PAGES):
        shutil.copy(page, Path(app.outdir) / "studies" / page.name)


def setup(app: Any) -> None:
    if "ONEBIT_RESULTS" in os.environ and not PAGES.is_dir():
        raise ConfigError(f"ONEBIT_RESULTS={PAGES} is not a folder; name the one of the pages")
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-docstring", read_as_plain_text)
    app.connect("autodoc-process-signature", show_results)
    app.connect("build-finished", copy_studies)
