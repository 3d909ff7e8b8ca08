// The call graph's viewer: move, zoom, search, follow calls. Names are hostile and only ever become text nodes.
(function () {
  'use strict';
  const SVG = 'http://www.w3.org/2000/svg';
  const XHTML = 'http://www.w3.org/1999/xhtml';
  const BAR = 42;
  const root = document.getElementById('procprof-graph');
  const view = root.viewBox.baseVal;
  const whole = { x: 0, y: 0, width: view.width, height: view.height };
  const nodes = [...root.querySelectorAll('.n')];
  const edges = [...root.querySelectorAll('.e')].map((element) => ({ element, from: nodes[element.dataset.from], to: nodes[element.dataset.to] }));
  const name = (node) => node.querySelector('title').textContent.split('\n')[0];
  const names = nodes.map(name);

  // Where the drawing stands: its left top corner in the window, and its scale.
  const place = { x: 0, y: 0, scale: 1 };
  const drawing = document.getElementById('procprof-drawing');
  let picked = null;
  let hits = [];
  let hit = -1;

  function element(tag, attributes, ...children) {
    const made = document.createElementNS(tag === 'foreignObject' ? SVG : XHTML, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    made.append(...children);
    return made;
  }
  function size() {
    const box = root.getBoundingClientRect();
    return { width: box.width || 1, height: box.height || 1, left: box.left, top: box.top };
  }
  function show() {
    drawing.setAttribute('transform', 'translate(' + place.x.toFixed(2) + ',' + place.y.toFixed(2) + ') scale(' + place.scale.toFixed(4) + ')');
  }
  function zoom(by, x, y) {
    const scale = Math.min(8, Math.max(least(), place.scale * by));
    place.x = x - (x - place.x) * scale / place.scale;
    place.y = y - (y - place.y) * scale / place.scale;
    place.scale = scale;
    show();
  }
  function least() {
    const { width, height } = size();
    return Math.min(1, width / whole.width, height / whole.height) / 2;
  }
  // Below the bar.
  function fit() {
    const { width, height } = size();
    const room = Math.max(1, height - BAR);
    place.scale = Math.min(1.5, width / whole.width, room / whole.height);
    place.x = (width - whole.width * place.scale) / 2;
    place.y = BAR + Math.max(0, (room - whole.height * place.scale) / 2);
    show();
  }
  // A graph that would be too small to read begins at the node that tells most, which is the first. A frame may have no
  // size yet when its document is there.
  let begun = false;
  function begin() {
    const box = root.getBoundingClientRect();
    if (begun || !box.width || !box.height) return;
    begun = true;
    fit();
    if (place.scale >= 0.3 || !nodes.length) return;
    place.scale = 0.6;
    const { width, height } = size();
    const first = middle(nodes[0]);
    place.x = width / 2 - first.x * place.scale;
    place.y = Math.min(BAR, height / 4 - first.y * place.scale);
    show();
  }
  function middle(node) {
    const box = node.getBBox();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  }
  function bring(node) {
    const { width, height } = size();
    const { x, y } = middle(node);
    if (place.scale < 0.5) place.scale = 0.9;
    place.x = width / 2 - x * place.scale;
    place.y = height / 2 - y * place.scale;
    show();
  }

  // A picked node stands out with its callers and callees; with `all`, with everything that leads to it and that it leads to.
  function pick(node, all) {
    for (const old of root.querySelectorAll('.near, .at')) old.classList.remove('near', 'at');
    picked = node;
    root.classList.toggle('picked', Boolean(node));
    if (node) {
      node.classList.add('near', 'at');
      follow(node, 'from', 'to', all);
      follow(node, 'to', 'from', all);
    }
    say(node);
  }
  function follow(start, near, far, all) {
    const seen = new Set([start]);
    const queue = [start];
    while (queue.length) {
      const node = queue.pop();
      for (const edge of edges) {
        if (edge[near] !== node) continue;
        edge.element.classList.add('near');
        edge[far].classList.add('near');
        if (all && !seen.has(edge[far])) {
          seen.add(edge[far]);
          queue.push(edge[far]);
        }
      }
    }
  }
  function say(node) {
    said.textContent = node ? node.querySelector('title').textContent.replace('\n', '   ') : '';
  }

  const search = element('input', { type: 'search', placeholder: 'Search (regular expression)  /', 'aria-label': 'Search', spellcheck: 'false' });
  const found = element('span', { class: 'found', role: 'status' });
  const whole100 = element('button', { type: 'button', title: 'Show the whole graph (0)' }, 'Fit');
  const nearer = element('button', { type: 'button', title: 'Nearer (+)', 'aria-label': 'Nearer' }, '+');
  const farther = element('button', { type: 'button', title: 'Farther (-)', 'aria-label': 'Farther' }, '\u2212');
  const said = element('div', { class: 'said', 'aria-live': 'polite' });
  const bar = element('foreignObject', { y: 4, height: 36 }, element('div', { class: 'bar' }, found, search, farther, nearer, whole100));
  const foot = element('foreignObject', { x: 8, height: 32 }, said);
  whole100.title = 'Show the whole graph (0). Drag or arrow keys move, the wheel zooms, a click shows callers and callees, with Shift all of them; ' +
    'n and N go through what was found, Esc ends';

  function seek() {
    for (const old of hits) old.classList.remove('hit');
    hits = [];
    hit = -1;
    search.removeAttribute('aria-invalid');
    found.textContent = '';
    if (search.value) {
      try {
        const pattern = new RegExp(search.value, /[A-Z]/.test(search.value) ? '' : 'i');
        hits = nodes.filter((node, index) => pattern.test(names[index]));
        found.textContent = hits.length === 1 ? '1 match' : hits.length + ' matches';
      } catch (error) {
        search.setAttribute('aria-invalid', 'true');
        found.textContent = 'not a regular expression';
      }
    }
    for (const node of hits) node.classList.add('hit');
  }
  function step(by) {
    if (!hits.length) return;
    hit = hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (hit + by + hits.length) % hits.length;
    bring(hits[hit]);
    pick(hits[hit], false);
  }
  function key(event) {
    const typing = event.target === search;
    const { width, height } = size();
    if (event.key === 'Escape') {
      if (search.value) {
        search.value = '';
        seek();
      } else pick(null);
      search.blur();
      return true;
    }
    if (typing && event.key === 'Enter') {
      search.blur();
      step(1);
      return true;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.target.localName === 'button' && event.key === 'Enter') return false;
    const move = (x, y) => () => {
      place.x += x;
      place.y += y;
      show();
    };
    const keys = {
      '/': () => search.focus(), n: () => step(1), N: () => step(-1), 0: fit, '+': () => zoom(1.25, width / 2, height / 2),
      '=': () => zoom(1.25, width / 2, height / 2), '-': () => zoom(0.8, width / 2, height / 2), ArrowUp: move(0, 60), ArrowDown: move(0, -60),
      ArrowLeft: move(60, 0), ArrowRight: move(-60, 0),
    };
    if (!Object.hasOwn(keys, event.key)) return false;
    keys[event.key]();
    return true;
  }
  function nodeOf(event) {
    return event.target.closest ? event.target.closest('#procprof-graph .n') : null;
  }
  function resize() {
    const { width, height } = size();
    const room = Math.min(520, width - 16);
    bar.setAttribute('width', Math.max(0, room));
    bar.setAttribute('x', width - room - 8);
    foot.setAttribute('width', Math.max(0, width - 16));
    foot.setAttribute('y', height - 38);
  }

  // Pointers that are down, by their numbers; two of them pinch.
  const down = new Map();
  let moved = 0;
  function spread() {
    const [a, b] = [...down.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, distance: Math.hypot(a.x - b.x, a.y - b.y) || 1 };
  }
  root.addEventListener('pointerdown', (event) => {
    if (event.target.closest('foreignObject') || event.button > 0) return;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (down.size === 1) moved = 0;
  });
  root.addEventListener('pointermove', (event) => {
    const last = down.get(event.pointerId);
    if (!last) return;
    const { left, top } = size();
    const before = down.size === 2 ? spread() : null;
    moved += Math.abs(event.clientX - last.x) + Math.abs(event.clientY - last.y);
    if (down.size === 1) {
      place.x += event.clientX - last.x;
      place.y += event.clientY - last.y;
    }
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (before) {
      const after = spread();
      place.x += after.x - before.x;
      place.y += after.y - before.y;
      zoom(after.distance / before.distance, after.x - left, after.y - top);
    }
    // Only a real move captures the pointer: a click is to reach the node below it.
    if (moved > 4 && !root.hasPointerCapture(event.pointerId)) {
      root.setPointerCapture(event.pointerId);
      root.classList.add('moving');
    }
    show();
  });
  function up(event) {
    down.delete(event.pointerId);
    root.classList.remove('moving');
  }
  root.addEventListener('pointerup', up);
  root.addEventListener('pointercancel', up);
  root.addEventListener('click', (event) => {
    if (moved > 4 || event.target.closest('foreignObject')) return;
    const node = nodeOf(event);
    pick(node === picked && !event.shiftKey ? null : node, event.shiftKey);
  });
  root.addEventListener('mouseover', (event) => say(nodeOf(event) || picked));
  root.addEventListener('wheel', (event) => {
    const { left, top } = size();
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0015)), event.clientX - left, event.clientY - top);
  }, { passive: false });
  search.addEventListener('input', seek);
  whole100.addEventListener('click', fit);
  nearer.addEventListener('click', () => zoom(1.25, size().width / 2, size().height / 2));
  farther.addEventListener('click', () => zoom(0.8, size().width / 2, size().height / 2));
  window.addEventListener('keydown', (event) => {
    if (key(event)) event.preventDefault();
  });
  window.addEventListener('resize', () => {
    resize();
    begin();
  });

  root.removeAttribute('viewBox');
  root.removeAttribute('width');
  root.removeAttribute('height');
  root.classList.add('live');
  root.append(bar, foot);
  resize();
  begin();
  root.setAttribute('data-ready', '1');
})();
