"""What every page shares: head, foot, style and script. A page loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def sheet(title: str, header: str, main: str, footer: str, style: str = "") -> str:
    """A whole HTML file; all but the title is HTML already."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{main}
</main>
<footer>
{footer}
</footer>
<script>{SCRIPT}</script>
</body>
</html>
"""


def run_it_again(command: str, version: str, facts: Mapping[str, str]) -> str:
    """What to type and what it ran with, for the foot of a page."""
    told = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f"""<h2>Run it again</h2>
<pre tabindex="0"><code>{escape(command)}</code></pre>
<dl><dt>onebit</dt><dd>{escape(version)}</dd>{told}</dl>"""


def cell(column: str, inside: str) -> str:
    """A cell of a table, with the name of its column for a screen that has no room for columns."""
    return f'<td data-name="{escape(column)}">{inside}</td>'


STYLE = """
:root { --page:#fff; --ink:#1c2127; --soft:#59626d; --rule:#dfe3e8; --tint:#f1f4f8; --muted:#87919d;
  --reference:#777; --shade:#0004; --c1:#0046c2; --c2:#c2491d; --c3:#07808f; --c4:#7c0971;
  --c5:#b97f00; --c6:#0d8dff; --c7:#32a561; --c8:#ce0263; --c9:#940ef4; --c10:#600b00;
  --c11:#dd4ade; --c12:#0400a0; --c13:#3e1d4d; --c14:#9b092a; }
@media screen and (prefers-color-scheme: dark) { :root { --page:#14171c; --ink:#e8ebef;
  --soft:#a3adb8; --rule:#2d333b; --tint:#20262e; --muted:#6f7883; --reference:#8d8d8d;
  --shade:#fff5; --c1:#4a8fff; --c2:#ee5f24; --c3:#00dca4; --c4:#b7a6f2; --c5:#ffb020;
  --c6:#b7f7ff; --c7:#03a14f; --c8:#c20c63; --c9:#772bff; --c10:#9a5200; --c11:#e845d8;
  --c12:#d3ff03; --c13:#ffe798; --c14:#9444ac; } }
* { box-sizing:border-box }
body { margin:0 auto; padding:1.5rem 1rem 3rem; max-width:1080px; background:var(--page);
  color:var(--ink); font:1rem/1.5 system-ui, sans-serif; overflow-wrap:break-word }
h1 { margin:0 0 .3em; font-size:1.7rem } h2 { margin:0 0 .2em; font-size:1.25rem }
h3 { margin:.9rem 0 .2rem; font-size:.82rem; color:var(--soft) }
p { margin:.3em 0; max-width:80ch } .note { color:var(--soft); font-size:.92rem }
section, footer { margin-top:2.2rem; padding-top:1.4rem; border-top:1px solid var(--rule) }
.chart { display:block; width:100%; height:auto; margin-top:.8rem; font-size:12px;
  touch-action:pan-y }
.chart.narrow { display:none }
.grid { stroke:var(--rule); stroke-width:.5 } .grid.major { stroke-width:1 }
.tick { fill:var(--soft) } .middle { text-anchor:middle } .end { text-anchor:end }
.label { fill:var(--ink) }
.reference .label, .muted .label, .bound .label { fill:var(--soft) } .top .label { font-weight:600 }
.line { fill:none; stroke:var(--c); stroke-width:1.3; stroke-linejoin:round }
.top .line { stroke-width:2.2 }
.band { fill:var(--c); opacity:.03 } .top .band { opacity:.09 }
.point { fill:var(--page); stroke:var(--c); stroke-width:1.2 } .top .point { fill:var(--c) }
.leader { fill:none; stroke:var(--c); stroke-width:.7; opacity:.7 }
.lit .chart .curve:not(.on) { opacity:.22 }
.lit .on .line { stroke-width:3.2 } .lit .on .band { opacity:.25 }
.lit .reference.on { --c:var(--ink) !important }
.lit .on .label { fill:var(--ink); font-weight:700 }
.legend { display:grid; grid-template-columns:repeat(auto-fill, minmax(15rem, 1fr)); margin:0;
  padding:0; list-style:none }
.legend a, .legend button { display:flex; gap:.45em; padding:.12rem .3rem; border:0;
  border-radius:5px; background:none; color:inherit; font:inherit; font-size:.85rem;
  text-align:left; text-decoration:none; overflow-wrap:anywhere }
.legend .swatch { margin-top:.3rem } .legend b { flex:none }
.swatch { flex:none; width:34px; height:12px; vertical-align:-1px } th .swatch { margin-right:.5em }
a.on, button.on, tr.on > *, tr:target > * { background:var(--tint) !important }
:focus-visible { outline:2px solid var(--c1); outline-offset:1px }
/* A shadow lies at the edge of a table that goes on; at its end the page covers the shadow. */
.scroll { margin-top:1rem; overflow-x:auto; background:
  linear-gradient(90deg, var(--page) 40%, transparent) 0 0 / 3rem 100% local,
  linear-gradient(-90deg, var(--page) 40%, transparent) 100% 0 / 3rem 100% local,
  linear-gradient(90deg, var(--shade), transparent) 0 0 / 1.1rem 100%,
  linear-gradient(-90deg, var(--shade), transparent) 100% 0 / 1.1rem 100%;
  background-repeat:no-repeat }
table { width:100%; border-collapse:collapse; font-size:.85rem; font-variant-numeric:tabular-nums;
  white-space:nowrap }
th, td { padding:.32rem .5rem; border-bottom:1px solid var(--rule); text-align:right }
thead th { color:var(--soft); vertical-align:bottom; white-space:normal }
.tag { margin-left:.4em; padding:0 .4em; border:1px solid var(--rule); border-radius:9px;
  color:var(--soft); font-size:.75rem; font-weight:400 }
.tip { position:fixed; z-index:1; padding:.35rem .6rem; border-radius:6px; background:var(--ink);
  color:var(--page); font-size:.82rem; white-space:pre-line; pointer-events:none }
pre { overflow-x:auto; padding:.7rem .9rem; border-radius:6px; background:var(--tint) }
dl { display:grid; grid-template-columns:max-content 1fr; gap:.1rem 1rem; font-size:.88rem }
dt { color:var(--soft) } dd { margin:0; overflow-wrap:anywhere }
@media (max-width:640px) {
  .chart.wide { display:none } .chart.narrow { display:block }
  .legend a, .legend button { padding:.3rem 0 }
  .legend { display:flex; flex-wrap:wrap; column-gap:1rem }
}
/* No table is wider than a phone: a row is folded, each cell with the name of its column. */
@media screen and (max-width:640px) {
  table, thead, tbody, tr, th, td { display:block; width:auto !important; text-align:left }
  tr { padding:.45rem 0; border-bottom:1px solid var(--rule) }
  thead tr { padding:0 }
  th, td { min-width:0 !important; max-width:none !important; padding:.06rem 0 !important;
    border:0 !important; white-space:normal !important; overflow-wrap:anywhere }
  th { position:static !important }
  td[data-name] { display:flex; gap:1rem; justify-content:space-between; max-width:26rem }
  thead th + th, thead td, td:empty { display:none }
  td[data-name]::before { content:attr(data-name); color:var(--soft); font-weight:400 }
}
@media print {
  :root { font-size:10pt } body { max-width:none; padding:0 }
  section + section { break-before:page } section { margin-top:.5rem; padding-top:.5rem }
  .legend a, .legend button, .tag { font-size:7.5pt }
  .legend { grid-template-columns:repeat(4, 1fr) } .legend .swatch { margin-top:0 }
  .scroll { overflow:visible; background:none }
  table { font-size:7.5pt } th, td { padding:.1rem .3rem }
  h2, h3, tr, .chart, footer { break-inside:avoid } h2, h3, .legend { break-after:avoid }
  .tip { display:none }
  pre { white-space:pre-wrap }
}
"""

# Only adds pointing: the page says everything without it.
SCRIPT = """
const tip = Object.assign(document.createElement('div'), {className: 'tip', hidden: true});
document.body.append(tip);
for (const panel of document.querySelectorAll('.panel')) {
  const light = key => {
    panel.classList.toggle('lit', Boolean(key));
    for (const e of panel.querySelectorAll('[data-line]'))
      e.classList.toggle('on', e.dataset.line === key);
  };
  const rest = () => light(panel.querySelector('[data-line]:focus')?.dataset.line);
  for (const e of panel.querySelectorAll('a[data-line], button[data-line], tr[data-line]')) {
    for (const on of ['mouseenter', 'focus']) e.addEventListener(on, () => light(e.dataset.line));
    for (const off of ['mouseleave', 'blur']) e.addEventListener(off, rest);
    // Light the curve up where it is rather than jump away from it to the table.
    if (e.href) e.addEventListener('click', event => { event.preventDefault(); e.focus(); });
  }
  for (const chart of panel.querySelectorAll('.chart')) {
    // The browser's own tooltips are slow and would cover ours: take their text over.
    const title = chart.querySelector('title');
    chart.setAttribute('aria-label', title.textContent);
    chart.removeAttribute('aria-labelledby');
    title.remove();
    const points = [...chart.querySelectorAll('.point title')].map(words => {
      const point = words.parentNode;
      words.remove();
      return [point, words.textContent];
    });
    const leave = () => { tip.hidden = true; rest(); };
    const point_at = event => {
      let near = 18, found = null;
      for (const [point, words] of points) {
        const box = point.getBoundingClientRect();
        const away = Math.hypot(box.x + box.width / 2 - event.clientX,
          box.y + box.height / 2 - event.clientY);
        if (away < near) [near, found] = [away, [point, words]];
      }
      const label = event.target.closest('.label, .leader');
      if (!found) {
        leave();
        if (label) light(label.closest('[data-line]').dataset.line);
        return;
      }
      light(found[0].closest('[data-line]')?.dataset.line);
      tip.textContent = found[1];
      tip.hidden = false;
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = Math.max(8, left) + 'px';
      const above = event.clientY - tip.offsetHeight - 12;
      tip.style.top = (above < 4 ? event.clientY + 20 : above) + 'px';
    };
    chart.addEventListener('pointermove', point_at);
    chart.addEventListener('pointerdown', point_at);
    chart.addEventListener('pointerleave', leave);
  }
}
"""
