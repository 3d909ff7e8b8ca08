// The flame graph's viewer. It draws only boxes that are at least a pixel wide, from columns in preorder: a narrow box is passed over
// together with all that stands on it, so the cost follows the boxes on the screen. Names are hostile and only ever become text nodes.
(function () {
  'use strict';
  const SVG = 'http://www.w3.org/2000/svg';
  const XHTML = 'http://www.w3.org/1999/xhtml';
  const ROW = 18;
  const MARGIN = 10;
  const LEAST = 1;

  const root = document.getElementById('procprof');
  const layer = document.getElementById('procprof-boxes');
  const head = document.getElementById('procprof-head');
  const title = document.getElementById('procprof-title');
  const details = document.getElementById('procprof-details');
  const data = JSON.parse(document.getElementById('procprof-data').textContent);
  const titleText = title.textContent;
  const headings = [...head.querySelectorAll('.fact, .remark')].filter((line) => line !== details).map((line) => [line, line.textContent]);
  const count = data.depth.length;

  // Where each box begins and ends, and how many frames lie before it.
  const parent = new Int32Array(count).fill(-1);
  const end = new Int32Array(count).fill(count);
  const left = new Float64Array(count);
  const before = new Float64Array(count + 1);
  (function place() {
    const open = [];
    const next = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      while (open.length > data.depth[i]) end[open.pop()] = i;
      if (open.length) {
        parent[i] = open[open.length - 1];
        left[i] = next[parent[i]];
        next[parent[i]] += Math.max(0, data.total[i]);
      }
      next[i] = left[i];
      open.push(i);
      before[i + 1] = before[i] + (data.frame[i] < 0 ? data.flat[i] : 1);
    }
  })();

  const state = { zoom: 0, search: '', layout: data.layout, focus: -1, help: false };
  let hits = null;
  let found = 0;
  let drawn = [];
  let elements = new Map();
  let glyph = 7;

  // Texts, as amount.rs writes them.
  const STEPS = {
    time: [[1e3, 1, 'ns'], [1e6, 1e3, '\u00b5s'], [1e9, 1e6, 'ms'], [120e9, 1e9, 's'], [7200e9, 60e9, 'min'], [Infinity, 3600e9, 'h']],
    bytes: [[1024, 1, 'B'], [1048576, 1024, 'KiB'], [1073741824, 1048576, 'MiB'], [1099511627776, 1073741824, 'GiB'],
      [Infinity, 1099511627776, 'TiB']],
  };
  function grouped(number) {
    return String(number).replace(/\B(?=(\d{3})+$)/g, ',');
  }
  function amount(value) {
    const sign = value < 0 ? '-' : '';
    const steps = STEPS[data.family];
    if (!steps) return sign + grouped(Math.abs(value)) + (data.unit ? ' ' + data.unit : '');
    if (!value) return data.family === 'time' ? '0 s' : '0 B';
    const base = Math.abs(value) * data.factor;
    const step = steps.find((step) => base < step[0]);
    const scaled = base / step[1];
    const whole = base < steps[0][0] && base % 1 === 0;
    return sign + scaled.toFixed(whole || scaled >= 100 ? 0 : scaled < 10 ? 2 : 1) + ' ' + step[2];
  }
  function percent(value, total) {
    if (!total || !value) return '0%';
    if (value === total) return '100%';
    const share = value / total * 100;
    if (share < 100 && share >= 99.995) return '>99.99%';
    return Math.abs(share) < 0.005 ? '<0.01%' : share.toFixed(2) + '%';
  }
  function name(i) {
    if (data.frame[i] >= 0) return data.names[data.frame[i]];
    return '\u2026 ' + grouped(data.flat[i]) + (data.flat[i] === 1 ? ' frame, ' : ' frames, ') + percent(data.total[i], data.total[0]);
  }
  function kind(i) {
    const label = data.kinds[data.classes[2 * data.frame[i]]];
    return label + ['', ', partly inlined', ', inlined'][data.inlined[i]];
  }
  function facts(i) {
    const parts = [amount(data.total[i]) + ' ' + data.what, percent(data.total[i], data.total[0]) + ' of all'];
    if (i > 0) parts.push(percent(data.total[i], data.total[parent[i]]) + ' of parent');
    if (i > 0 && data.frame[i] >= 0) parts.push('self ' + amount(data.flat[i]), 'depth ' + data.depth[i], kind(i));
    return parts.join(' \u00b7 ');
  }
  function tooltip(i) {
    const remark = data.remarks[data.frame[i]];
    return name(i) + '\n' + facts(i) + (remark ? '\n' + remark : '');
  }
  function runFacts(run) {
    const total = run.total;
    return '\u2026 ' + grouped(run.frames) + (run.frames === 1 ? ' frame, ' : ' frames, ') + percent(total, data.total[0]) + '\n' + amount(total) + ' ' + data.what +
      ' \u00b7 too narrow to draw one by one: zoom in';
  }

  // A name without arguments and type parameters.
  function plain(text) {
    let out = '';
    let depth = 0;
    for (const c of text) {
      const opens = c === '<' && out !== '' || c === '[' && /\w$/.test(out) || c === '(' && /[\w>\]]$/.test(out);
      if (depth ? '<[('.includes(c) : opens) depth++;
      else if (depth && (c === ')' || c === ']' || c === '>')) depth--;
      else if (!depth) out += c;
    }
    return depth || !out ? text : out.replace(/::(?:::)+/g, '::').replace(/::$/, '');
  }
  function columns(text) {
    let sum = 0;
    for (const c of text) sum += c.codePointAt(0) > 0x2e7f ? 2 : 1;
    return sum;
  }
  function cut(text, room) {
    if (columns(text) <= room) return text;
    let out = '';
    let sum = 1;
    for (const c of text) {
      sum += c.codePointAt(0) > 0x2e7f ? 2 : 1;
      if (sum > room) break;
      out += c;
    }
    return out + '\u2026';
  }
  // The name as it fits: whole, plain, then with fewer and fewer of its first steps (namespaces, paths, packages), at last cut off.
  const STEP = /^(?:[^:\s]*::|[^/]*\/|[\w$]+\.(?!part|cold|isra|constprop|llvm|\d))(?=.)/;
  function fit(text, room) {
    if (room < 2) return '';
    if (columns(text) <= room) return text;
    let short = text[0] === '[' ? text : plain(text);
    while (columns(short) > room) {
      const step = STEP.exec(short);
      if (!step) break;
      short = short.slice(step[0].length);
    }
    return columns(short) <= room ? short : room < 3 ? '' : cut(short, room);
  }

  function element(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    made.append(...children);
    return made;
  }
  function html(tag, attributes, ...children) {
    const made = document.createElementNS(XHTML, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    made.append(...children);
    return made;
  }
  function text(content) {
    return document.createTextNode(content);
  }

  // The bar with search, reset, flip and help.
  const search = html('input', { type: 'search', placeholder: 'Search (regular expression)  /', 'aria-label': 'Search', spellcheck: 'false' });
  const foundText = html('span', { class: 'found', role: 'status' });
  const reset = html('button', { type: 'button', title: 'Show the whole profile (Esc)' }, text('Reset zoom'));
  const flip = html('button', { type: 'button', title: 'Root at the top or at the bottom (i)' }, text('Flip'));
  const help = html('button', { type: 'button', title: 'Keys (?)', 'aria-label': 'Keys' }, text('?'));
  const bar = element('foreignObject', { y: 4, width: 560, height: 34 },
    html('div', { class: 'bar' }, foundText, search, reset, flip, help));
  const KEYS = [['click, Enter', 'zoom in'], ['Esc', 'clear the search, then show all'], ['Backspace', 'zoom out by one'],
    ['/, Ctrl+F', 'search'], ['n, N', 'next, previous match'], ['\u2191 \u2193 \u2190 \u2192', 'move to caller, callee, neighbours'],
    ['i', 'root at the top or the bottom'], ['?', 'these keys']];
  const panel = element('foreignObject', { y: 40, width: 340, height: 220, visibility: 'hidden' },
    html('div', { class: 'help' }, ...KEYS.map((key) => html('div', {}, html('kbd', {}, text(key[0])), text(key[1])))));

  // Names that match, and what they cost: a match on top of another match is not counted twice.
  function match() {
    hits = null;
    found = 0;
    search.removeAttribute('aria-invalid');
    let wrong = '';
    if (state.search) {
      try {
        const pattern = new RegExp(state.search, /[A-Z]/.test(state.search) ? '' : 'i');
        hits = data.names.map((name) => pattern.test(name));
      } catch (error) {
        wrong = 'not a regular expression';
        search.setAttribute('aria-invalid', 'true');
      }
    }
    if (hits) {
      for (let i = state.zoom; i < end[state.zoom];) {
        if (hits[data.frame[i]]) {
          found += Math.max(0, data.total[i]);
          i = end[i];
        } else i++;
      }
    }
    const of = state.zoom ? ' of what is shown' : '';
    foundText.textContent = wrong || (hits ? percent(found, data.total[state.zoom]) + of + ' matches' : '');
    foundText.title = hits ? amount(found) + ' ' + data.what + (data.merged ? '; merged boxes are not searched' : '') : '';
  }

  // Boxes to draw, and runs of neighbours too narrow for a box of their own.
  function visible(width) {
    const boxes = [];
    const runs = new Map();
    const merged = [];
    const zoom = state.zoom;
    const scale = width / Math.max(1, data.total[zoom]);
    for (let i = parent[zoom]; i >= 0; i = parent[i]) boxes.push({ i, x: 0, w: width, up: true });
    boxes.reverse();
    for (let i = zoom; i < end[zoom];) {
      const wide = i === zoom ? width : data.total[i] * scale;
      const x = (left[i] - left[zoom]) * scale;
      if (wide >= LEAST) {
        boxes.push({ i, x, w: wide, up: false });
        i++;
        continue;
      }
      const depth = data.depth[i];
      const run = runs.get(depth);
      if (run && Math.abs(run.x + run.w - x) < 0.01) {
        run.w += Math.max(0, wide);
        run.frames += before[end[i]] - before[i];
        run.total += Math.max(0, data.total[i]);
      } else if (wide > 0) {
        const begun = { i, x, w: wide, depth, frames: before[end[i]] - before[i], total: data.total[i] };
        runs.set(depth, begun);
        merged.push(begun);
      }
      i = end[i];
    }
    return { boxes, merged: merged.filter((run) => run.w >= LEAST) };
  }

  function draw() {
    const width = root.getBoundingClientRect().width;
    const shown = visible(width);
    let rows = 1;
    for (const box of shown.boxes) rows = Math.max(rows, data.depth[box.i] + 1);
    for (const run of shown.merged) rows = Math.max(rows, run.depth + 1);
    const y = (depth) => data.head + (state.layout === 'flame' ? rows - 1 - depth : depth) * ROW;
    const made = document.createDocumentFragment();
    elements = new Map();
    for (const box of shown.boxes) {
      const i = box.i;
      const frame = data.frame[i];
      const style = frame < 0 ? 'm' : data.classes.substr(2 * frame, 2) + (data.inlined[i] === '2' ? ' i' : '');
      const hit = hits && hits[frame] ? ' hit' : '';
      const group = element('g', { class: 'b ' + style + hit + (box.up ? ' up' : '') });
      group.append(element('title', {}, text(tooltip(i))));
      const corner = box.w > 8 ? 2 : 0;
      group.append(element('rect', { x: box.x, y: y(data.depth[i]), width: box.w, height: ROW - 1, rx: corner }));
      const label = fit(name(i), Math.floor((box.w - 7) / glyph));
      if (label) group.append(element('text', { x: box.x + 4, y: y(data.depth[i]) + 12.5 }, text(label)));
      group.box = i;
      elements.set(i, group);
      made.append(group);
    }
    for (const run of shown.merged) {
      const group = element('g', { class: 'b m' }, element('title', {}, text(runFacts(run))),
        element('rect', { x: run.x, y: y(run.depth), width: run.w, height: ROW - 1 }));
      const label = fit(runFacts(run).split('\n')[0], Math.floor((run.w - 7) / glyph));
      if (label) group.append(element('text', { x: run.x + 4, y: y(run.depth) + 12.5 }, text(label)));
      group.box = parent[run.i];
      group.run = run;
      made.append(group);
    }
    layer.replaceChildren(made);
    drawn = shown.boxes;
    root.setAttribute('height', data.head + rows * ROW + MARGIN);
    const room = Math.max(0, Math.min(560, width - 24, Math.max(280, width - 42 - titleText.length * 10.5)));
    bar.setAttribute('width', room);
    bar.setAttribute('x', Math.max(12, width - room - 12));
    panel.setAttribute('x', Math.max(12, width - 352));
    panel.setAttribute('visibility', state.help ? 'visible' : 'hidden');
    title.textContent = cut(titleText, Math.max(8, Math.floor((width - room - 36) / 9)));
    for (const [line, whole] of headings) line.textContent = cut(whole, Math.max(20, Math.floor((width - 24) / 6.4)));
    reset.disabled = state.zoom === 0;
    mark();
    float();
  }

  function mark() {
    for (const old of layer.querySelectorAll('.at')) old.classList.remove('at');
    const at = elements.get(state.focus);
    if (at) {
      at.classList.add('at');
      layer.append(at);
    }
    say(state.focus >= 0 ? state.focus : state.zoom);
  }
  function say(i, run) {
    const line = run ? runFacts(run).split('\n') : [name(i), facts(i)];
    const room = Math.floor((root.getBoundingClientRect().width - 24) / 6.6) - line[1].length - 4;
    details.replaceChildren(element('tspan', { 'font-weight': 650 }, text(cut(line[0], Math.max(12, room)))), text('   ' + line[1]));
  }
  // Distance of the picture from the top of the page; an SVG file is the page.
  function top() {
    return root.parentNode === document ? 0 : root.getBoundingClientRect().top + window.scrollY;
  }
  // Scrolls to where the root is.
  function showRoot() {
    const bottom = top() + Number(root.getAttribute('height'));
    window.scrollTo(window.scrollX, state.layout === 'flame' ? Math.max(0, bottom - window.innerHeight) : top());
    float();
  }
  // The heading stays in view while the page is scrolled.
  function float() {
    const most = Number(root.getAttribute('height')) - data.head;
    const shift = Math.max(0, Math.min(most, window.scrollY - top()));
    head.setAttribute('transform', 'translate(0,' + shift + ')');
  }

  function save() {
    const parts = [];
    if (state.zoom) parts.push('zoom=' + state.zoom);
    if (state.search) parts.push('search=' + encodeURIComponent(state.search));
    if (state.layout !== data.layout) parts.push('layout=' + state.layout);
    try {
      history.replaceState(null, '', '#' + parts.join('&'));
    } catch (error) {
      // A sandbox may forbid it; the view works without.
    }
  }
  function load() {
    const given = new Map(location.hash.slice(1).split('&').map((part) => {
      const at = part.indexOf('=');
      try {
        return [part.slice(0, at), decodeURIComponent(part.slice(at + 1))];
      } catch (error) {
        return ['', ''];
      }
    }));
    const zoom = Number(given.get('zoom') || 0);
    state.zoom = Number.isInteger(zoom) && zoom > 0 && zoom < count && data.frame[zoom] >= 0 ? zoom : 0;
    state.search = given.get('search') || '';
    state.layout = ['flame', 'icicle'].includes(given.get('layout')) ? given.get('layout') : data.layout;
    search.value = state.search;
    update();
    showRoot();
  }
  function update() {
    match();
    draw();
    root.setAttribute('data-zoom', state.zoom);
    root.setAttribute('data-found', hits ? percent(found, data.total[state.zoom]) : '');
  }

  function zoomTo(i) {
    while (i > 0 && data.frame[i] < 0) i = parent[i];
    state.zoom = i;
    state.focus = i ? i : -1;
    save();
    update();
    showRoot();
  }
  function seek(pattern) {
    state.search = pattern;
    save();
    update();
  }
  function turn() {
    state.layout = state.layout === 'flame' ? 'icicle' : 'flame';
    save();
    update();
    showRoot();
  }

  function focusOn(i) {
    if (i < 0) return;
    state.focus = i;
    mark();
    const at = elements.get(i);
    if (!at) return;
    const place = at.getBoundingClientRect();
    if (place.top < data.head || place.bottom > window.innerHeight) at.scrollIntoView({ block: 'center' });
  }
  function widestChild(i) {
    let best = -1;
    for (let child = i + 1; child < end[i]; child = end[child]) {
      if (elements.has(child) && (best < 0 || data.total[child] > data.total[best])) best = child;
    }
    return best;
  }
  function neighbour(i, step) {
    const row = drawn.filter((box) => data.depth[box.i] === data.depth[i]).map((box) => box.i);
    const next = row[row.indexOf(i) + step];
    return next === undefined ? i : next;
  }
  function nextHit(step) {
    const list = drawn.filter((box) => hits && hits[data.frame[box.i]]).map((box) => box.i);
    if (!list.length) return;
    const at = list.indexOf(state.focus);
    const next = at < 0 ? (step > 0 ? 0 : list.length - 1) : (at + step + list.length) % list.length;
    focusOn(list[next]);
  }
  function key(event) {
    const typing = event.target === search;
    if (event.key === 'Escape') {
      if (state.help) toggleHelp();
      else if (state.search) {
        search.value = '';
        seek('');
      } else zoomTo(0);
      search.blur();
      return true;
    }
    if ((event.ctrlKey || event.metaKey) && event.key === 'f' && !typing) return openSearch();
    if (typing && event.key === 'Enter') {
      search.blur();
      nextHit(1);
      return true;
    }
    if (typing || event.target.localName === 'button' || event.ctrlKey || event.metaKey || event.altKey) return false;
    const at = elements.has(state.focus) ? state.focus : state.zoom;
    const up = state.layout === 'flame' ? () => widestChild(at) : () => parent[at];
    const down = state.layout === 'flame' ? () => parent[at] : () => widestChild(at);
    const keys = {
      '/': openSearch, '?': toggleHelp, i: turn, n: () => nextHit(1), N: () => nextHit(-1), Enter: () => zoomTo(at),
      Backspace: () => zoomTo(Math.max(0, parent[state.zoom])), ArrowUp: () => focusOn(up()), ArrowDown: () => focusOn(down()),
      ArrowLeft: () => focusOn(neighbour(at, -1)), ArrowRight: () => focusOn(neighbour(at, 1)),
    };
    if (!Object.hasOwn(keys, event.key)) return false;
    keys[event.key]();
    return true;
  }
  function openSearch() {
    search.focus();
    search.select();
    return true;
  }
  function toggleHelp() {
    state.help = !state.help;
    panel.setAttribute('visibility', state.help ? 'visible' : 'hidden');
  }
  function boxOf(event) {
    const group = event.target.closest && event.target.closest('.b');
    return group && group.parentNode === layer ? group : null;
  }

  head.append(bar, panel);
  layer.setAttribute('tabindex', '0');
  layer.setAttribute('role', 'application');
  layer.setAttribute('aria-label', 'Flame graph; press ? for the keys');
  layer.addEventListener('click', (event) => {
    const group = boxOf(event);
    if (group) zoomTo(group.box);
  });
  layer.addEventListener('mouseover', (event) => {
    const group = boxOf(event);
    if (group) say(group.box, group.run);
  });
  layer.addEventListener('mouseleave', mark);
  search.addEventListener('input', () => seek(search.value));
  reset.addEventListener('click', () => zoomTo(0));
  flip.addEventListener('click', turn);
  help.addEventListener('click', toggleHelp);
  window.addEventListener('keydown', (event) => {
    if (key(event)) event.preventDefault();
  });
  window.addEventListener('scroll', float);
  window.addEventListener('resize', draw);
  window.addEventListener('hashchange', load);

  const probe = element('g', { class: 'b' }, element('text', { visibility: 'hidden' }, text('M'.repeat(50))));
  root.append(probe);
  glyph = probe.firstChild.getComputedTextLength() / 50 || glyph;
  probe.remove();
  load();
  root.setAttribute('data-ready', '1');
})();
