"""The pages of the studies: one for each paper, one over all; each is a file that loads nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from html import escape

from onebit.lab.studies.findings import Chart, Check, Failure, Findings, Section
from onebit.lab.studies.plots import (
    WORDS,
    columns,
    drawing,
    frames,
    has_zero,
    key_of,
    looks_of,
    names,
    not_drawn,
    number_of,
    numbered,
    pair_in_words,
    ratios,
    without_beginning,
)
from onebit.lab.studies.tables import ball, key, rates_of, table_of
from onebit.lab.studies.verdict import Verdict, together, verdict
from onebit.pages.charts import Looks, swatch
from onebit.pages.shell import cell, run_it_again, sheet

CALLED = {True: "holds", False: "does not hold", None: "cannot be told"}
SEVERAL = {True: "hold", False: "do not hold", None: "cannot be told"}


def study_page(findings: Findings, version: str) -> str:
    """One paper's study as one HTML file."""
    looks = looks_of(findings.sections)
    sections = [
        _section(section, looks, f"part{number}", quick=findings.quick)
        for number, section in enumerate(findings.sections, 1)
    ]
    facts = {
        **{name: fact for name, fact in findings.facts.items() if name != "onebit"},
        "cells": ", ".join(filter(None, [f"{findings.cells:,}", _incomplete(findings)])),
        "computing time": duration(findings.seconds),
    }
    header = f"""<h1>{escape(findings.title)}</h1>
<p class="paper">{escape(findings.paper)}</p>
<p>{escape(findings.about)}</p>
{_banner(findings)}{_headed(findings, "study")}{_contents(findings.sections)}
<p class="note">In the charts, solid curves are learners that hear only <em>right</em> or
<em>wrong</em>; dashed grey curves are references that are told the true label. A band spans the
repeats. Hollow marks in the strip at the right are the paper's numbers for the end.</p>"""
    return sheet(
        f"{findings.title} | onebit",
        header,
        "".join(sections) + _failures(findings.failures),
        run_it_again(findings.command, version, facts),
        STYLE,
    )


def overview_page(all: list[tuple[Findings, str]], version: str) -> str:
    """All studies on one page; each comes with the link to its own."""
    cards = [
        _card(findings, link, f"study{number}") for number, (findings, link) in enumerate(all, 1)
    ]
    found = [verdict(findings) for findings, _ in all]
    seconds = sum(findings.seconds for findings, _ in all)
    facts = {
        "studies": str(len(all)),
        "cells": f"{sum(findings.cells for findings, _ in all):,}",
        "computing time": duration(seconds),
    }
    header = f"""<h1>What reproduces, and what does not</h1>
<p>{_count(len(all), "paper")} on learning from right/wrong feedback, run again with onebit: what
each claims and the numbers it prints, beside what comes out here.</p>
{_quick_ones(all)}{_verdict(together(found), "all")}{_glance(all, found)}"""
    commands = "\n".join(findings.command for findings, _ in all)
    return sheet(
        "onebit: what reproduces",
        header,
        "".join(cards) or "<p>No study has run yet.</p>",
        run_it_again(commands, version, facts),
        STYLE,
    )


# Words


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60:,} h {minutes % 60} min"


def _incomplete(findings: Findings) -> str:
    parts = []
    if findings.missing:
        parts.append(f"{findings.missing:,} not run yet")
    if findings.failures:
        parts.append(f"{len(findings.failures):,} failed")
    return ", ".join(parts)


# Verdict


def _banner(findings: Findings) -> str:
    incomplete = _incomplete(findings)
    if not incomplete:
        return ""
    told = f"Not complete: of {_count(findings.cells, 'cell')}, {incomplete}."
    return f'<p class="banner">{told}</p>'


QUICK = "A quick run at reduced size: its numbers are not comparable with the published ones"


def _headed(findings: Findings, where: str) -> str:
    """What a study's page begins with: the score, which a quick run does not get."""
    if not findings.quick:
        return _verdict(verdict(findings), where)
    full = escape(findings.command.removesuffix(" --quick"))
    return f"""<div class="verdict"><div><h2>{QUICK}</h2>
<p>It has less data, fewer rounds or fewer repeats than the paper, so nothing is counted here.
The full run: <code>{full}</code></p></div></div>"""


def _quick_ones(all: list[tuple[Findings, str]]) -> str:
    number = sum(findings.quick for findings, _ in all)
    if not number:
        return ""
    told = f"{number} of the {len(all)} studies" if number < len(all) else "all studies"
    return f"""<p class="banner">Quick runs at reduced size: {told}. Their numbers are not
comparable with the published ones and are not counted.</p>"""


def _verdict(found: Verdict, where: str) -> str:
    parts = [f"<div><h2>{_headline(found)}</h2>{_tally(found)}</div>"] if found.claims else []
    if found.pairs:
        parts.append(f"<div><h2>{_nearness(found)}</h2>{key()}{ratios(found.pairs, where)}</div>")
        if found.furthest:
            parts.append(f"<div>{_furthest(found)}</div>")
    return f'<div class="verdict panel">{"".join(parts)}</div>' if parts else ""


def _headline(found: Verdict) -> str:
    if found.untold == found.claims:
        return f"Of {_count(found.claims, 'claim')} none can be told yet"
    if found.holds == found.claims:
        return "The claim holds" if found.claims == 1 else f"All {found.claims} claims hold"
    return f"{found.holds} of {_count(found.claims, 'claim')} hold"


def _tally(found: Verdict) -> str:
    """The counts, and a bar as long as their shares."""
    counts = {True: found.holds, False: found.fails, None: found.untold}
    bar = "".join(
        f'<i class="{_style(holds)}" style="flex:{number}"></i>'
        for holds, number in counts.items()
        if number
    )
    items = "".join(
        f'<li class="{_style(holds)}{"" if number else " none"}">{_sign(holds)} '
        f"<b>{number}</b> {_word(holds, number)}</li>"
        for holds, number in counts.items()
    )
    return f'<div class="bar" aria-hidden="true">{bar}</div><ul class="tally">{items}</ul>'


def _nearness(found: Verdict) -> str:
    return f"{found.count('near')} of {_count(len(found.pairs), 'number')} within 10%"


def _furthest(found: Verdict, most: int = 4) -> str:
    items = "".join(f"<li>{escape(pair_in_words(pair))}</li>" for pair in found.furthest[:most])
    more = len(found.furthest) - most
    rest = f"<li>and {more} more</li>" if more > 0 else ""
    return f'<h3>Furthest from the paper</h3><ul class="plain">{items}{rest}</ul>'


def _style(holds: bool | None) -> str:
    return {True: "holds", False: "fails", None: "untold"}[holds]


SIGNS = {
    True: '<circle cx="8" cy="8" r="7.5"/><path d="M4.5 8.4L7 11L11.6 5.4"/>',
    False: '<path class="box" d="M8 .2L15.8 8L8 15.8L.2 8z"/><path d="M5.5 5.5l5 5m0-5l-5 5"/>',
    None: '<circle class="open" cx="8" cy="8" r="6.8"/>'
    '<path class="ask" d="M5.9 6.4a2.1 2.1 0 1 1 3.1 1.9q-1 .5-1 1.5m0 1.7v.6"/>',
}


def _sign(holds: bool | None) -> str:
    """A disc with a tick, a diamond with a cross, or a ring with a question mark."""
    shape = SIGNS[holds]
    return f'<svg class="sign {_style(holds)}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'


def _contents(sections: list[Section]) -> str:
    """Links to the sections, with what became of their claims."""
    if len(sections) < 2:
        return ""
    items = []
    for number, section in enumerate(sections, 1):
        told = [check.holds for check in section.checks]
        signs = "".join(
            f"<span>{_sign(holds)} {count} {_word(holds, count)}</span>"
            for holds, count in Counter(sorted(told, key=list(CALLED).index)).items()
        )
        items.append(
            f'<li><a href="#part{number}">{escape(section.title)}</a> '
            f'<span class="signs">{signs}</span></li>'
        )
    return f'<nav aria-label="Sections"><ol>{"".join(items)}</ol></nav>'


# Sections


def _section(section: Section, looks: dict[str, Looks], where: str, *, quick: bool) -> str:
    parts = [
        f'<h2 id="{where}">{escape(section.title)}</h2>',
        f'<p class="about">{escape(section.about)}</p>' if section.about else "",
        _claims(section.checks),
        _charts(section.charts, looks, where),
    ]
    parts += [
        table_of(table, looks, f"{where}-table{number}", quick=quick)
        for number, table in enumerate(section.tables, 1)
    ]
    parts += [
        rates_of(table, f"{where}-rates{number}") for number, table in enumerate(section.rates, 1)
    ]
    parts += [_settings(section.charts, where), _notes(section.notes)]
    if not (section.charts or section.tables or section.rates or section.checks):
        parts.append('<p class="nothing">No results.</p>')
    return f'<section class="panel" aria-labelledby="{where}">{"".join(parts)}</section>\n'


OPEN = 8  # claims; with more, those that do not hold are shown and the others folded


def _claims(checks: list[Check]) -> str:
    if len(checks) <= OPEN:
        return _checks(checks)
    folded = []
    for holds in (True, None):
        some = [check for check in checks if check.holds is holds]
        if some:
            words = f"{_sign(holds)} {len(some)} {_word(holds, len(some))}"
            folded.append(f"<details><summary>{words}</summary>{_checks(some)}</details>")
    return _checks(check for check in checks if check.holds is False) + "".join(folded)


def _word(holds: bool | None, count: int) -> str:
    return (CALLED if count == 1 else SEVERAL)[holds]


def _checks(checks: Iterable[Check]) -> str:
    items = "".join(
        f'<li class="{_style(check.holds)}"><span class="called">{_sign(check.holds)} '
        f"{CALLED[check.holds]}</span><span>{escape(check.claim)}</span>"
        f'<span class="evidence">{escape(check.evidence)}</span></li>'
        for check in checks
    )
    return f'<ul class="checks">{items}</ul>' if items else ""


def _notes(notes: list[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<h3>Notes</h3><ul class="notes">{items}</ul>' if items else ""


def _charts(charts: list[Chart], looks: dict[str, Looks], where: str) -> str:
    if not charts:
        return ""
    figures = "".join(
        _figure(without_beginning(one), charts, looks, f"{where}-chart{number}")
        for number, one in enumerate(charts, 1)
    )
    return f'{_legend(charts, looks)}<div class="plots by{columns(len(charts))}">{figures}</div>'


def _figure(one: Chart, beside: list[Chart], looks: dict[str, Looks], where: str) -> str:
    picture = drawing(one, looks, frames(len(beside)), where, numbered=numbered(beside))
    picture = picture or '<p class="nothing">No data.</p>'
    told = [one.caption] if one.caption else []
    if has_zero(one):
        told.append("Zero, which a logarithmic axis does not have, is drawn at its lower end.")
    if absent := not_drawn(one):
        told.append(f"Without data: {', '.join(absent)}.")
    return (
        f"<figure><figcaption>{escape(one.title)}</figcaption><div>{picture}</div>"
        f'<p class="note">{escape(" ".join(told))}</p></figure>\n'
    )


def _legend(charts: list[Chart], looks: dict[str, Looks]) -> str:
    with_numbers = numbered(charts)
    items = "".join(
        f'<li><button type="button" data-line="{key_of(name, looks)}">{swatch(looks[name])}'
        f"{f'<b>{number_of(name, looks)}</b>' if with_numbers else ''}{escape(name)}</button></li>"
        for name in dict.fromkeys(name for one in charts for name in names(one))
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


def _settings(charts: list[Chart], where: str) -> str:
    """Each curve's settings: a row for each chart, a column for each method."""
    told = [
        {name: curve.settings for name, curve in zip(names(one), one.curves, strict=True)}
        for one in charts
    ]
    methods = list(dict.fromkeys(name for settings in told for name in settings))
    if not any(any(settings.values()) for settings in told):
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in methods)
    rows = "".join(
        f'<tr><th scope="row">{escape(one.title)}</th>'
        + "".join(cell(name, escape(settings.get(name) or "–")) for name in methods)
        + "</tr>"
        for one, settings in zip(charts, told, strict=True)
    )
    return f"""<details><summary>Settings of the curves</summary>
<div class="scroll" role="region" aria-label="Settings" tabindex="0" id="{where}-settings">
<table class="settings"><thead><tr><th scope="col">Chart</th>{head}</tr></thead>
<tbody>{rows}</tbody></table></div></details>"""


# Failures


def _failures(failures: list[Failure]) -> str:
    """Cells by their error: the same mistake a hundred times is one mistake."""
    if not failures:
        return ""
    cells: dict[str, list[str]] = defaultdict(list)
    for failure in failures:
        cells[failure.error].append(failure.cell)
    items = "".join(
        f'<li><pre tabindex="0"><code>{escape(error)}</code></pre><p class="note">'
        f"{_count(len(names), 'cell')}: {escape(', '.join(names))}</p></li>"
        for error, names in cells.items()
    )
    return f"""<section aria-labelledby="failures"><h2 id="failures">What failed</h2>
<ul class="plain failures">{items}</ul></section>
"""


# Overview


LACKING = "Cells lacking"


def _counts(found: Verdict) -> tuple[int, ...]:
    return (found.holds, found.fails, found.untold, *(found.count(near) for near in WORDS))


def _glance(all: list[tuple[Findings, str]], found: list[Verdict]) -> str:
    """A row for each study."""
    columns = [*CALLED.values(), *WORDS.values()]
    head = "".join(
        f'<th scope="col">{words}</th>'
        for words in (
            "Study",
            *(f"{_sign(holds)} {words}" for holds, words in CALLED.items()),
            *(f"{ball(near)} {words}" for near, words in WORDS.items()),
            LACKING,
        )
    )
    rows = "".join(
        f'<tr><th scope="row"><a href="{escape(link)}">{escape(findings.name)}</a></th>'
        + (
            '<td colspan="6">quick run, not counted</td>'
            if findings.quick
            else "".join(map(cell, columns, map("{:,}".format, _counts(one))))
        )
        + cell(LACKING, f"{findings.missing + len(findings.failures):,}")
        + "</tr>"
        for (findings, link), one in zip(all, found, strict=True)
    )
    if not rows:
        return ""
    groups = (
        '<th colspan="3" scope="colgroup">claims</th><th colspan="3" scope="colgroup">numbers</th>'
    )
    return f"""<div class="scroll" role="region" aria-label="All studies" tabindex="0">
<table class="glance"><thead><tr><td></td>{groups}<td></td></tr><tr>{head}</tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _card(findings: Findings, link: str, where: str) -> str:
    found = verdict(findings)
    claims = f"<h3>{_headline(found)}</h3>{_tally(found)}{_wrong(findings)}" if found.claims else ""
    numbers = ""
    if found.pairs:
        numbers = f"<h3>{_nearness(found)}</h3>{ratios(found.pairs, where)}"
        numbers += _furthest(found, 2) if found.furthest else ""
    halves = "".join(f"<div>{half}</div>" for half in (claims, numbers) if half)
    return f"""<section class="card panel" aria-labelledby="{where}">
<h2 id="{where}"><a href="{escape(link)}">{escape(findings.title)}</a></h2>
<p class="paper">{escape(findings.paper)}</p>{_banner(findings)}
{f"<p>{QUICK}.</p>" if findings.quick else ""}<div class="halves">{halves}</div>
</section>
"""


def _wrong(findings: Findings) -> str:
    """The first claims that do not hold, then of those that cannot be told."""
    parts = []
    for holds, most in ((False, 6), (None, 2)):
        some = [c for section in findings.sections for c in section.checks if c.holds is holds]
        parts.append(_checks(some[:most]))
        if len(some) > most:
            more = len(some) - most
            parts.append(f'<p class="note">and {more} more that {_word(holds, more)}</p>')
    return "".join(parts)


STYLE = """
body { max-width:1140px } h1 { text-wrap:balance } .paper { color:var(--soft); font-style:italic }
.banner { padding:.5rem .8rem; border-left:4px solid var(--c5); background:var(--tint) }
.holds { --s:var(--c3) } .fails { --s:var(--c2) } .untold { --s:var(--muted) }
.sign { flex:none; width:1.05em; height:1.05em; vertical-align:-.16em; fill:var(--s) }
.sign path { fill:none; stroke:var(--page); stroke-width:2; stroke-linecap:round;
  stroke-linejoin:round }
.sign .box { fill:var(--s); stroke:none } .sign .open { fill:none; stroke:var(--s);
  stroke-width:1.4 } .sign .ask { stroke:var(--s); stroke-width:1.6 }
.verdict { display:grid; grid-template-columns:repeat(auto-fit, minmax(min(100%, 19rem), 1fr));
  gap:1rem 2rem; margin:1.1rem 0; padding:1rem 1.2rem; border-radius:10px; background:var(--tint) }
.verdict h2 { font-size:1.1rem } .verdict h3 { margin-top:.2rem }
.bar { display:flex; gap:2px; max-width:34rem; height:.7rem; margin:.5rem 0 .6rem }
.bar i { border-radius:3px; background:var(--s) }
.bar .untold { border:1.5px dashed var(--s); background:none }
.bar .fails { background:repeating-linear-gradient(135deg, var(--s) 0 5px, transparent 5px 7px) }
.tally, .key, .plain, .checks { margin:0; padding:0; list-style:none }
.tally { display:flex; flex-wrap:wrap; gap:.1rem 1.2rem }
.key { display:flex; flex-wrap:wrap; gap:.1rem 1rem; margin:.3rem 0; color:var(--soft);
  font-size:.82rem }
.plain { font-size:.88rem } .plain li { margin:.25rem 0 }
.ball { display:inline-block; width:.68em; height:.68em; border:.1em solid var(--b);
  border-radius:50%; print-color-adjust:exact; -webkit-print-color-adjust:exact }
.near { --b:var(--c3) } .rough { --b:var(--soft) } .far { --b:var(--c2) }
.ball.near { background:var(--b) }
.ball.rough { background:linear-gradient(90deg, var(--b) 50%, transparent 50%) }
.ratios { max-width:360px } .ratios .point { stroke:var(--b); stroke-width:1.1 }
.ratios .near .point { fill:var(--b) } .ratios .half { fill:var(--b) }
.zone { fill:var(--c3); opacity:.1 }
nav ol { margin:.8rem 0; padding-left:1.4rem } nav li { margin:.15rem 0 }
.signs span { margin-left:.7em; color:var(--soft); font-size:.85rem; white-space:nowrap }
a { color:var(--c1) }
.checks { margin:.8rem 0 } .checks li { display:grid; grid-template-columns:9.5rem 3fr 2fr;
  gap:0 1rem; padding:.35rem 0; border-bottom:1px solid var(--rule) }
.called { color:var(--soft); font-size:.9rem; white-space:nowrap }
.fails .called { color:var(--ink); font-weight:600 }
.evidence { color:var(--soft); font-size:.9rem } .card .checks li { grid-template-columns:9rem 1fr }
.card .evidence { grid-column:2 } .none { color:var(--soft) }
.glance { margin:.4rem 0 } .glance th:not(:first-child), .glance td { padding-left:1.2rem }
.glance thead td { border:0 } .glance [scope=colgroup] { text-align:center }
.plots { display:grid; gap:0 1.2rem; margin-top:1rem }
.by1 { grid-template-columns:1fr }
.by2 { grid-template-columns:repeat(auto-fill, minmax(min(100%, 430px), 1fr)) }
.by3 { grid-template-columns:repeat(auto-fill, minmax(min(100%, 320px), 1fr)) }
figure { display:grid; grid-row:span 3; grid-template:subgrid / minmax(0, 1fr); gap:0;
  min-width:0; margin:0 0 .8rem }
figcaption { font-weight:600; font-size:.95rem } figure .chart { margin-top:.3rem }
figure .note { font-size:.82rem }
.chart.small, .chart.narrow { font-size:11px } .lit .small .on .label { font-weight:600 }
.panel > .legend { margin-top:.8rem }
.strip { fill:var(--tint) } .paper .point { fill:var(--page) !important; stroke-width:1.6 }
.second { fill:var(--soft); font-weight:400 }
.nothing { padding:2rem 1rem; border:1px dashed var(--rule); border-radius:6px; color:var(--soft);
  text-align:center; max-width:none }
h3.title { margin-top:1.4rem; color:var(--ink); font-size:.95rem }
.scroll { margin-top:.5rem } table { width:auto }
thead th .swatch { display:block; margin:0 0 0 auto }
th:first-child { position:sticky; left:0; background:var(--page); text-align:left;
  font-weight:600 }
thead th:first-child { font-weight:400 }
tbody th:first-child { min-width:8rem; max-width:14rem; white-space:normal;
  overflow-wrap:anywhere }
.verdict > *, .halves > *, .checks li > * { min-width:0 }
.value { display:grid; grid-template-columns:auto calc(var(--second) * 1ch + 1.2em); gap:0 .3em;
  justify-content:end; justify-items:end; align-items:baseline }
.numbers th + th, .numbers td { padding-left:.9rem; border-left:1px solid var(--rule) }
.numbers thead th + th { text-align:center } .numbers thead .swatch { margin:0 auto }
.rates td, .rates th + th { text-align:center; white-space:nowrap; padding:.25rem .7rem }
.rates tbody tr:last-child > * { border-top:1px solid var(--rule); font-weight:600 }
td .sd { padding-right:.96em }
.ours, .paper { position:relative; padding-right:calc(var(--marks, 0) * .55em) }
.ours sup, .value .paper sup { position:absolute; top:-.25em; font-size:.75em }
.value .paper { grid-column:1; color:var(--soft); font-style:normal }
.sd, .diff { color:var(--soft) }
.value .ours { grid-column:1 }
.reading { display:flex; flex-wrap:wrap; align-items:center; gap:.2rem 1.6rem; margin-top:.4rem }
.how { grid-template-columns:auto auto; justify-items:start; padding:.15rem .6rem;
  border:1px solid var(--rule); border-radius:5px; font-size:.82rem; line-height:1.35 }
.how .paper, .how .ours { padding-right:0 }
.said { position:absolute; opacity:0; width:1px; overflow:hidden }
.bold { font-weight:700 } .underlined { text-decoration:underline; text-underline-offset:.18em }
.absent { grid-column:1 / -1; color:var(--soft); font-style:italic }
.ghost { visibility:hidden }
.settings td { text-align:left; white-space:normal; min-width:9rem }
.settings thead th { text-align:left } details { margin-top:.8rem }
summary { color:var(--soft); font-size:.88rem; cursor:pointer }
.notes { margin:.2rem 0; padding-left:1.2rem; max-width:80ch; color:var(--soft); font-size:.92rem }
.failures pre { white-space:pre-wrap; overflow-wrap:anywhere }
.halves { display:grid; grid-template-columns:repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap:.5rem 2rem }
@media (max-width:640px) {
  .checks li, .card .checks li { grid-template-columns:1fr } .card .evidence { grid-column:1 }
  .verdict { padding:.8rem }
}
@media screen and (max-width:640px) {
  .glance thead, .rates thead tr:first-child { display:none }
}
@media print {
  section + section { break-before:auto } .verdict, .banner, .card { break-inside:avoid }
  .verdict, .banner, .bar i, .strip, .zone { print-color-adjust:exact;
    -webkit-print-color-adjust:exact }
  figure, .checks li, .scroll { break-inside:avoid } .settings td { min-width:0 }
  table { font-size:8pt }
  .numbers { font-size:max(5pt, min(8pt, 710px /
    (9 + (7.5 + .64 * var(--second) + .55 * var(--marks)) * var(--methods)))) }
  .numbers th + th, .numbers td { padding:.15em .5em }
  h3 + .note, .reading, .about { break-after:avoid }
  .by2, .by3 { grid-template-columns:1fr 1fr }
  .by2 .chart.wide { display:none } .by2 .chart.narrow { display:block }
  th:first-child { position:static } .card a::after { content:" (" attr(href) ")";
    font-size:8pt; font-weight:400 }
  details::details-content { content-visibility:visible; display:block; height:auto }
}
"""
