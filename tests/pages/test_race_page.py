"""The race page: complete, well formed, self-contained, and honest about zero errors."""

import base64
import hashlib
import html
import itertools
import math
import re
from dataclasses import replace

import pytest
from helpers.markup import Checker, charts, coordinates
from jinja2 import UndefinedError

from onebit.pages.charts import COLOURS, one_two_five, spread
from onebit.pages.race import BEST_OF_EACH, COMMONEST, Bound, Line, Panel, race_page
from onebit.pages.rendering import TEMPLATES, render, static
from onebit.service.dashboard import page as dashboard  # noqa: F401 it adds filters to templates


def make_line(learner: str, final: float = 0.2, told: bool = False, settings: str = "") -> Line:
    rounds = [1, 2, 5, 10, 20, 50, 100]
    error = [final + (0.9 - final) / t for t in rounds[:-1]] + [final]
    return Line(
        learner=learner,
        settings=settings,
        full_information=told,
        rounds=rounds,
        error=error,
        low=[0.9 * e for e in error],
        high=[min(1.0, 1.1 * e) for e in error],
        greedy_error=0.9 * final,
        explored=0.1,
        updates=0.3,
        error_sd=0.01,
        rounds_per_second=12345.6,
    )


def make_panel(*lines: Line, data: str = "Syn") -> Panel:
    return Panel(data=data, about="9 labels", rounds=100, repeats=3, lines=list(lines))


def page_of(*panels: Panel) -> str:
    return race_page(list(panels), "onebit race --seed 1", "1.2.3", {"seed": "1"})


MANY = [make_line(f"Learner {i:02}", 0.05 + 0.05 * i) for i in range(14)]
TOLD = [make_line(f"Told {i}", 0.04 + 0.001 * i, told=True) for i in range(6)]


def test_page_is_well_formed_with_unique_ids_and_links_that_arrive() -> None:
    page = page_of(make_panel(*MANY, *TOLD), make_panel(*MANY[::-1], data="Other"))
    checked = Checker(page)
    assert len(checked.ids) == len(set(checked.ids))
    assert set(checked.references) <= set(checked.ids)
    assert not checked.links
    big = [svg for svg in charts(page) if svg.get("role") == "img"]
    assert len(big) == 4  # two data sets, each wide and narrow
    for svg in big:
        assert svg.findtext("title") and svg.findtext("desc")


def test_every_learner_is_named_in_chart_and_table() -> None:
    page = page_of(make_panel(*MANY, *TOLD))
    wide = next(svg for svg in charts(page) if "wide" in svg.get("class", ""))
    labels = " ".join(text.text or "" for text in wide.iter("text"))
    cells = [cell for row in Checker(page).rows for cell in row]
    for line in MANY + TOLD:
        assert line.learner in labels
        assert any(cell.startswith(line.learner) for cell in cells)


def test_learners_are_ranked_by_error_and_references_stay_apart() -> None:
    lines = [make_line("Worst", 0.5), make_line("Told", 0.01, told=True), make_line("Best", 0.1)]
    rows = [row for row in Checker(page_of(make_panel(*lines))).rows if len(row) == 9][1:]
    assert [row[:3] for row in rows] == [
        ["1", "Best", "10.00"],
        ["2", "Worst", "50.00"],
        ["R1", "Toldreference", "1.00"],
    ]


def test_references_are_dashed_and_learners_solid() -> None:
    page = page_of(make_panel(MANY[0], TOLD[0]))
    for group in (g for svg in charts(page) for g in svg.iter("g")):
        line = next(p for p in group.iter("path") if p.get("class") == "line")
        assert (line.get("stroke-dasharray") == "none") == (
            "reference" not in group.get("class", "")
        )


def bounded(line: Line, *error: float) -> Line:
    return replace(line, bound=Bound("Somebody 2008", "key words", 311.2, 0.0, list(error)))


def test_a_bound_is_dashed_and_drawn_only_from_where_it_says_something() -> None:
    line = bounded(make_line("A & B"), 30.0, 15, 6, 0.9, 1.5, 0.6, 0.3)  # at 1, 2, 5, ..., 100
    page = page_of(make_panel(line, TOLD[0]))
    Checker(page)
    wide, narrow = (svg for svg in charts(page) if svg.get("role") == "img")
    for svg, label in ((wide, "bound on 1 by key words 30.0%"), (narrow, "≤1")):
        of_1 = [g for g in svg.iter("g") if g.get("data-line") == "1"]
        curve, bound = sorted(of_1, key=lambda group: "bound" in group.get("class", ""))
        (drawn,) = (p for p in bound.iter("path") if p.get("class") == "line")
        assert drawn.get("d", "").count(" ") == 2  # 50 and 100 rounds, not 10: 20 is above 1
        assert drawn.get("stroke-dasharray") != "none"
        assert bound.get("data-c") == curve.get("data-c")  # in the colour of its learner
        assert bound.findtext("text") == label
    says = "A &amp; B: at most 30.00% after 100 rounds"
    assert f"{says} (Somebody 2008; comparator: key words, D = 311, L = 0)" in page


def test_a_bound_that_says_nothing_is_not_drawn() -> None:
    page = page_of(make_panel(bounded(make_line("A"), *[1.5] * 7)))
    assert "bound on" not in page and 'class="curve bound"' not in page
    assert "A: above 100% after 100 rounds: it is vacuous and not drawn" in page
    assert "Bounds on" not in page_of(make_panel(make_line("A")))


LONG_NAMES = [
    make_line(f"Confidit form=full reg={reg} eta={eta}", 0.05 + 0.02 * i, settings="alpha=1")
    for i, (reg, eta) in enumerate(itertools.product((0.3, 1, 3, 10), (0.01, 0.03, 0.1, 0.3, 1, 3)))
]


def looks_by_label(page: str) -> list[dict[str, tuple[str, ...]]]:
    """Kind, colour, dash and marker of each curve in each chart for a desktop, by its name."""
    found = []
    for svg in charts(page):
        if "chart wide" in svg.get("class", ""):
            found.append({})
            for group in svg.iter("g"):
                _, *name, _ = " ".join(group.find("text").itertext()).split()
                line, marker = (
                    next(path for path in group.iter("path") if path.get("class") == kind)
                    for kind in ("line", "point")
                )
                found[-1]["".join(name)] = (
                    *(group.get("class"), group.get("data-c")),
                    *(line.get("stroke-dasharray"), marker.get("d")),
                )
    return found


def test_a_learner_looks_the_same_in_all_panels_and_like_no_other() -> None:
    rivals = [make_line(line.learner, 0.9 - line.error[-1]) for line in LONG_NAMES]
    told = [make_line(line.learner, 0.5 - line.error[-1], told=True) for line in TOLD]
    third = make_panel(*MANY[:5], LONG_NAMES[3], data="Third")  # some learners are new here
    first, second, third = looks_by_label(
        page_of(make_panel(*LONG_NAMES, *TOLD), make_panel(*rivals, *told, data="Other"), third)
    )
    assert first == second and len(first) == 24 + 6
    assert third["".join(LONG_NAMES[3].learner.split())] in first.values()
    everything = {**first, **third}
    assert len(set(everything.values())) == len(everything) == 35
    (default,) = looks_by_label(page_of(make_panel(*MANY)))
    assert len({colour for _, colour, *_ in default.values()}) == 14  # one for each


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_are_told_apart_and_seen(mode: str) -> None:
    style = static("page.css").split("@media")[mode == "dark"]
    colours = [
        [int(code[i : i + 2], 16) for i in (0, 2, 4)]
        for code in re.findall(r"--c\d+:#(\w{6})\b", style)
    ]
    assert len(colours) == COLOURS
    for one, two in itertools.combinations(colours, 2):
        assert math.dist(one, two) > 60
    page = luminance([255, 255, 255] if mode == "light" else [0x14, 0x17, 0x1C])
    for colour in colours:
        dark, bright = sorted([page + 0.05, luminance(colour) + 0.05])
        assert bright / dark >= 3  # WCAG 1.4.11


def luminance(colour: list[int]) -> float:
    linear = [((c / 255 + 0.055) / 1.055) ** 2.4 if c > 10 else c / 255 / 12.92 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_curves_begin_at_round_10_unless_the_run_is_short() -> None:
    # A band over the first rounds, as high as the chart, would leave the rest a strip.
    line = replace(make_line("A", 0.2), low=[1e-5] * 3 + [0.15] * 4, high=[1.0] * 3 + [0.25] * 4)
    page = page_of(make_panel(line))
    wide = next(svg for svg in charts(page) if "wide" in svg.get("class", ""))
    texts = [text.text for text in wide.iter("text")]
    assert "rounds, from 10 on" in texts and "Curves begin at round 10" in page
    assert {"10", "100"} < set(texts) and "1" not in texts
    assert next(text for text in texts if text and text.endswith("%")) == "10%"  # the lowest
    assert "after 5 rounds" not in page and "after 10 rounds" in page
    assert "20.00" in Checker(page).rows[1]  # the table counts all rounds
    fifty = [replace(line, rounds=[1, 2, 5, 10, 20, 30, 50]) for line in MANY[:2]]
    page = page_of(make_panel(*fifty))
    assert "from 10 on" not in page and "begin at" not in page and "after 2 rounds" in page


def test_no_name_is_cut() -> None:
    endless = make_line("W" * 90, 0.01)
    page = page_of(make_panel(*LONG_NAMES, endless, TOLD[0]))
    assert "…" not in page
    labels = {"".join(label.split()) for label in looks_by_label(page)[0]}
    assert {"".join(line.learner.split()) for line in (*LONG_NAMES, endless)} <= labels


def test_one_repeat_has_no_spread() -> None:
    line = make_line("A")
    once = replace(line, low=line.error, high=line.error, error_sd=None)
    page = page_of(replace(make_panel(once), repeats=1))
    head, row = Checker(page).rows
    assert row[head.index("Repeats ±")] == "–" and "±" not in "".join(row)
    assert "repeat" not in "".join(re.findall(r"<title>.*?</title>", page, re.DOTALL))
    assert "A band" not in page and "(1 run)" in page


def test_the_best_are_thick_and_keep_their_colour() -> None:
    page = page_of(make_panel(*MANY))
    groups = re.findall(r'class="curve (\w+)" data-line="(\d+)" data-c="(.*?)"', page)
    assert {kind for kind, key, _ in groups if int(key) <= 6} == {"top"}
    assert {kind for kind, key, _ in groups if int(key) > 6} == {"muted"}
    swapped = page_of(
        make_panel(make_line("A", 0.1), make_line("B", 0.2)),
        make_panel(make_line("A", 0.2), make_line("B", 0.1)),
    )
    colours = re.findall(r'class="curve top" data-line="(\d)" data-c="(.*?)"', swapped)
    assert set(colours[:4]) == {("1", "c1"), ("2", "c2")}
    assert set(colours[4:]) == {("1", "c2"), ("2", "c1")}


def test_names_are_escaped() -> None:
    bad = "<script>alert('&\"')</script>"
    line = make_line(bad, settings=bad)
    panel = replace(make_panel(line, line, data=bad), about=bad)
    page = race_page([panel], bad, bad, {bad: bad})
    assert "<script>alert" not in page
    assert page.count("<script>") == 1
    Checker(page)
    charts(page)


def test_the_same_results_make_the_same_bytes() -> None:
    panels = [make_panel(*MANY, *TOLD), make_panel(*MANY[::-1], data="Other")]
    assert page_of(*panels) == page_of(*panels)


def test_style_and_script_are_inside_the_page() -> None:
    page = page_of(make_panel(MANY[0]))
    assert all(static(name) in page for name in ("page.css", "race.css", "page.js"))


def test_the_policy_allows_what_is_inside_the_page_and_nothing_else() -> None:
    page = page_of(make_panel(MANY[0]))
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in html.unescape(policy[1]).split("; "))
    assert rules["default-src"] == "'none'" and "style-src-attr" not in rules
    for element in ("style", "script"):
        inside = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(x.encode()).digest()).decode() for x in inside]
        assert [f"'sha256-{digest}'" for digest in digests] == [rules[f"{element}-src"]]
        assert page.index("Content-Security-Policy") < page.index(f"<{element}>")
    assert " style=" not in page and not re.search(r"<[^>]* on\w+=", page)


def test_every_template_escapes_text_and_refuses_unknown_names() -> None:
    assert TEMPLATES.list_templates()
    for name in TEMPLATES.list_templates():
        TEMPLATES.get_template(name)  # which compiles it
    assert TEMPLATES.from_string("{{ name }}").render(name="<b>") == "&lt;b&gt;"
    with pytest.raises(UndefinedError, match="'races' is undefined"):
        render("race.html")


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = page_of(make_panel(*MANY, *TOLD))
    assert not re.search(r"https?:|//\w|@import|url\(|src=", page)
    assert not Checker(page).tags & {"link", "img", "iframe", "object", "embed"}


def test_command_version_and_settings_are_in_the_footer() -> None:
    footer = page_of(make_panel(MANY[0])).split("<footer>")[1]
    assert "onebit race --seed 1" in footer
    assert "1.2.3" in footer
    assert "<dt>seed</dt><dd>1</dd>" in footer


def test_exact_values_are_in_the_tooltips() -> None:
    line = replace(make_line("A"), error=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.12345])
    assert "A: 12.345% wrong\nafter 100 rounds" in page_of(make_panel(line))
    brief = replace(  # too short a run to leave its first rounds out
        line, rounds=line.rounds[:3], error=line.error[:3], low=line.low[:3], high=line.high[:3]
    )
    assert "after 1 round;" in page_of(make_panel(brief))


def test_the_commonest_label_and_the_scaling_of_rows_are_stated() -> None:
    constant = replace(
        make_line(COMMONEST, 0.6, told=True, settings="always <b>"), rounds_per_second=None
    )
    panel = replace(make_panel(make_line("A"), TOLD[0], constant), scaling="Rows are scaled.")
    page = page_of(panel)
    rows = [row for row in Checker(page).rows if len(row) == 9]
    assert rows[-1][:3] == ["R2", "commonest labelreference", "60.00"]
    assert rows[-1][-2:] == ["–", "always <b>"]
    assert "Rows are scaled." in page and "Rows are scaled." not in page_of(make_panel(constant))
    assert "60% wrong\nafter 100 rounds" in page and "known when all is over" in page
    assert page.count("(reference: receives the true label)") > 0


def test_where_several_labels_may_be_right_the_share_of_right_ones_is_shown() -> None:
    ceiling = replace(make_line(BEST_OF_EACH, 0.5, told=True), rounds_per_second=None)
    line = replace(make_line("A"), error=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.12345])
    panel = make_panel(line, replace(make_line("B"), greedy_error=0.96), ceiling)
    page = page_of(replace(panel, several=True, sat_out=["AROW", "CW"]))
    assert "Learners that need the true label sit out: AROW, CW." in page
    assert "A: 87.655% right\nafter 100 rounds" in page and "wrong\nafter" not in page
    assert "right so far" in page and "wrong so far" not in page
    rows = [row for row in Checker(page).rows if len(row) == 9]
    assert rows[0][1:3] == ["Learner", "Right %"] and rows[0][4] == "Greedy right %"
    assert [row[2] for row in rows[1:] if row[0] in ("1", "R1")] == ["87.66", "50.00"]
    assert "the higher, the better" in page
    assert "the higher, the better" not in page_of(panel)


def without_errors() -> Line:
    zeros = [0.0] * 7
    return replace(make_line("Zero"), error=zeros, low=zeros, high=zeros, greedy_error=0.0)


def single_check_point() -> Line:
    return replace(make_line("One"), rounds=[1], error=[1.0], low=[1.0], high=[1.0])


def not_numbers() -> Line:
    nan = math.nan
    line = make_line("Gaps")
    error = [nan, *line.error[1:-1], nan]
    unknown = [nan] * 7
    return replace(
        line, error=error, low=unknown, high=unknown, error_sd=nan, rounds_per_second=math.inf
    )


@pytest.mark.parametrize(
    "lines",
    [
        [without_errors()],
        [without_errors(), make_line("Other")],
        [single_check_point()],
        [not_numbers()],
        [make_line("Told", told=True)],
        [replace(make_line("Late"), rounds=[200, 210, 220, 230, 240, 250, 260])],
        [replace(make_line("Empty"), rounds=[], error=[], low=[], high=[])],
        [],
    ],
)
def test_odd_results_still_make_a_page(lines: list[Line]) -> None:
    page = page_of(make_panel(*lines))
    Checker(page)
    assert not re.search(r"\b(nan|inf)\b", page, re.IGNORECASE)
    assert all(-60 <= number <= 1100 for number in coordinates(page))


def test_no_mistake_is_drawn_at_half_a_mistake_and_told_as_zero() -> None:
    page = page_of(make_panel(without_errors()))
    assert "0.5%</text>" in page  # half a mistake in 100 rounds
    assert "Zero: 0% wrong\nafter 100 rounds" in page


def test_no_panels() -> None:
    Checker(race_page([], "onebit race", "1", {}))


def test_labels_are_spread_within_bounds_and_in_order() -> None:
    wanted = [50.0, 10.0, 10.0, 11.0, 99.0, 98.0]
    heights = spread(wanted, [8] * 6, 1, 104)
    ordered = [height for _, height in sorted(zip(wanted, heights, strict=True))]
    assert ordered == sorted(heights)
    assert all(b - a >= 8 - 1e-9 for a, b in itertools.pairwise(ordered))
    assert min(heights) >= 5 and max(heights) <= 100
    assert heights[0] == 50  # nothing near it, so it stays


@pytest.mark.parametrize(
    ("low", "high", "steps"),
    [
        (0.03, 0.9, [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
        (1.0, 1.0, [0.5, 1.0]),
        (0.05, 0.05, [0.02, 0.05]),
        (0.005, 0.01, [0.005, 0.01]),
    ],
)
def test_axis_steps_enclose_the_values(low: float, high: float, steps: list[float]) -> None:
    assert one_two_five(low, high) == steps
