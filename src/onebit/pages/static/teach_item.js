// An item on the card: a picture, a text, or the fields of a row.

import {make} from './teach_basics.js';

const pictures = new Map(); // by address: loaded ahead

export function picture(item) {
  if (!item.picture) return null;
  let image = pictures.get(item.picture);
  if (!image) {
    image = make('img', {alt: item.title, draggable: false, src: item.picture});
    image.addEventListener('error', () => {
      pictures.delete(item.picture);
      image.replaceWith(make('p', {className: 'note', textContent: `No picture of ${item.title}`}));
    });
    pictures.set(item.picture, image);
    while (pictures.size > 40) pictures.delete(pictures.keys().next().value);
  }
  return image;
}

export function item_parts(item) {
  if (item.kind === 'image') {
    const title = make('p', {className: 'title', textContent: item.title, dir: 'auto'});
    return [picture(item), title];
  }
  const parts = [];
  if (item.text) parts.push(make('p', {className: 'text', textContent: item.text, dir: 'auto'}));
  const fields = Object.entries(item.fields).filter(([, value]) => value !== item.text);
  if (fields.length)
    parts.push(make('dl', {className: 'fields'}, ...fields.flatMap(([name, value]) => [
      make('dt', {textContent: name, dir: 'auto'}), make('dd', {textContent: value, dir: 'auto'}),
    ])));
  return [make('div', {className: 'scrolls', tabIndex: 0, role: 'group', ariaLabel: 'The item'},
    ...parts)];
}
