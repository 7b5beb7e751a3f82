// What all scripts of the teach page share: making elements, words, and what the browser keeps.

export const by_id = id => document.getElementById(id);
export const root = document.querySelector('.teach');

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export const percent = share => `${Math.round(100 * share)}%`;
export const counted = (count, thing) =>
  `${count.toLocaleString('en')} ${thing}${count === 1 ? '' : 's'}`;

// Every request says for which lesson it is: another one may be at the same address later.

export const lesson = root.dataset.lesson;
export const call = (address, options = {}) =>
  fetch(address, {...options, headers: {...options.headers, 'onebit-lesson': lesson}});

// What the browser keeps. Without storage, everything works until the page is closed.

const storage = prefix => ({
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(prefix + name)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(prefix + name, JSON.stringify(value));
    } catch { /* private mode, or full */ }
  },
  remove(name) {
    try {
      localStorage.removeItem(prefix + name);
    } catch { /* as above */ }
  },
  names() {
    try {
      return Object.keys(localStorage).filter(name => name.startsWith(prefix))
        .map(name => name.slice(prefix.length));
    } catch {
      return [];
    }
  },
});
export const stored = storage(`onebit teach ${lesson} `); // of this lesson
export const shared = storage('onebit teach '); // of this browser, for all lessons

function random_name() {
  return [...crypto.getRandomValues(new Uint8Array(8))]
    .map(x => x.toString(16).padStart(2, '0')).join('');
}

// Undo takes back what was answered in this browser.
export const browser = shared.get('browser', null) ?? random_name();
shared.set('browser', browser);

function page_name() {
  const fresh = random_name(), name = `onebit teach page ${lesson}`;
  try {
    // A duplicated tab copies this name; only a reload may go on with it.
    const is_reload = performance.getEntriesByType('navigation')[0]?.type === 'reload';
    const known = is_reload && sessionStorage.getItem(name);
    sessionStorage.setItem(name, known || fresh);
    return known || fresh;
  } catch {
    return fresh;
  }
}

export const page = page_name();
