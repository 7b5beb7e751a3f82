// The panels beside the item: numbers, the curve, the last answers, accuracy per label.

import {by_id, call, counted, make, percent, root} from './teach_basics.js';

// on_choose: is given an answer that a person wants to change. on_label: a label.
export function show_panels(stats, on_choose, on_label) {
  show_numbers(stats);
  show_by_label(stats, on_label);
  show_last(stats, on_choose);
  show_unusable(stats);
}

const RECENT = 50; // guesses over which the error is counted
const ROWS = 25; // of the table of labels, unless all are wanted

function show_numbers(stats) {
  by_id('recent').textContent = `wrong of the last ${Math.min(stats.guesses, RECENT) || RECENT}`;
  by_id('error-recent').textContent = stats.error_recent === null ? '–' : percent(stats.error_recent);
  by_id('error').textContent = stats.error === null ? '–' : percent(stats.error);
  by_id('answers').textContent = stats.answers.toLocaleString('en');
  by_id('pace').textContent = stats.per_minute === null ? '–' : Math.round(stats.per_minute);
  const people = Object.entries(stats.people).filter(([name]) => name);
  by_id('summary').textContent = [
    `${stats.known.toLocaleString('en')} of ${stats.items.toLocaleString('en')} items have a label`,
    stats.skipped ? `${stats.skipped} skipped` : '',
    stats.explored ? `${stats.explored} guess${stats.explored === 1 ? '' : 'es'} explored` : '',
    people.length > 1 ? people.map(([name, count]) => `${name}: ${count}`).join(', ') : '',
  ].filter(Boolean).join(' · ');
}

// A few of the pictures, so that a person can see which labels they need.
export async function show_samples() {
  if (root.dataset.kind !== 'image') return;
  const answer = await call('samples').then(r => r.ok ? r.json() : null).catch(() => null);
  by_id('samples').replaceChildren(
    ...(answer?.samples ?? []).map(src => make('img', {alt: '', src})));
}

let curve_at = 0;
let curve_timer = 0;

export function show_curve(stats) {
  if (curve_timer) return;
  curve_timer = setTimeout(async () => {
    curve_timer = 0;
    curve_at = performance.now();
    const width = Math.round(Math.min(Math.max(by_id('curve').clientWidth, 280), 640));
    const text = await call(`curve?width=${width}`).then(r => r.ok ? r.text() : '').catch(() => '');
    const drawn = new DOMParser().parseFromString(text, 'text/html').querySelector('svg');
    if (drawn) by_id('curve').replaceChildren(drawn);
    else if (stats.guesses < 2) by_id('curve').replaceChildren();
  }, Math.max(0, 400 - (performance.now() - curve_at)));
}

let all_labels = false;
let shown = null;
by_id('all-labels').addEventListener('click', () => {
  all_labels = !all_labels;
  show_by_label(...shown);
});

// Of many labels, those with the most answers.
function show_by_label(stats, on_label) {
  shown = [stats, on_label];
  const focused = document.activeElement?.dataset?.label;
  const button = by_id('all-labels');
  button.hidden = stats.by_label.length <= ROWS;
  button.textContent = all_labels ? `Show ${ROWS} labels`
    : `Show all ${counted(stats.by_label.length, 'label')}`;
  const rows = all_labels || button.hidden ? stats.by_label : [...stats.by_label]
    .sort((a, b) => b.guessed + b.known - a.guessed - a.known).slice(0, ROWS);
  by_id('by-label').replaceChildren(...rows.map(row => make('tr', {},
    make('th', {scope: 'row'}, label_button(row, on_label)),
    ...[row.guessed, row.guessed ? percent(row.right / row.guessed) : '–', row.known].map(
      (text, i) => {
        const cell = make('td', {textContent: text});
        cell.dataset.name = ['guessed', 'right', 'items'][i];
        return cell;
      }))));
  if (focused !== undefined) document.querySelector(`[data-label="${CSS.escape(focused)}"]`)?.focus();
}

function label_button(row, on_label) {
  const button = make('button', {type: 'button', textContent: row.label, dir: 'auto',
    ariaLabel: `${row.label}: rename, merge or remove`});
  button.dataset.label = row.label;
  button.addEventListener('click', () => on_label(row));
  return button;
}

const is_question = lesson => lesson.kind === 'yes' || lesson.kind === 'no';

export function verdict(lesson) {
  if (lesson.label !== null && !lesson.right) return `no, ${lesson.label}`;
  if (is_question(lesson)) return lesson.right ? 'yes' : 'no';
  return lesson.right ? 'right' : 'wrong';
}

export const question = lesson =>
  is_question(lesson) ? `the question was “${lesson.said}?”` : `it said “${lesson.said}”`;

function show_last(stats, on_choose) {
  const focused = document.activeElement?.dataset?.lesson;
  by_id('last').replaceChildren(...stats.recent.map(lesson => {
    const small = lesson.picture
      ? make('img', {src: `${lesson.picture}&size=128`, alt: '', width: 36, height: 36}) : '';
    const button = make('button', {type: 'button', className: lesson.right ? 'right' : 'wrong'},
      small, make('span', {className: 'what'},
        make('span', {className: 'title', textContent: lesson.title, dir: 'auto'}),
        make('span', {className: 'guess', dir: 'auto',
          textContent: lesson.said + (is_question(lesson) ? '?' : '')}), ' ',
        make('span', {className: 'verdict', dir: 'auto', textContent:
          [`${lesson.right ? '✓' : '✗'} ${verdict(lesson)}`, lesson.explored && 'explored', lesson.who]
            .filter(Boolean).join(' · ')})));
    button.dataset.lesson = lesson.id;
    button.addEventListener('click', () => on_choose(lesson));
    return make('li', {}, button);
  }));
  if (focused) document.querySelector(`[data-lesson="${focused}"]`)?.focus();
}

function show_unusable(stats) {
  const box = by_id('unusable');
  box.hidden = !stats.unusable_count;
  box.querySelector('summary').textContent = `${stats.unusable_count} cannot be used`;
  box.querySelector('ul').replaceChildren(...stats.unusable.map(([name, reason]) =>
    make('li', {textContent: `${name}: ${reason}`, dir: 'auto'})));
}
