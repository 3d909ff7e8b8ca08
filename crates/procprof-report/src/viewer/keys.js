/** What keys do. */

import { VIEWS } from './addresses.js';
import { openKeys } from './popups.js';

/** @typedef {import('./app.js').App} App */
/** @typedef {import('./layout.js').Hit} Hit */

/**
 * Handles a key wherever it is pressed, but in fields and popups.
 * @param {App} app @param {KeyboardEvent} event
 */
export function handleKey(app, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.closest?.('input, select, textarea, [popover]');
  if (event.defaultPrevented || typing || event.altKey) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key !== 'f') return;
    openSearch(app);
  } else if (!anywhere(app, event.key, target) && !onPicture(app, event.key, target)) return;
  event.preventDefault();
}

/** @param {App} app */
function openSearch(app) {
  app.toolbar.search.focus();
  app.toolbar.search.select();
}

/** @param {App} app @param {string} key @param {HTMLElement} target */
function anywhere(app, key, target) {
  const views = VIEWS.filter((view) => app.hasView(view));
  if (/^[1-7]$/.test(key) && views[Number(key) - 1]) void app.go({ view: views[Number(key) - 1] });
  else if (key === '/') openSearch(app);
  else if (key === '?') openKeys(app, app.toolbar.help);
  else if (key === 'n') app.nextMatch(1);
  else if (key === 'N') app.nextMatch(-1);
  else if (key === 'Escape' && app.state.search && target !== app.picture.over) void app.setSearch('');
  else return false;
  return true;
}

/** @param {App} app @param {string} key @param {HTMLElement} target */
function onPicture(app, key, target) {
  const { picture } = app;
  const layer = picture.layers[0];
  if (!picture.stage.isConnected || !layer || target !== picture.over && target !== document.body && target !== picture.stage) return false;
  /** @type {Hit} */
  const at = picture.focused ?? { layer: 0, node: layer.zoom, hidden: false };
  const up = picture.layers[at.layer].up;
  /** @type {Record<string, () => unknown>} */
  const keys = {
    ArrowUp: () => up ? towardsLeaf(app, at) : towardsRoot(app, at),
    ArrowDown: () => up ? towardsRoot(app, at) : towardsLeaf(app, at),
    ArrowLeft: () => neighbour(app, at, -1), ArrowRight: () => neighbour(app, at, 1),
    Enter: () => app.activate(at), '+': () => app.step(at, true), '=': () => app.step(at, true), '-': () => app.step(at, false),
    Escape: () => app.state.view === 'sandwich' ? app.go(app.state.part ? { part: '' } : { view: 'flame', part: '' }) : app.state.zoom ? app.step(null, false) : app.state.search && app.setSearch(''),
    Backspace: () => app.step(null, false), 0: () => app.zoomOut(), Home: () => app.zoomOut(),
    s: () => app.openSandwich(app.nameAt(at)), c: () => app.copyStack(at), m: () => menuAt(app, at), ContextMenu: () => menuAt(app, at),
    PageUp: () => picture.stage.scrollBy(0, -picture.height * 0.9), PageDown: () => picture.stage.scrollBy(0, picture.height * 0.9),
  };
  if (!Object.hasOwn(keys, key)) return false;
  keys[key]();
  return true;
}

/** @param {App} app @param {Hit} at */
function towardsRoot(app, at) {
  const { slice } = app.picture.layers[at.layer];
  if (at.hidden) app.focus({ ...at, hidden: false }, true);
  else if (slice.parent[at.node] >= 0) app.focus({ ...at, node: slice.parent[at.node] }, true);
  else if (app.picture.layers.length > 1) towardsLeaf(app, { layer: 1 - at.layer, node: 0, hidden: false });
}

/** To the widest of the boxes on this one. @param {App} app @param {Hit} at */
function towardsLeaf(app, at) {
  const { slice, zoom } = app.picture.layers[at.layer];
  if (at.hidden) return;
  let best = -1;
  if (slice.depth[at.node] < slice.depth[zoom]) {
    best = zoom;
    while (slice.parent[best] !== at.node) best = slice.parent[best];
  } else {
    for (let child = at.node + 1; child < slice.end[at.node]; child = slice.end[child]) {
      if (best < 0 || slice.width[child] > slice.width[best]) best = child;
    }
  }
  if (best >= 0 && slice.width[best] > 0) app.focus({ layer: at.layer, node: best, hidden: false }, true);
  else if (slice.hidden[at.node] > 0) app.focus({ ...at, hidden: true }, true);
}

/** To the next box of the row. @param {App} app @param {Hit} at @param {number} by */
function neighbour(app, at, by) {
  const { boxes, layers } = app.picture;
  const { slice, up } = layers[at.layer];
  const row = (slice.depth[at.node] + (at.hidden ? 1 : 0)) * (up ? 1 : -1);
  /** @type {{x: number, hit: Hit}[]} */
  const places = [];
  for (let box = 0; box < boxes.count; box++) {
    if (boxes.row[box] === row && (boxes.layer[box] === at.layer)) {
      places.push({ x: boxes.x[box], hit: { layer: at.layer, node: boxes.node[box], hidden: boxes.what[box] === 2 } });
    }
  }
  places.sort((one, other) => one.x - other.x);
  const now = places.findIndex(({ hit }) => hit.node === at.node && hit.hidden === at.hidden);
  const next = places[now + by];
  if (next) app.focus(next.hit, true);
}

/** @param {App} app @param {Hit} at */
function menuAt(app, at) {
  const place = app.picture.placeOf(at);
  const canvas = app.picture.over.getBoundingClientRect();
  if (place) app.menu(at, { x: canvas.left + place.x + 8, y: canvas.top + place.y - app.picture.stage.scrollTop + 18 });
}
