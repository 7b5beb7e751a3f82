// The page of `onebit teach`. Text of items and people is only ever set as text, never as HTML.
//
// The page holds a few guesses ahead, so that the next item is there at once. Every answer goes
// into a queue that survives a reload, and leaves it when the server has it on disk.

import {
  browser, by_id, call, counted, lesson, make, page, percent, root, shared, stored,
} from './teach_basics.js';
import {item_parts, picture} from './teach_item.js';
import {keys_of_labels, start_keys} from './teach_keys.js';
import {change_label, choose_label, known_label} from './teach_labels.js';
import {question, show_curve, show_panels, show_samples, verdict} from './teach_panels.js';

const WAIT = 15; // ms that a guess made earlier waits for a newer one
const PATIENCE = 1500; // ms that the page waits for a guess that only the server can make
const SHOWN_AS_CHIPS = 24;

const ask = {order: 'random', only: null, again: true, ...stored.get('ask', {})};
if (!['order', 'random', 'unsure'].includes(ask.order)) ask.order = 'random';
let stats = null;

// What is shown.

let current = null; // the guess on the screen
let visible = false; // whether its label is shown; an answer is taken only then
let next = []; // the guesses after it
let ended = false; // whether the server has no further items
let pressed = null; // when the last answer was given
let reveal_timer = 0;
const history = kept_history(); // what this page has done, for undo: {id, guess}
const done = new Map(); // by item: the request that answered it

function show(guess) {
  current = guess;
  visible = false;
  clearTimeout(reveal_timer);
  by_id('card').replaceChildren(...(guess ? item_parts(guess.item) : []));
  by_id('guess').textContent = '';
  by_id('ask').textContent = guess ? '…' : '';
  by_id('sure').textContent = by_id('hint').textContent = '';
  for (const guess of next.slice(0, 6)) picture(guess.item);
  root.classList.toggle('idle', !guess && ended);
  if (guess) return;
  by_id('scores').replaceChildren();
  const words = queue.length && !online
    ? 'The connection is lost. Your answers are kept here, and go out when it is back.' : '…';
  by_id('card').replaceChildren(...(ended ? end_parts() : [words_in_card(words)]));
}

const words_in_card = words => make('p', {className: 'end', textContent: words});

// The end of a lesson: what was reached, and what to take away.
function end_parts() {
  const open = stats ? stats.items - stats.known - stats.skipped : 0;
  const words = ask.only !== null ? `Every item was asked about: is it ${ask.only}?`
    : open > 0 ? `Nothing is left to ask here. ${counted(open, 'item')} without a label: open on `
      + 'another page, or none of the labels was right.'
    : stats?.unusable_count ? 'Every item that can be used has its answer.'
    : 'Every item has its answer.';
  const parts = [words_in_card(words)];
  if (stats?.unusable_count) {
    const thing = {image: 'file', text: 'text', row: 'row'}[root.dataset.kind];
    parts.push(words_in_card(
      `${counted(stats.unusable_count, thing)} cannot be used: see “How it is doing”.`));
  }
  if (stats?.guesses)
    parts.push(words_in_card(`It was wrong about ${percent(stats.error_recent)} of the last `
      + `${counted(Math.min(stats.guesses, 50), 'item')}.`));
  const links = Object.entries(
    {learner: 'The learner', csv: 'Answers as csv', parquet: 'Answers as Parquet'});
  parts.push(make('p', {className: 'end take'}, ...links.map(([name, words]) =>
    make('a', {href: `export/${name}?lesson=${lesson}`, download: '', className: 'plain', textContent: words}))));
  return parts;
}

function reveal() {
  clearTimeout(reveal_timer);
  if (!current || visible) return;
  visible = true;
  const is_question = current.kind === 'yes' || current.kind === 'no';
  by_id('ask').textContent =
    is_question ? 'Is it' : current.kind === 'again' ? 'Then it guesses' : 'It guesses';
  by_id('guess').textContent = current.label + (is_question ? '?' : '');
  by_id('sure').textContent = how_sure(current);
  const hints = [];
  if (current.explored && !is_question)
    hints.push(`It tries “${current.label}” to learn more about it; “${current.best}” seems likelier.`);
  if (current.ruled_out.length)
    hints.push(`Ruled out: ${current.ruled_out.map(x => `“${x}”`).join(', ')}.`);
  by_id('hint').textContent = hints.join(' ');
  set_words('right', is_question ? 'Yes' : 'Right');
  set_words('wrong', is_question ? 'No' : 'Wrong');
  show_scores();
  if (by_id('why').open) show_why();
  if (pressed !== null) {
    measure(pressed, current);
    pressed = null;
  }
}

// Of a question: which answer it expects. Of a guess that is more likely wrong than right: no word
// that sounds sure.
function how_sure({kind, sure, explored}) {
  if (sure === null) return 'no idea yet';
  if (kind === 'no') return `it expects no, ${percent(1 - sure)} sure`;
  if (kind === 'yes')
    return sure < 0.5 ? `the likeliest, at ${percent(sure)}` : `it expects yes, ${percent(sure)} sure`;
  if (explored) return `a try, ${percent(sure)} likely`;
  return sure < 0.5 ? `not sure: ${percent(sure)} likely` : `${percent(sure)} sure`;
}

// How long it took until the guess and its picture were painted.
async function measure(start, guess) {
  const image = by_id('card').querySelector('img');
  await image?.decode().catch(() => null);
  requestAnimationFrame(() => requestAnimationFrame(() => performance.measure('next guess', {
    start, detail: {item: guess.item.key, painted: !image || image.isConnected && image.complete},
  })));
}

function reveal_soon() {
  clearTimeout(reveal_timer);
  reveal_timer = setTimeout(reveal, WAIT);
}

const set_words = (name, words) => {
  document.querySelector(`#${name} .words`).textContent = words;
};
function show_scores() {
  const places = new Map(stats?.labels.map((label, i) => [label, i]));
  const shown = [...current.scores].sort(([a], [b]) => places.get(a) - places.get(b));
  by_id('scores').replaceChildren(...shown.map(([label, share]) => {
    const bar = make('span', {className: 'bar'});
    bar.style.setProperty('--share', percent(share));
    const row = make('li', {}, make('span', {className: 'label', textContent: label, dir: 'auto'}),
      bar, make('span', {className: 'share', textContent: percent(share)}));
    row.classList.toggle('said', label === current.label);
    return row;
  }));
}

async function show_why() {
  const guess = current;
  if (!guess) return;
  const answer = await call(`why/${guess.id}`).then(r => r.ok ? r.json() : null).catch(() => null);
  if (!answer || guess !== current) return;
  const parts = answer.parts.map(([name, size]) => make('li', {
    textContent: `${size > 0 ? 'for' : 'against'} ${guess.label}: ${name}`, dir: 'auto',
  }));
  by_id('parts').replaceChildren(...(parts.length ? parts
    : [make('li', {textContent: 'Nothing speaks for it yet.'})]));
}
by_id('why').addEventListener('toggle', () => by_id('why').open && show_why());

// The queue of what the server has to be told.

let queue = stored.get(`queue ${page}`, []);
let number = Math.max(0, ...queue.map(entry => entry.number));
let heard = 0; // the newest request that the server has answered
mark_done(queue);
let sending = false;
let online = true;
let trouble = ''; // why nothing can be saved now, if the server says so
let retry_after = 500;
let retry_timer = 0;
let round_trip = 0; // ms that an answer takes, on average

function mark_done(entries) {
  for (const entry of entries) if (entry.guess) done.set(entry.guess.place, entry.number);
}

function enqueue(path, body, guess = null) {
  queue.push({number: ++number, path, body, guess});
  keep_queue();
  send_all();
  return number;
}

function keep_queue() {
  if (queue.length) {
    stored.set(`queue ${page}`, queue);
    stored.set(`alive ${page}`, Date.now());
  } else {
    stored.remove(`queue ${page}`);
    stored.remove(`alive ${page}`);
  }
  show_saved();
}

// Answers of a page that was closed before they went out.
function adopt() {
  for (const name of stored.names()) {
    const other = name.startsWith('queue ') ? name.slice(6) : page;
    if (other === page || Date.now() - stored.get(`alive ${other}`, 0) < 20000) continue;
    const left = stored.get(name, []).map(entry => ({...entry, number: ++number}));
    stored.remove(name);
    stored.remove(`alive ${other}`);
    queue.push(...left);
    mark_done(left);
  }
  keep_queue();
  send_all();
}

const turn = () => ({
  page, browser, ask, seen: current && visible ? current.id : null,
  have: [...(current && !visible && !waiting_for ? [current] : []), ...next.slice(0, 16)]
    .map(guess => guess.id),
});

async function post(path, body) {
  return call(path, {
    method: 'POST', body: JSON.stringify(body), headers: {'content-type': 'application/json'},
  });
}

async function send_all() {
  if (sending) return;
  sending = true;
  clearTimeout(retry_timer);
  try {
    while (queue.length) {
      const entry = queue[0];
      const is_turn = ['answer', 'skip', 'undo'].includes(entry.path);
      const asked = asking;
      const start = performance.now();
      const response = await post(entry.path, is_turn ? {...turn(), ...entry.body} : entry.body);
      const answer = await response.json();
      if (is_for_later(response, answer)) throw new Error(answer.detail);
      round_trip = 0.7 * round_trip + 0.3 * (performance.now() - start);
      queue.shift();
      heard = entry.number;
      keep_queue();
      say_online(true);
      if (response.ok) {
        if (is_turn) take(answer.guesses, entry, asked);
      } else {
        complain(`Not saved: ${answer.detail}`);
        if (is_turn && !current) fill();
      }
      refresh();
    }
  } catch (error) {
    say_online(false, error);
    retry_timer = setTimeout(send_all, retry_after);
    retry_after = Math.min(2 * retry_after, 4000);
  } finally {
    sending = false;
    show_saved();
  }
}

// The server cannot take any answer now, or not from this page: it was started again with another
// secret, or for another lesson. The answer itself is not to blame, and must not be lost.
const is_for_later = (response, answer) => response.status >= 500
  || [401, 403].includes(response.status) || answer.type === 'urn:onebit:other-lesson';

// error: its words are the server's, unless it comes from `fetch`, or from an answer without JSON.
function say_online(is_online, error = null) {
  online = is_online;
  trouble = error?.name === 'Error' ? error.message : '';
  if (is_online) retry_after = 500;
  show_saved();
}

function show_saved() {
  const waiting = queue.length;
  const saved = by_id('saved');
  saved.classList.toggle('waiting', !online);
  if (!online)
    saved.textContent = (trouble ? `The server says: ${trouble}.` : 'No connection.')
      + (waiting ? ` ${waiting} not yet saved; kept in this browser` : '');
  else if (waiting < 2) saved.textContent = `Everything is saved in ${root.dataset.journal}`;
  else saved.textContent = `Saving ${waiting} …`;
}

function complain(words) {
  by_id('alert').textContent = words;
  by_id('alert').hidden = !words;
}

// Guesses that come from the server.

// asked: what was wanted when they were asked for; a person may want something else by now.
function take(guesses, entry, asked) {
  if (asked !== asking && entry.path !== 'undo') {
    if (waiting_for === entry.number) waiting_for = 0;
    return;
  }
  ended = guesses.length === 0;
  const returns = entry.path === 'undo' || entry.expects === 'again';
  const fresh = guesses.filter(guess => (done.get(guess.place) ?? 0) <= entry.number);
  const places = new Set(fresh.map(guess => guess.place));
  if (returns && fresh.length && waiting_for === entry.number) {
    const [first, ...others] = fresh;
    if (current && current.place !== first.place) next.unshift(current);
    next = merged(next.filter(guess => guess.place !== first.place), others);
    waiting_for = 0;
    show(first);
    reveal();
    return;
  }
  if (waiting_for === entry.number) waiting_for = 0;
  next = merged(next.filter(guess => places.has(guess.place)), fresh);
  if (waiting_for) return; // what is on the screen is answered already
  if (current && !visible) {
    const newer = fresh.find(guess => guess.place === current.place);
    if (newer) current = newer;
    next = next.filter(guess => guess.place !== current.place);
    reveal();
  } else if (!current) {
    advance();
    reveal();
  }
}

// The guesses that are held, replaced by newer ones at the same items, and further ones after them.
function merged(held, fresh) {
  const newer = new Map(fresh.map(guess => [guess.place, guess]));
  const kept = held.map(guess => newer.get(guess.place) ?? guess);
  for (const guess of kept) newer.delete(guess.place);
  if (current) newer.delete(current.place);
  return [...kept, ...newer.values()];
}

let waiting_for = 0; // the request whose guess is shown next
let asking = 0; // counts changes of what is asked

let fill_timer = 0;
let filling = 0; // the newest request for guesses; answers to older ones are of no use

async function fill() {
  // The server may not know of answers that are under way: its guesses at those items are stale.
  // Once it has answered one of them, all of these guesses are.
  const request = ++filling, asked = asking, known = heard;
  try {
    const response = await post('ahead', turn());
    const answer = await response.json();
    if (is_for_later(response, answer)) throw new Error(answer.detail);
    if (request !== filling) return;
    say_online(true);
    if (!response.ok) complain(answer.detail);
    else if (heard === known) take(answer.guesses, {path: 'ahead', number: known}, asked);
    else fill();
  } catch (error) {
    say_online(false, error);
    clearTimeout(fill_timer);
    fill_timer = setTimeout(() => !current && !waiting_for && fill(), retry_after);
    retry_after = Math.min(2 * retry_after, 4000);
  }
}

function advance() {
  show(next.shift() ?? null);
}

// What a person does.

function can_act() {
  return current && visible && !waiting_for && !document.querySelector('dialog[open]');
}

function answer(body) {
  if (!can_act()) return;
  pressed = performance.now();
  complain('');
  const guess = current;
  remember(guess);
  const again = body.right === false && guess.kind === 'free' && ask.again && ask.only === null;
  flash(body.right === false ? 'wrong' : body.right ? 'right' : 'named');
  const sent = enqueue('answer', {id: guess.id, who: who(), ...body}, guess);
  done.set(guess.place, sent);
  const entry = queue.find(entry => entry.number === sent);
  if (again && online) {
    if (entry) entry.expects = 'again';
    waiting_for = sent;
    visible = false;
    by_id('guess').textContent = '…';
    setTimeout(() => waiting_for === sent && go_on(), PATIENCE);
    return;
  }
  go_on();
}

function go_on() {
  waiting_for = 0;
  advance();
  if (sending && online && round_trip < WAIT) reveal_soon();
  else reveal(); // a newer guess would come too late
}

function skip() {
  if (!can_act()) return;
  pressed = performance.now();
  const guess = current;
  remember(guess);
  done.set(guess.place, enqueue('skip', {id: guess.id}, guess));
  go_on();
}

// A page that is loaded again can undo what it did before, also a skip.
function kept_history() {
  try {
    return JSON.parse(sessionStorage.getItem(`onebit teach history ${lesson} ${page}`) ?? '[]')
      .map(id => ({id}));
  } catch {
    return [];
  }
}

function keep_history() {
  try {
    const ids = history.slice(-100).map(({id}) => id);
    sessionStorage.setItem(`onebit teach history ${lesson} ${page}`, JSON.stringify(ids));
  } catch { /* no storage, or full */ }
}

function remember(guess) {
  history.push({id: guess.id, guess});
  keep_history();
}

function undo() {
  if (waiting_for) return;
  const last = history.pop() ?? {id: stats?.mine.shift()};
  if (!last.id) return complain('There is nothing to undo.');
  keep_history();
  complain('');
  take_back(last.id, last.guess);
}

function take_back(id, guess = null) {
  const at = queue.findIndex(entry => entry.body.id === id && entry.path !== 'revise');
  const is_under_way = sending && at === 0;
  if (at >= 0 && !is_under_way && guess) { // the server has not heard of it
    queue.splice(at, 1);
    keep_queue();
    done.delete(guess.place);
    if (current) next.unshift(current);
    show(guess);
    reveal();
    return;
  }
  if (stats) stats.mine = stats.mine.filter(known => known !== id);
  const sent = enqueue('undo', {id});
  if (guess) done.set(guess.place, sent);
  if (!online) return;
  waiting_for = sent;
  pressed = performance.now();
  setTimeout(() => {
    if (waiting_for === sent) waiting_for = 0;
  }, PATIENCE);
}

function name_label(label) {
  if (!can_act()) return;
  if (!stats.labels.includes(label)) add_label(label);
  answer({label});
}

function add_label(label) {
  enqueue('labels', {add: [label]});
}

function flash(kind) {
  const card = by_id('card');
  card.classList.remove('right', 'wrong', 'named');
  void card.offsetWidth; // so that the same animation starts again
  card.classList.add(kind);
}

const act = {right: () => answer({right: true}), wrong: () => answer({right: false}), skip, undo};

for (const button of document.querySelectorAll('[data-action]'))
  button.addEventListener('click', event => {
    act[button.dataset.action]();
    if (event.detail) by_id('stage').focus({preventScroll: true}); // not for a key on the button
  });

by_id('name-label').addEventListener('submit', event => {
  event.preventDefault();
  const guess = current;
  choose_label(by_id('label').value, stats.labels, guess !== null, label => {
    if (guess !== current) return; // it was answered elsewhere meanwhile
    (guess ? name_label : add_label)(label);
    by_id('label').value = '';
    by_id('stage').focus({preventScroll: true});
  });
});
by_id('add-label').addEventListener('click', () =>
  choose_label(by_id('label').value, stats.labels, false, label => {
    if (!stats.labels.includes(label)) add_label(label);
    by_id('label').value = '';
  }));
by_id('start').addEventListener('submit', async event => {
  event.preventDefault();
  const add = by_id('first-labels').value.split(',').map(x => x.trim()).filter(Boolean);
  if (!add.length) return complain('Name two labels or more, with commas between them.');
  try {
    const response = await post('labels', {add});
    complain(response.ok ? '' : (await response.json()).detail);
  } catch {
    complain('The connection is lost.');
  }
  refresh();
});

// The name of the person, unless the server has refused it.
let refused = null;
const typed = () => by_id('who').value.trim();
const who = () => typed() === refused ? '' : typed();
by_id('who').value = shared.get('who', '');
by_id('who').addEventListener('change', async () => {
  const name = typed();
  shared.set('who', name);
  const response = await call(`name?${new URLSearchParams({who: name})}`).catch(() => null);
  if (name !== typed() || !response) return; // without a connection, it is checked with the answer
  const answer = await response.json();
  refused = response.status === 422 ? name : null;
  by_id('who').ariaInvalid = refused !== null;
  complain(refused === null ? '' : `This name is not used: ${answer.detail}.`);
});

// What is asked.

function asked_anew() {
  asking++;
  stored.set('ask', ask);
  next = [];
  ended = false;
  if (current && ask.only !== null !== (current.kind === 'yes' || current.kind === 'no'))
    show(null);
  fill();
}
by_id('order').value = ask.order;
by_id('order').addEventListener('change', () => {
  ask.order = by_id('order').value;
  asked_anew();
});
by_id('again').checked = ask.again;
by_id('again').addEventListener('change', () => {
  ask.again = by_id('again').checked;
  stored.set('ask', ask);
});
by_id('only').addEventListener('change', () => {
  const at = Number(by_id('only').value);
  ask.only = at < 0 ? null : stats.labels[at];
  show(null);
  asked_anew();
});

// Numbers, labels and the last answers.

let refreshing = false;
let stale = false;

async function refresh() {
  stale = true;
  if (refreshing) return;
  refreshing = true;
  try {
    while (stale) {
      stale = false;
      const response = await call(`stats?browser=${browser}`);
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.detail);
      if (!queue.length) say_online(true);
      show_stats(answer);
    }
  } catch (error) {
    say_online(false, error);
  } finally {
    refreshing = false;
  }
}

function show_stats(fresh) {
  const before = stats;
  stats = fresh;
  by_id('start').hidden = stats.open;
  by_id('work').hidden = !stats.open;
  if (before === null) by_id('intro').hidden = stats.answers >= 10; // later, buttons would move
  root.classList.toggle('begun', stats.answers > 0);
  root.classList.toggle('open', stats.open);
  root.classList.toggle('unready', !stats.ready);
  if (!stats.open && before === null) {
    by_id('first-labels').value = stats.suggested.join(', ');
    by_id('first-labels').focus();
    show_samples();
  }
  if (stats.open && ask.only !== null && !stats.labels.includes(ask.only)) {
    ask.only = null; // the label of an earlier lesson
    stored.set('ask', ask);
  }
  if (stats.open && !stats.ready) {
    if (current) return; // the server was started again
    root.classList.add('idle');
    by_id('card').replaceChildren(
      words_in_card('Getting ready. The first start takes up to a minute.'));
    return;
  }
  if (stats.open && stats.ready && !(before?.open && before.ready)) fill();
  if (shown_labels !== String(stats.labels)) show_labels();
  if (before?.labels.some(label => !stats.labels.includes(label))) { // renamed or removed
    if (current && !waiting_for) show(null);
    asked_anew();
  }
  show_panels(stats, revise,
    row => change_label(row, stats.labels, to => enqueue('relabel', {label: row.label, to})));
  if (ended && !current) show(null);
  if (before?.guesses !== stats.guesses || before.version !== stats.version) show_curve(stats);
}

let shown_labels = null;

function show_labels() {
  if (!stats) return;
  shown_labels = String(stats.labels);
  const shortcuts = keys_of_labels();
  by_id('chips').replaceChildren(...stats.labels.slice(0, SHOWN_AS_CHIPS).map(label => {
    const chip = make('button', {type: 'button', className: 'chip'},
      make('span', {textContent: label, dir: 'auto'}));
    const key = shortcuts.get(label);
    if (key !== undefined && key !== String(label))
      chip.append(' ', make('kbd', {textContent: key}));
    chip.addEventListener('click', event => {
      name_label(label);
      if (event.detail) by_id('stage').focus({preventScroll: true});
    });
    return chip;
  }));
  by_id('labels').replaceChildren(...stats.labels.map(label => make('option', {value: label})));
  by_id('only').replaceChildren(make('option', {value: -1, textContent: 'what is it?'}),
    ...stats.labels.map((label, i) => make('option', {value: i, textContent: `is it ${label}?`})));
  by_id('only').value = ask.only === null ? -1 : stats.labels.indexOf(ask.only);
  by_id('revise-label').replaceChildren(make('option', {value: '', textContent: 'choose a label'}),
    ...stats.labels.map((label, i) => make('option', {value: i, textContent: label})));
  choose_revision();
}

// Changing an answer.

let revised = null;

// Nothing is chosen beforehand: saving what nobody has looked at could turn wrong into right.
function choose_revision(label = '') {
  by_id('revise-label').value = label;
  by_id('revise-save').disabled = label === '';
}
by_id('revise-label').addEventListener('change', event => choose_revision(event.target.value));

function revise(lesson) {
  revised = lesson;
  const image = lesson.picture ? make('img', {src: lesson.picture, alt: lesson.title}) : '';
  by_id('revised').replaceChildren(image, make('p', {dir: 'auto', textContent:
    `${lesson.title}: ${question(lesson)}, and the answer was ${verdict(lesson)}.`}));
  choose_revision();
  const is_question = lesson.kind === 'yes' || lesson.kind === 'no';
  for (const [name, words] of [['right', is_question ? 'Yes' : 'Right'],
    ['wrong', is_question ? 'No' : 'Wrong']])
    document.querySelector(`[data-revise=${name}] .words`).textContent = words;
  by_id('revise').showModal();
}

for (const button of document.querySelectorAll('[data-revise]'))
  button.addEventListener('click', () => {
    by_id('revise').close();
    const kind = button.dataset.revise, id = revised.id;
    if (kind === 'undo') {
      const at = history.findIndex(done => done.id === id);
      const [known] = at < 0 ? [null] : history.splice(at, 1);
      keep_history();
      take_back(id, known?.guess);
    } else if (kind === 'label') {
      enqueue('revise', {id, label: stats.labels[Number(by_id('revise-label').value)]});
    } else if (kind !== 'close') {
      enqueue('revise', {id, right: kind === 'right'});
    }
  });

// News from the server: a stream of events, or a look every few seconds.

let poll_timer = 0;

function listen() {
  if (!('EventSource' in window)) return poll();
  const events = new EventSource(`events?page=${page}&lesson=${lesson}`);
  events.addEventListener('open', () => {
    clearInterval(poll_timer);
    poll_timer = 0;
    say_online(true);
    send_all();
    if (!current && !waiting_for && stats?.ready && !queue.length) fill();
  });
  events.addEventListener('message', event => {
    if (Number(event.data) === stats?.version && online) return;
    refresh();
    send_all(); // the server may be able to save again
    if (!current && !waiting_for && stats?.ready) fill(); // somebody may have undone an answer
  });
  events.addEventListener('error', () => {
    poll();
    refresh(); // which says whether the server is gone, or only its events
    if (events.readyState === EventSource.CLOSED) {
      events.close();
      setTimeout(listen, 5000);
    }
  });
}

function poll() {
  if (!poll_timer)
    poll_timer = setInterval(async () => {
      await refresh();
      send_all();
      if (!current && !waiting_for && stats?.ready && !queue.length) fill();
    }, 3000);
}

setInterval(adopt, 10000);
start_keys({
  ...act, name_label: text => name_label(known_label(text, stats.labels)),
  labels: () => stats?.labels ?? [], keys_changed: show_labels,
});
show_saved();
adopt();
listen();
refresh();
