"""The README and the pages in docs/: examples run, commands parse, links lead somewhere.

The Python blocks of a page run in order, in one namespace and in an empty folder. A comment
directly before a block tells the tests about it, and no reader sees it:

    <!-- in tests: 100_000 is 500; 20 is 3 -->     smaller numbers, so that the block takes a moment
    <!-- run first: ... -->                 Python that makes what the block takes for granted
    <!-- not run: needs two hours -->       with the reason
"""

from __future__ import annotations

import html
import itertools
import re
import shlex
import subprocess
import tomllib
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.waiting import PATIENCE

import onebit as ob
from onebit.cli import app
from onebit.core.jit import COMPILED
from onebit.core.settings import REQUIRED, SHARED
from onebit.lab.studies.spec import parse, shipped
from onebit.registry.recipes import recipe_of
from onebit.service.configuration import check
from onebit.service.tokens import read_tokens

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
FENCE = re.compile(r"((?:^<!--(?:(?!-->).)*-->\n)*)^```(\w*)\n(.*?)^```$", re.S | re.M)
COMMENT = re.compile(r"<!-- (in tests|run first|not run):(.*?)-->", re.S)
INLINE = re.compile(r"`((?:onebit|\./run)\s[^`]+)`")
YOURS = (
    "tuned.toml",
    "news.onebit",
    "Mine",
    "package.module:Mine",
    "Cautious",
)  # learners of the reader's own
LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    language: str
    code: str
    line: int  # of the page, where the code begins
    notes: dict[str, str]  # from the comments before it


def blocks_of(page: Path) -> list[Block]:
    text, blocks = page.read_text(), []
    for found in FENCE.finditer(text):
        comments, language, code = found.groups()
        notes = dict(COMMENT.findall(comments))
        assert len(notes) == comments.count("<!--"), f"{page.name}: what is this? {comments}"
        blocks.append(Block(language, code, text[: found.start(3)].count("\n"), notes))
    return blocks


def shrunk(block: Block) -> str:
    """The code with the numbers that the tests take."""
    code = block.code
    for pair in filter(None, block.notes.get("in tests", "").strip().split("; ")):
        before, after = pair.split(" is ")
        assert before in code, f"{before!r} is not in the block any more"
        code = code.replace(before, after)
    return code


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_python(page: Path) -> bool:
    # test_processes.py and test_broken.py run the programs of these two.
    elsewhere = page.name in ("processes.md", "adding-an-algorithm.md")
    return not elsewhere and any(b.language == "python" for b in blocks_of(page))


def marks(page: Path) -> tuple[pytest.MarkDecorator, ...]:
    """Compiling the learners of all pages takes minutes: only the README's are in every run."""
    return (pytest.mark.slow,) if COMPILED and page.name != "README.md" else ()


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=marks(p), id=name_of(p)) for p in PAGES if with_python(p)],
)
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    namespace: dict = {"__name__": "docs"}
    for block in blocks_of(page):
        if block.language != "python" or "not run" in block.notes:
            continue
        exec(block.notes.get("run first", ""), namespace)
        exec(compile("\n" * block.line + shrunk(block), str(page), "exec"), namespace)


def test_the_table_of_learners_has_their_settings_and_defaults():
    text = (ROOT / "docs" / "learners.md").read_text().partition("## Notes")[0]
    rows = re.findall(r"^\| (?:\[)?`(\w+)`(?:\]\(.*?\))? \| (.*?) \|", text, re.M)
    learners = {n: k for n, k in ob.Learner.registry.items() if k.__module__.startswith("onebit.")}
    assert {name for name, _ in rows} == {
        name for name, kind in learners.items() if not kind.full_information
    }
    for name, cell in rows:
        # "gamma (0.05)", 'form ("diagonal", "full")', "reg (computed: 1/D)", "kernel"
        shown = (
            dict(re.findall(r"(\w+)(?: \(((?:[^()]|\(.*?\))*)\))?", cell)) if cell != "none" else {}
        )
        declared = {n: s for n, s in learners[name].declared.items() if n not in SHARED}
        if "kernel" in shown:
            shown |= {
                "kernel": "None",
                "budget": "1,000",
                "remove": '"oldest", "random", "smallest"',
            }
        assert set(shown) == set(declared), name
        for setting, default in shown.items():
            expected = declared[setting].default
            if callable(expected):
                assert default.startswith("computed: "), (name, setting)
            elif expected is not REQUIRED:
                first = default.partition(", ")[0].strip('"') if default[0] == '"' else default
                is_number = isinstance(expected, int | float) and not isinstance(expected, bool)
                said = float(first.replace(",", "")) if is_number else first
                assert said == (expected if is_number else str(expected)), (name, setting)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_says_what_it_is_written_in(page):
    for block in blocks_of(page):
        assert block.language in ("python", "sh", "toml", "text"), (block.line, block.language)
    assert page.read_text().count("```") == 2 * len(blocks_of(page))


# Commands.

# One write, so that commands side by side do not mix.
RECORD = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" END >>"$RECORD"
""".replace("END", "\x1e")


def commands_of(code: str, folder: Path) -> list[list[str]]:
    """The commands that a shell would run, with their arguments: none of them is run."""
    (folder / "bin").mkdir()
    programs = ("onebit", "pip", "python", "sha256sum", "curl", "sudo", "podman", "openssl")
    for path in (*(f"bin/{program}" for program in programs), "run"):
        (folder / path).write_text(RECORD)
        (folder / path).chmod(0o755)
    env = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "RECORD": str(folder / "said")}
    subprocess.run(["bash", "-eu", "-c", code], cwd=folder, env=env, check=True, timeout=PATIENCE)
    said = (folder / "said").read_text()
    return [command.split("\0")[:-1] for command in said.split("\x1e\0")[:-1]]


def check_command(program: str, args: list[str]) -> None:
    if program == "run" and args[0] in ("test", "bench", "docs"):
        assert f"\n{args[0]})" in (ROOT / "run").read_text()
        sources = "".join(path.read_text() for path in (ROOT / "run", *ROOT.glob("*/*.py")))
        assert all(arg in sources for arg in args if arg.startswith("--")), args
    elif program in ("run", "onebit"):
        app.parse_args(args, exit_on_error=False, print_error=False)
        for option, value in itertools.pairwise(args):
            if option == "--learner" and not value.startswith(YOURS):
                recipe_of(value)
            elif option == "--prepare" and value != "auto":
                ob.datasets.Steps([value])


@pytest.mark.parametrize(
    ("page", "block"),
    [
        pytest.param(page, block, id=f"{name_of(page)}-{block.line}")
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "sh"
    ],
)
def test_the_commands_parse(page, block, tmp_path):
    for program, *args in commands_of(block.code, tmp_path):
        check_command(program, args)


@pytest.mark.parametrize(
    "command", ["onebit race --lerner UCWL", "onebit race --learner UCWL:et=1"]
)
def test_a_wrong_command_is_found(command, tmp_path):
    ((program, *args),) = commands_of(command, tmp_path)
    with pytest.raises(Exception, match=r"lerner|'et'"):
        check_command(program, args)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_in_a_sentence_parse(page):
    for command in INLINE.findall(FENCE.sub("", page.read_text())):
        program, *args = shlex.split(command)
        if args[0].islower() and "..." not in args:
            check_command(program.removeprefix("./"), args)


def test_the_files_fit_together(tmp_path):
    """What the readers of recipes, studies, configurations and tokens say of them."""
    found = [
        (page, block) for page in PAGES for block in blocks_of(page) if block.language == "toml"
    ]
    assert len(found) >= 2
    tables = {block.code: tomllib.loads(block.code) for _, block in found}
    tokens = [code for code, table in tables.items() if "verbs" in next(iter(table.values()), ())]
    (tmp_path / "tokens.toml").touch(0o600)
    for code in tokens:
        (tmp_path / "tokens.toml").write_text(code)
        read_tokens(tmp_path / "tokens.toml")
    for _, block in found:
        if "experiment" in tables[block.code]:
            parse(block.code.encode())
        elif "models" in tables[block.code]:
            (tmp_path / "news.toml").write_text(block.code)
            check(tmp_path / "news.toml")
        elif block.code not in tokens:
            (tmp_path / "tuned.toml").write_text(block.code)
            ob.read_recipe(tmp_path / "tuned.toml")


# Pages of studies.

STUDY_PAGES = sorted((ROOT / "docs" / "studies" / "pages").glob("*.html"))


def footer_of(page: Path) -> tuple[list[str], dict[str, str]]:
    """The command of a study's page, and the facts below it."""
    footer = page.read_text().split("<footer>")[1]
    (command,) = re.findall(r"<code>(.*?)</code>", footer, re.S)
    facts = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", footer, re.S)
    return shlex.split(html.unescape(command)), dict(facts)


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)


def history_reason() -> str:
    """Why the history of this project is not known; empty if it is."""
    try:
        if Path(git("rev-parse", "--show-toplevel").stdout.strip() or "/") != ROOT.resolve():
            return "not a checkout"
    except OSError:
        return "git is not installed"
    shallow = git("rev-parse", "--is-shallow-repository").stdout.strip() != "false"
    return "a shallow clone" if shallow else ""


def test_every_study_has_a_page_of_a_full_run():
    assert [page.stem for page in STUDY_PAGES] == shipped()
    for page in STUDY_PAGES:
        (program, *args), facts = footer_of(page)
        assert (program, *args[:2]) == ("onebit", "study", page.stem)
        check_command(program, args)
        assert "--quick" not in args and facts["size"].startswith("full")
        date.fromisoformat(facts["date"])


def test_the_results_of_the_studies_are_those_of_the_pages():
    """docs/studies.md: claims that hold, fail and are open; numbers within 10 %, and all."""
    text = (ROOT / "docs" / "studies.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|((?: [\d-]+ \|){5})$", text, re.M)
    listed = {name: re.findall(r"[\d-]+", cells) for name, cells in rows}
    for page in STUDY_PAGES:
        header = page.read_text().split("</header>")[0]
        tally = header.split('<ul class="tally">')[1].split("</ul>")[0]
        within = re.findall(r"<h2>(\d+) of (\d+) numbers? within 10%</h2>", header)
        counts = re.findall(r"<b>(\d+)</b>", tally)
        assert listed.pop(page.stem) == [*counts, *(within[0] if within else "--")]
    assert not listed


@pytest.mark.parametrize("page", STUDY_PAGES, ids=name_of)
def test_a_study_page_names_a_commit_of_this_history(page):
    commit = footer_of(page)[1]["commit"]
    assert re.fullmatch("[0-9a-f]{7,40}", commit)  # without -dirty
    if reason := history_reason():
        pytest.skip(reason)
    assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, commit


# Links.


def anchors_of(page: Path) -> set[str]:
    """Of the headings, as GitHub and MyST make them."""
    text = FENCE.sub("", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", t)) for t in titles]
    return {title.strip().lower().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_prose_is_wrapped(page):
    """At 100 columns, as code is. Tables, code, pictures and long links may be wider."""
    prose = re.sub(r"<!--.*?-->", "", FENCE.sub("", page.read_text()), flags=re.S)
    wide = [line for line in prose.splitlines() if len(line) > 100]
    assert not [line for line in wide if not line.lstrip().startswith(("|", "!["))]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_lead_somewhere(page):
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_the_index_lists_every_page():
    docs = ROOT / "docs"
    listed = set(LINK.findall((docs / "index.md").read_text()))
    pages = {str(page.relative_to(docs)) for page in docs.glob("**/*.md")} - {"index.md"}
    assert pages <= listed


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "api.rst").read_text()
    missing = [
        name for name in ob.__all__ if name != "__version__" and not re.search(rf"\b{name}\b", text)
    ]
    assert not missing


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_the_tables_of_packages_have_the_layers_of_the_import_contracts():
    """docs/inside.md lists the modules from top to bottom, as import-linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {c["containers"][0]: c["layers"] for c in contracts["contracts"] if "layers" in c}
    text = (ROOT / "docs/inside.md").read_text()
    tables = re.findall(r"^\| (?:package or )?module \|.*?\n\n", text, re.S | re.M)
    (core,) = (table for table in tables if "`jit`" in table)
    layered = [table for table in tables if table is not core]
    names = ("onebit", "onebit.learner", "onebit.reading", "onebit.lab", "onebit.evidence")
    names += ("onebit.algorithms.onebit",)
    for table, name in zip(layered, names, strict=True):
        rows = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.split("\n")[2:-2]]
        wanted = [set(re.findall(r"\w+", layer)) - {"_version"} for layer in layers[name]]
        assert rows == [row for row in wanted if row], name
    listed = set(re.findall(r"^\| (.*?) \|", core, re.M)[1:])
    modules = {path.stem for path in (ROOT / "src/onebit/core").glob("[a-z]*.py")}
    assert set(re.findall(r"\w+", " ".join(listed))) == modules
