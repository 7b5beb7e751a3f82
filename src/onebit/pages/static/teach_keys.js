// Keys and swipes. Keys can be changed and switched off; the browser keeps both.

import {by_id, make, shared} from './teach_basics.js';

const ACTIONS = {right: 'Right', wrong: 'Wrong', skip: 'Skip', undo: 'Undo'};
const KEYS = {
  right: ['a', 'ArrowRight'], wrong: ['x', 'ArrowLeft'], skip: [' ', 'ArrowDown'],
  undo: ['Backspace', 'ArrowUp'],
};
const SIGNS = {
  ' ': 'space', ArrowRight: '→', ArrowLeft: '←', ArrowUp: '↑', ArrowDown: '↓', Backspace: '⌫',
  Enter: 'enter',
};

let keys = {...KEYS, ...shared.get('keys', {})};
let keys_on = shared.get('keys on', true);
let does = null; // right, wrong, skip, undo, name_label(text), labels(), keys_changed()

export function start_keys(actions) {
  does = actions;
  show_keys();
}

// By label: the key that names it, if keys are on.
export function keys_of_labels() {
  return new Map(keys_on ? [...label_keys()].map(([key, label]) => [label, key]) : []);
}

// By key: the label that it names. Labels that are digits are their own keys. Actions come first.
function label_keys() {
  const labels = does.labels();
  const digits = labels.filter(label => /^[0-9]$/.test(label));
  const named = digits.length ? digits.map(label => [String(label), label])
    : labels.slice(0, 9).map((label, i) => [String(i + 1), label]);
  return new Map(named.filter(([key]) => !Object.values(keys).flat().includes(key)));
}

document.addEventListener('keydown', event => {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
  if (capture) return;
  const target = event.target;
  if (!keys_on || target.closest('input:not([type=checkbox]), select, textarea, dialog')) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const is_control = target.closest('button, a, summary, input');
  if (is_control && (key === ' ' || key === 'Enter')) return; // they work the control
  if (target.closest('.scrolls') && /^Arrow(Up|Down)$/.test(key)) return; // they scroll a text
  const name = Object.keys(ACTIONS).find(name => keys[name].includes(key));
  const label = label_keys().get(key);
  if (name === undefined && label === undefined) return;
  event.preventDefault();
  if (event.repeat) return;
  if (name) does[name]();
  else does.name_label(String(label));
});

// After a choice from a list, keys answer again: the focus goes back to the item. Whoever steps
// through a list by keys stays in it until Enter.
for (const list of document.querySelectorAll('.settings select')) {
  let stepping = false, stepped = false;
  const begin = () => { stepping = stepped = false; };
  const leave = () => by_id('stage').focus({preventScroll: true});
  list.addEventListener('focus', begin);
  list.addEventListener('pointerdown', begin);
  list.addEventListener('keydown', ({key}) => {
    if (key === 'Enter' && stepped) leave();
    stepping = /^(Arrow|Page|Home|End)/.test(key) || key.length === 1 && key !== ' ';
  });
  list.addEventListener('change', () => {
    if (stepping) stepped = true;
    else leave();
  });
}

let capture = null; // the action whose key is asked for

const shown_keys = name =>
  keys[name].map(key => SIGNS[key] ?? key).join(' or ') || 'no key';

function show_keys() {
  for (const hint of document.querySelectorAll('kbd[data-key]')) {
    hint.textContent = keys[hint.dataset.key].map(key => SIGNS[key] ?? key).join(' ');
    hint.hidden = !keys_on || !hint.textContent;
  }
  by_id('keys-on').checked = keys_on;
  by_id('key-list').replaceChildren(...Object.entries(ACTIONS).map(([name, words]) => {
    const shown = shown_keys(name);
    const button = make('button', {type: 'button', className: 'plain',
      textContent: capture === name ? 'press a key …' : shown,
      ariaLabel: `${words}: ${shown}. Choose another key`});
    button.dataset.capture = name;
    button.addEventListener('click', () => {
      capture = name;
      show_keys();
      const asking = document.querySelector(`[data-capture=${name}]`);
      asking.focus();
      asking.addEventListener('blur', () => { // whoever turns to something else gives up
        if (capture === name) capture = null;
        asking.textContent = shown_keys(name);
      });
    });
    return make('li', {}, make('span', {textContent: words}), button);
  }));
}

document.addEventListener('keydown', event => {
  if (!capture || event.ctrlKey || event.altKey || event.metaKey) return;
  // Other keys, such as Tab and F5, stay with the browser.
  if (event.key.length !== 1 && event.key !== 'Escape' && !(event.key in SIGNS)) return;
  event.preventDefault();
  event.stopPropagation();
  const name = capture;
  capture = null;
  if (event.key !== 'Escape') {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    for (const other of Object.keys(keys)) keys[other] = keys[other].filter(known => known !== key);
    keys[name] = [key, ...keys[name].filter(known => known.startsWith('Arrow'))];
    shared.set('keys', keys);
    does.keys_changed();
  }
  show_keys();
  document.querySelector(`[data-capture=${name}]`).focus();
}, true);

by_id('keys-on').addEventListener('change', () => {
  keys_on = by_id('keys-on').checked;
  shared.set('keys on', keys_on);
  show_keys();
  does.keys_changed();
});
by_id('keys-reset').addEventListener('click', () => {
  keys = {...KEYS};
  shared.remove('keys');
  show_keys();
  does.keys_changed();
});

// Swiping: right is right, left is wrong.

let swipe = null;
const card = by_id('card');
card.addEventListener('pointerdown', event => {
  if (event.pointerType === 'touch' && event.isPrimary) swipe = {x: event.clientX, y: event.clientY};
});
card.addEventListener('pointermove', event => {
  if (!swipe || event.pointerType !== 'touch') return;
  const away = event.clientX - swipe.x;
  card.style.transform = Math.abs(away) > 10 ? `translateX(${away}px) rotate(${away / 40}deg)` : '';
});
for (const end of ['pointerup', 'pointercancel'])
  card.addEventListener(end, event => {
    if (!swipe) return;
    const [x, y] = [event.clientX - swipe.x, event.clientY - swipe.y];
    swipe = null;
    card.style.transform = '';
    if (end === 'pointerup' && Math.abs(x) > 60 && Math.abs(x) > 1.5 * Math.abs(y))
      does[x > 0 ? 'right' : 'wrong']();
  });
