// A dashboard that follows its journal. The page as loaded is complete without this script, unless
// the service asks for tokens.
(() => {
  const parts = document.getElementById('parts');
  const live = document.getElementById('live');
  const pause = document.getElementById('pause');
  const forget = document.getElementById('forget');
  const login = document.getElementById('login');
  const trouble = document.getElementById('trouble');
  const KEY = 'onebit-token';
  // Milliseconds. The server says something every five seconds, also when nothing is new.
  const WAIT = 1000, POLL = 3000, RETRY = 5000, SILENT = 15000, LONGEST = 30000;
  let query = new URLSearchParams(location.search);
  let mark = '', stream = null, shown = new Map();
  let running = false, again = false, timer = 0;
  let fetched = 0, answered = false;  // when the parts were asked for last, and whether they came

  // Requests carry the token of this tab, if there is one.

  const ask = (address, options = {}) => {
    const token = sessionStorage.getItem(KEY);
    const headers = {...options.headers, ...(token ? {Authorization: `Bearer ${token}`} : {})};
    return fetch(address, {...options, headers, cache: 'no-store', credentials: 'omit'});
  };

  const explain = async answer => {
    try {
      return (await answer.json()).detail;
    } catch {
      return `The server answered ${answer.status}.`;
    }
  };

  const say = (words, follows = false) => {
    if (live.textContent !== words) live.textContent = words;
    live.toggleAttribute('data-follows', follows);
  };

  const complain = words => {
    trouble.hidden = !words;
    if (trouble.textContent !== words) trouble.textContent = words;
  };

  const ask_for_token = words => {
    login.hidden = false;
    pause.hidden = forget.hidden = true;
    parts.replaceChildren();
    shown.clear();
    mark = '';
    document.getElementById('refused').textContent = sessionStorage.getItem(KEY) ? words : '';
    say('');
    document.getElementById('token').focus();
  };

  login.addEventListener('submit', event => {
    event.preventDefault();
    const field = document.getElementById('token');
    sessionStorage.setItem(KEY, field.value.trim());
    field.value = '';
    start();
  });

  forget.addEventListener('click', () => {
    sessionStorage.removeItem(KEY);
    stop();
    ask_for_token('');
  });

  // New numbers: only parts that differ are replaced, and none that somebody is busy with.

  const focused_in = part =>
    part.contains(document.activeElement) ? document.activeElement : null;
  const is_busy = part => Boolean(focused_in(part)?.matches('input, select, .scroll'))
    || (!tip.hidden && part.matches(':hover'));

  const replace = html => {
    const fresh = new DOMParser().parseFromString(html, 'text/html');
    const found = [...fresh.querySelectorAll('[data-part]')];
    if (!parts.querySelector('[data-part]')) {
      parts.replaceChildren(...fresh.body.childNodes);
      adopt(parts);
      for (const part of found) shown.set(part.dataset.part, part.outerHTML);
      return;
    }
    for (const part of found) {
      const name = part.dataset.part, text = part.outerHTML;
      const old = parts.querySelector(`[data-part="${name}"]`);
      if (!old || 'keep' in part.dataset || shown.get(name) === text || is_busy(old)) continue;
      shown.set(name, text);
      const control = focused_in(old)?.getAttribute('aria-label');
      old.replaceWith(part);
      adopt(part);
      // The button or link that was pressed last keeps the focus.
      if (control)
        part.querySelector(`[aria-label="${CSS.escape(control)}"]`)?.focus({preventScroll: true});
    }
  };

  const fetch_parts = async () => {
    if (running) { again = true; return; }
    running = true;
    clearTimeout(timer);
    timer = 0;
    fetched = Date.now();
    let soon = 0;
    answered = false;
    try {
      query.set('only', 'parts');
      const headers = mark ? {'If-None-Match': mark} : {};
      const signal = AbortSignal.timeout(LONGEST);
      const answer = await ask(`${parts.dataset.address}?${query}`, {headers, signal});
      if (answer.status === 401 || answer.status === 403) {
        stop();
        ask_for_token(await explain(answer));
        return;
      }
      if (answer.ok) {
        mark = answer.headers.get('ETag') || '';
        replace(await answer.text());
        login.hidden = true;
        pause.hidden = false;
        forget.hidden = !sessionStorage.getItem(KEY);
      } else if (answer.status !== 304) {
        complain(await explain(answer));
        return;
      }
      answered = true;
      complain('');
      if (parts.querySelector('[data-unread]')) soon = 50;  // the journal is long: go on reading
      else if (parts.querySelector('[data-later]')) soon = WAIT;
    } catch {
      soon = RETRY;
      complain('The server does not answer. The numbers are those of the last answer.');
    } finally {
      running = false;
      if (soon) fetch_in(soon);
      else if (again) fetch_soon();
      again = false;
    }
  };

  const fetch_in = wait => {
    clearTimeout(timer);
    timer = setTimeout(fetch_parts, wait);
  };

  // Once a second at most. What comes meanwhile must not put it off.
  const fetch_soon = () => {
    if (!timer) fetch_in(Math.max(0, fetched + WAIT - Date.now()));
  };

  // Events say that there is something new. fetch is used, since EventSource sends no token.

  const is_paused = () => pause.getAttribute('aria-pressed') === 'true';

  const listen = async () => {
    const mine = stream = new AbortController();
    const address = parts.dataset.events;
    let alarm = 0;
    const expect_news = () => { alarm = setTimeout(() => mine.abort(), SILENT); };
    try {
      if (!address || !window.ReadableStream) throw new Error('no events here');
      expect_news();
      const answer = await ask(address, {signal: mine.signal});
      if (!answer.ok || !answer.body) throw new Error(answer.status);
      complain('');
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = '';;) {
        const {value, done} = await reader.read();
        clearTimeout(alarm);
        if (done) break;
        expect_news();
        const events = (text + value).split('\n\n');
        text = events.pop();
        const news = events.findLast(event => event.startsWith('data:'));
        if (!news) continue;
        if (news.endsWith('finished')) say('Not live: no service writes to this journal');
        else say('Live', true);
        if (!document.hidden) fetch_soon();
      }
      if (stream === mine) listen();  // a stream ends after a while
    } catch {
      clearTimeout(alarm);
      if (stream !== mine) return;
      if (live.textContent) say('Not live');
      poll(mine, Date.now() + RETRY);
    }
  };

  const poll = async (mine, until) => {
    if (stream !== mine) return;
    if (!document.hidden) await fetch_parts();
    if (stream !== mine) return;
    say(answered ? `Updated every ${POLL / 1000} seconds` : 'Not live', answered);
    if (parts.dataset.events && Date.now() > until) listen();
    else setTimeout(poll, POLL, mine, until);
  };

  const stop = () => {
    stream?.abort();
    stream = null;
    clearTimeout(timer);
    timer = 0;
  };

  const start = async () => {
    stop();
    await fetch_parts();
    if (login.hidden && !is_paused()) listen();
  };

  pause.addEventListener('click', () => {
    pause.setAttribute('aria-pressed', String(!is_paused()));
    pause.textContent = is_paused() ? 'Go on' : 'Pause';
    if (is_paused()) { stop(); say('Paused'); } else start();
  });

  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && stream) fetch_parts();
  });

  // Files: charts as SVG and PNG, tables as csv.

  const save = (data, name) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(data);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const ATTRIBUTES = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray',
    'stroke-linejoin', 'opacity', 'font-family', 'font-size', 'font-weight', 'text-anchor'];

  // A chart that needs no style sheet: computed styles become attributes.
  const alone = chart => {
    const copy = chart.cloneNode(true);
    const from = [chart, ...chart.querySelectorAll('*')];
    [copy, ...copy.querySelectorAll('*')].forEach((element, i) => {
      const style = getComputedStyle(from[i]);
      for (const name of ATTRIBUTES) element.setAttribute(name, style.getPropertyValue(name));
      for (const name of ['class', 'data-line', 'data-c', 'id']) element.removeAttribute(name);
    });
    const {width, height} = chart.viewBox.baseVal;
    const name = document.createElementNS('http://www.w3.org/2000/svg', 'title');
    name.textContent = chart.getAttribute('aria-label');
    const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    ground.setAttribute('width', width);
    ground.setAttribute('height', height);
    ground.setAttribute('fill', getComputedStyle(document.body).backgroundColor);
    copy.prepend(name, ground);
    copy.removeAttribute('aria-describedby');
    copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    copy.setAttribute('width', width);
    copy.setAttribute('height', height);
    const text = new XMLSerializer().serializeToString(copy);
    return new Blob([text], {type: 'image/svg+xml'});
  };

  const as_png = async (picture, width, height) => {
    const address = URL.createObjectURL(picture);
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    return new Promise(done => canvas.toBlob(done, 'image/png'));
  };

  const offer = place => {
    const charts = () => [...place.closest('.panel').querySelectorAll('.chart')];
    const visible = () => charts().find(chart => chart.getBoundingClientRect().width);
    if (!charts().length) return;
    for (const kind of ['PNG', 'SVG']) {
      const button = Object.assign(document.createElement('button'), {type: 'button'});
      button.textContent = kind;
      const title = place.closest('.panel').querySelector('h2').textContent;
      button.setAttribute('aria-label', `${title} as ${kind}`);
      button.addEventListener('click', async () => {
        const chart = visible(), picture = alone(chart), size = chart.viewBox.baseVal;
        const data = kind === 'SVG' ? picture : await as_png(picture, size.width, size.height);
        save(data, `${place.dataset.name}.${kind.toLowerCase()}`);
      });
      place.prepend(button);
    }
  };

  // With a token, a plain link would not do: fetch the file.
  const fetch_file = async event => {
    if (!sessionStorage.getItem(KEY)) return;
    event.preventDefault();
    const link = event.currentTarget, answer = await ask(link.href);
    if (!answer.ok) { complain(await explain(answer)); return; }
    const named = /filename\*=UTF-8''(.*)/.exec(answer.headers.get('Content-Disposition') || '');
    save(await answer.blob(), named ? decodeURIComponent(named[1]) : 'numbers.csv');
  };

  // What a new part needs.

  const find = form => {
    query = new URLSearchParams(new FormData(form));
    const kept = query.get('label') || query.get('order') !== 'said' ? `?${query}` : '';
    history.replaceState(null, '', location.pathname + kept);
    mark = '';
    fetch_parts();
  };

  const adopt = root => {
    const all = selector => [...root.querySelectorAll(selector),
      ...(root.matches(selector) ? [root] : [])];
    all('.panel').forEach(enliven);
    all('.save').forEach(offer);
    all('a[download]').forEach(link => link.addEventListener('click', fetch_file));
    for (const form of all('#search')) {
      form.querySelector('button').hidden = true;
      form.addEventListener('submit', event => { event.preventDefault(); find(form); });
      form.addEventListener('input', () => {
        clearTimeout(form.waiting);
        form.waiting = setTimeout(find, 200, form);
      });
    }
  };

  adopt(parts);
  start();
})();
