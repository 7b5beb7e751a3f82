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

// What the browser keeps. Without storage, everything works until the page is closed.

const prefix = `onebit teach ${root.dataset.journal} `;
export const stored = {
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
};

function page_name() {
  const fresh = [...crypto.getRandomValues(new Uint8Array(8))].map(x => x.toString(16)).join('');
  try {
    // A duplicated tab copies this name; only a reload may go on with it.
    const is_reload = performance.getEntriesByType('navigation')[0]?.type === 'reload';
    const known = is_reload && sessionStorage.getItem('onebit teach page');
    sessionStorage.setItem('onebit teach page', known || fresh);
    return known || fresh;
  } catch {
    return fresh;
  }
}

export const page = page_name();
