// A label that is typed: one that there is, whatever the case, or a new one, which is asked about.

import {by_id, counted, make} from './teach_basics.js';

const SHOWN = 3; // similar labels

const trimmed = text => text.trim().replace(/\s+/g, ' ');

// Labels may be numbers; what a person types is text. A new label is `undefined`.
export const known_label = (text, labels) =>
  labels.find(label => String(label) === trimmed(text));

// Asks about a new label, unless nothing is like it and it need not be `certain`. use: is given the
// label that was chosen, in the end.
export function choose_label(text, labels, certain, use) {
  const typed = trimmed(text), known = known_label(text, labels);
  if (!typed) return;
  const similar = known === undefined ? similar_labels(typed, labels) : [];
  if (known !== undefined || (!certain && !similar.length)) {
    use(known ?? typed);
    return;
  }
  by_id('new-label-name').textContent = typed;
  by_id('did-you-mean').hidden = !similar.length;
  const dialog = by_id('new-label');
  const button = (label, words, kind) => {
    const made = make('button', {type: 'button', className: kind, textContent: words, dir: 'auto'});
    made.addEventListener('click', () => {
      dialog.close();
      if (label !== null) use(label);
    });
    return made;
  };
  const choices = similar.map(label => button(label, label, 'chip'));
  by_id('similar-labels').replaceChildren(...choices);
  const add = button(typed, 'Make the new label', 'plain');
  by_id('new-label-actions').replaceChildren(add, button(null, 'Cancel', 'plain'));
  dialog.showModal();
  (choices[0] ?? add).focus();
}

// Renames a label, merges it into another one, or removes it. row: of the table of labels. use: is
// given the new name, or null.
export function change_label(row, labels, use) {
  const dialog = by_id('relabel'), input = by_id('relabel-to'), save = by_id('relabel-save');
  const effect = () => {
    const name = trimmed(input.value), other = known_label(name, labels);
    save.disabled = !name || other === row.label;
    const merges = other !== undefined && other !== row.label;
    save.textContent = merges ? 'Merge' : 'Rename';
    by_id('relabel-effect').textContent = merges
      ? `There is a label “${other}”: ${counted(row.known, 'item')} with “${row.label}” will have `
        + 'it. Guesses that were wrong about the spelling are forgotten. This cannot be undone.'
      : 'All that was learned is kept.';
  };
  by_id('relabelled').textContent = input.value = row.label;
  by_id('relabel-form').hidden = false;
  by_id('removal').hidden = true;
  by_id('removal-effect').textContent = '';
  by_id('relabel-remove').disabled = labels.length < 3;
  effect();
  input.oninput = effect;
  by_id('relabel-form').onsubmit = event => {
    event.preventDefault();
    dialog.close();
    use(known_label(input.value, labels) ?? trimmed(input.value));
  };
  by_id('relabel-remove').onclick = () => {
    by_id('relabel-form').hidden = true;
    by_id('removal').hidden = false;
    by_id('removal-effect').textContent = `“${row.label}” is never guessed any more. What was said `
      + `of it is forgotten: ${counted(row.known, 'item')} will be asked about again. This cannot `
      + 'be undone.';
    by_id('removal-sure').focus();
  };
  by_id('removal-sure').onclick = () => {
    dialog.close();
    use(null);
  };
  dialog.showModal();
  input.select();
}
for (const button of document.querySelectorAll('[data-relabel]'))
  button.addEventListener('click', () => by_id('relabel').close());

function similar_labels(typed, labels) {
  const sought = plain(typed), found = [];
  for (const label of labels) {
    const known = plain(label), longest = Math.max(known.length, sought.length);
    const shortest = Math.min(known.length, sought.length);
    const is_part = shortest > 2 && (known.startsWith(sought) || sought.startsWith(known));
    const away = distance(sought, known);
    if (is_part || away <= Math.max(1, longest / 4) && away < longest / 2)
      found.push([away, label]);
  }
  return found.sort(([a], [b]) => a - b).slice(0, SHOWN).map(([, label]) => label);
}

// Without accents, case, blanks and signs.
const plain = label => String(label).normalize('NFD').toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');

// How many letters have to be put in, left out, replaced, or swapped with their neighbour.
function distance(a, b) {
  let before = [], last = Array.from({length: b.length + 1}, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    [before, last] = [last, row];
  }
  return last[b.length];
}
