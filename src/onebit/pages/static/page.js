// The page is complete without this script: it adds highlighting and tooltips.
const tip = Object.assign(document.createElement('div'), {className: 'tip', hidden: true});
document.body.append(tip);
const lively = new WeakSet();
const enliven = panel => {
  if (lively.has(panel)) return;
  lively.add(panel);
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
      let near = 14, found = null;
      for (const [point, words] of points) {
        const box = point.getBoundingClientRect();
        const away = Math.hypot(Math.max(box.left - event.clientX, 0, event.clientX - box.right),
          Math.max(box.top - event.clientY, 0, event.clientY - box.bottom));
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
};
document.querySelectorAll('.panel').forEach(enliven);
