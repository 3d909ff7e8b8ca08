/** The viewer: its state, the slices it has, and what each control does. */

import { readState, writeState } from './addresses.js';
import { Tooltip, describe } from './details.js';
import { copyText, el } from './dom.js';
import { handleKey } from './keys.js';
import { exactly, labelName } from './names.js';
import { Picture } from './picture.js';
import { openFunctionMenu } from './popups.js';
import { joined } from './remote.js';
import { follow, nameOf, namesTo, pathTo, positionOf } from './slice.js';
import { TableView } from './tableview.js';
import { TEXTS, fill } from './texts.js';
import { Toolbar } from './toolbar.js';
import { TreeView } from './treeview.js';

/** @typedef {import('./slice.js').Slice} Slice */
/** @typedef {import('./layout.js').Hit} Hit */
/** @typedef {import('./layout.js').Layer} Layer */
/** A node of one side of the picture of callers and callees. @typedef {{side: 'callers' | 'callees', node: number}} Part */
/** @typedef {import('./addresses.js').State} State */
/** @typedef {import('./addresses.js').View} View */
/**
 * @typedef {object} Config
 * @property {string} [tree] Address of the slices; `search`, `table` and `sandwich` likewise.
 * @property {string} [search]
 * @property {string} [table]
 * @property {string} [sandwich]
 * @property {{name: string, url: string}[]} [reports] Addresses of reports.
 * @property {{label: string, url: string}[]} [exports]
 * @property {{label: string, text: string}[]} [commands] With `{flags}` and `{query}` where the options go.
 * @property {{key: string, help: string, choices?: string[]}[]} [options]
 * @property {View} [view] Shown unless the address names another.
 */

/** Slices kept besides the root's. */
const SLICES_KEPT = 12;
/** Nodes are fetched from this share of a px on. */
const FINE = 0.25;
/** Parts of the width that the server sends at most. */
const WIDE_MAX = 1 << 20;

export class App {
  /**
   * @param {HTMLElement} host @param {Config} config @param {import('./remote.js').Source} source
   */
  constructor(host, config, source) {
    this.host = host;
    this.config = config;
    this.source = source;
    this.alone = !config.tree;
    this.optionKeys = (config.options ?? []).map((row) => row.key);
    this.first = /** @type {View} */ (config.view ?? 'flame');
    /** @type {Map<number, Slice>} */
    this.slices = new Map();
    /** @type {Slice | null} */
    this.root = null;
    /** Callers and callees. @type {[Slice, Slice] | null} */
    this.pair = null;
    /** Parts of them that were zoomed to. @type {Map<string, Slice>} */
    this.parts = new Map();
    /** @type {import('./remote.js').Found | null} */
    this.found = null;
    this.searchError = '';
    /** @type {{at: number, n: number} | null} */
    this.matchAt = null;
    /** @type {string[]} */
    this.warnings = [];
    /** Counts what is asked, so that a late answer is left. */
    this.generation = 0;
    this.state = this.read();
    this.tooltip = new Tooltip();
    this.picture = new Picture({
      hover: (hit, x, y) => this.hover(hit, x, y),
      click: (hit) => this.activate(hit),
      menu: (hit, x, y) => this.menu(hit, { x, y }),
      wheel: (hit, inwards) => this.step(hit, inwards),
    });
    this.toolbar = new Toolbar(this);
    this.table = new TableView(this);
    this.tree = new TreeView(this);
    this.main = el('div', { class: 'pv-main' });
    this.status = el('div', { class: 'pv-status', 'aria-hidden': true });
    this.said = el('div', { id: 'pv-said', class: 'pv-away', role: 'status', 'aria-live': 'polite' });
    host.classList.add('pv');
    host.replaceChildren(this.toolbar.element, this.main, this.status, this.said, this.tooltip.box);
    window.addEventListener('popstate', () => this.restore());
    window.addEventListener('keydown', (event) => handleKey(this, event));
    window.addEventListener('resize', () => this.picture.rearrange());
  }

  /** @returns {State} */
  read() {
    return readState(new URLSearchParams(this.alone ? location.hash.slice(1) : location.search), this.optionKeys, this.first);
  }

  /** The page's address with this change of the state. @param {Partial<State>} change */
  address(change) {
    const old = new URLSearchParams(this.alone ? location.hash.slice(1) : location.search);
    const query = writeState({ ...this.state, ...change }, old, this.optionKeys, this.first);
    if (this.alone) return '#' + query;
    return location.pathname + (query ? '?' + query : '');
  }

  /** Writes the state into the address. @param {boolean} replace */
  write(replace) {
    const address = this.address({});
    const now = this.alone ? location.hash || '#' : location.pathname + location.search;
    if (address === now) return;
    try {
      if (replace) history.replaceState(null, '', address);
      else history.pushState(null, '', address);
    } catch {
      // A sandbox may forbid it; the view works without.
    }
  }

  /** Shows the state of the address after the back button. */
  async restore() {
    const old = this.state;
    this.state = this.read();
    if (JSON.stringify(old.options) !== JSON.stringify(this.state.options)) await this.load([]);
    else {
      if (old.search !== this.state.search) await this.runSearch();
      await this.render();
    }
  }

  /** Loads all anew with the options of the state, zoomed to a path of names if there is one. @param {string[]} names */
  async load(names) {
    const generation = ++this.generation;
    this.host.setAttribute('aria-busy', 'true');
    this.host.removeAttribute('data-ready');
    this.source.choose(this.state.options);
    try {
      // A path is followed in all that can be seen.
      const root = names.length ? await this.source.tree(0, this.fineWidth()) : await this.source.first();
      if (generation !== this.generation) return;
      // Another tree has other numbers.
      this.picture.focused = null;
      this.picture.layers = [];
      this.slices = new Map([[0, root]]);
      this.root = root;
      this.pair = null;
      this.parts.clear();
      this.warnings = [];
      if (names.length) {
        this.state.zoom = root.number[follow(root, names)];
        this.write(true);
      }
      await this.runSearch();
      await this.render();
      if (!names.length) whenIdle(() => this.complete(generation));
    } catch (error) {
      if (generation === this.generation) this.fail(error);
    }
    this.host.removeAttribute('aria-busy');
    this.host.setAttribute('data-ready', '1');
  }

  /** Fetches what the first slice left out; what is seen stays where it is. @param {number} generation */
  async complete(generation) {
    const first = this.root;
    if (!first || this.alone || generation !== this.generation || first.count >= first.head.whole.nodes) return;
    const wide = this.fineWidth();
    const finer = await this.source.tree(0, wide).catch(() => null);
    // Without it, zooming asks for the parts.
    if (!finer || generation !== this.generation) return;
    finer.wide = wide;
    this.root = finer;
    this.slices.set(0, finer);
    const { picture, state } = this;
    const shown = picture.stage.isConnected && picture.layers.length === 1 && picture.layers[0].slice === first;
    if (shown && positionOf(finer, state.zoom) >= 0) this.draw(finer, false);
    if (state.view === 'tree') this.tree.show();
    this.toolbar.showLegend();
  }

  /** Parts of the width that a screen can show. */
  fineWidth() {
    return Math.min(WIDE_MAX, Math.max(2048, Math.round(window.innerWidth * (window.devicePixelRatio || 1) / FINE)));
  }

  /** @param {unknown} error */
  fail(error) {
    const why = error instanceof Error ? error.message : String(error);
    this.toolbar.update();
    this.main.replaceChildren(el('div', { class: 'pv-empty', role: 'alert' }, el('p', {}, fill(TEXTS.failed, { why })),
      el('button', { type: 'button', onclick: () => this.load([]) }, TEXTS.retry)));
  }

  /** The width that is 100 %. */
  wholeWidth() {
    return this.root?.width[0] ?? 0;
  }

  rootSlice() {
    return /** @type {Slice} */ (this.root);
  }

  /** The slice that shows most of what is below a node. @param {number} number */
  best(number) {
    const own = this.slices.get(number);
    if (own) return own;
    let best = null;
    let most = 0;
    for (const slice of this.slices.values()) {
      const at = positionOf(slice, number);
      const shown = at < 0 ? 0 : slice.end[at] - at;
      if (shown > most) [best, most] = [slice, shown];
    }
    return best;
  }

  /** Asks for the slice of a node; each time finer if it is there already. @param {number} number */
  async refine(number) {
    if (this.alone) return null;
    const known = this.slices.get(number);
    const wide = this.finerThan(known);
    const generation = this.generation;
    this.host.classList.add('pv-loading');
    try {
      const slice = await this.source.tree(number, wide);
      if (generation !== this.generation) return null;
      slice.wide = wide;
      this.slices.delete(number);
      this.slices.set(number, slice);
      if (!number) this.root = slice;
      const kept = [...this.slices.keys()].filter((key) => key !== 0);
      for (const key of kept.slice(0, Math.max(0, kept.length - SLICES_KEPT))) this.slices.delete(key);
      return slice;
    } finally {
      this.host.classList.remove('pv-loading');
    }
  }

  /** The width to ask for, finer each time. @param {Slice | undefined} known */
  finerThan(known) {
    return Math.min(WIDE_MAX, known?.wide ? known.wide * 16 : this.fineWidth());
  }

  /** Changes the state and shows it. @param {Partial<State>} change @param {boolean} [replace] */
  async go(change, replace = false) {
    if (change.view && change.view !== this.state.view) this.picture.focused = null;
    Object.assign(this.state, change);
    this.write(replace);
    await this.render();
  }

  /** @param {[string, string][]} options */
  async setOptions(options) {
    const had = (/** @type {[string, string][]} */ list) => list.some(([key]) => key === 'normalize');
    // The page of a difference may scale by default; the address says that it does not.
    if (had(this.state.options) && !had(options)) options = [...options, ['normalize', 'false']];
    const slice = this.best(this.state.zoom);
    const names = slice && this.state.zoom ? namesTo(slice, positionOf(slice, this.state.zoom)) : [];
    this.state.options = options;
    this.state.zoom = 0;
    this.write(false);
    await this.load(names);
  }

  /** @param {string} key @param {string} value */
  addOption(key, value) {
    const old = this.state.options.find((option) => option[0] === key)?.[1];
    const joint = ['hide', 'ignore'].includes(key) && old ? `${old}|${value}` : value;
    return this.setOptions([...this.state.options.filter((option) => option[0] !== key), [key, joint]]);
  }

  /** @param {string} kind */
  chooseType(kind) {
    return this.setOptions([...this.state.options.filter(([key]) => key !== 'sample_index'), ['sample_index', kind]]);
  }

  canFilter() {
    return this.optionKeys.length > 0;
  }

  /** The address of a report, empty if there is none. @param {string} name */
  report(name) {
    return this.config.reports?.find((report) => report.name === name)?.url ?? '';
  }

  hasSource() {
    return Boolean(this.report('weblist') || this.report('list'));
  }

  /** @param {View} view */
  hasView(view) {
    if (view === 'graph') return Boolean(this.report('svg'));
    return view !== 'source' || this.hasSource();
  }

  colouring() {
    return this.state.colour || (this.root?.head.diff ? 'diff' : 'package');
  }

  /** Shows the state. */
  async render() {
    const { state, root } = this;
    if (!root) return;
    this.tooltip.hide();
    this.toolbar.update();
    this.host.dataset.view = state.view;
    if (state.view === 'table') await this.panel(this.table.element, () => this.table.show());
    else if (state.view === 'tree') await this.panel(this.tree.element, () => this.tree.show());
    else if (state.view === 'graph') this.frame(joined(this.report('svg'), state.options), TEXTS.graph);
    else if (state.view === 'source') this.showSource();
    else if (root.width[0] <= 0) {
      this.message(state.options.length ? TEXTS.empty : TEXTS.emptyProfile);
    } else if (state.view === 'sandwich') await this.showSandwich();
    else await this.showFlame();
    this.toolbar.showFound();
  }

  /** @param {HTMLElement} panel @param {() => unknown} show */
  async panel(panel, show) {
    if (this.main.firstElementChild !== panel) this.main.replaceChildren(panel);
    await show();
  }

  /** @param {string} text */
  message(text) {
    this.main.replaceChildren(el('p', { class: 'pv-empty' }, text));
  }

  /** A report in a frame that is shut off from this page. @param {string} address @param {string} title */
  frame(address, title) {
    const known = this.main.firstElementChild;
    if (known instanceof HTMLIFrameElement && known.getAttribute('src') === address) return;
    this.main.replaceChildren(el('iframe', { class: 'pv-frame', src: address, title, sandbox: 'allow-scripts' }));
  }

  showSource() {
    const report = this.report('weblist') || this.report('list');
    if (!this.state.frame) return this.message(TEXTS.chooseSource);
    this.frame(joined(report, [...this.state.options, ['symbol', exactly(this.state.frame)]]), TEXTS.source);
  }

  async showFlame() {
    const { state, picture } = this;
    let slice = this.best(state.zoom);
    if (!slice && state.zoom) {
      slice = await this.refine(state.zoom).catch(() => null);
      if (!slice || positionOf(slice, state.zoom) < 0) {
        this.warnings = [TEXTS.stale];
        state.zoom = 0;
        this.write(true);
        slice = this.root;
        this.toolbar.update();
      }
    }
    if (!slice) return;
    this.draw(slice, true);
    const at = positionOf(slice, state.zoom);
    const complete = slice.end[at] - at >= slice.size[at];
    if (this.slices.has(state.zoom) || complete || this.alone) return;
    const finer = await this.refine(state.zoom).catch((error) => this.say(fill(TEXTS.failed, { why: error.message })));
    if (finer && state.zoom === finer.head.node && ['flame', 'icicle'].includes(state.view)) this.draw(finer, false);
    picture.request(false);
  }

  /** @param {Slice} slice @param {boolean} moves */
  draw(slice, moves) {
    const { picture, state } = this;
    const focused = picture.focused && picture.layers[0] ? picture.layers[0].slice.number[picture.focused.node] : -1;
    if (this.main.firstElementChild !== picture.stage) this.main.replaceChildren(picture.stage);
    picture.colouring = this.colouring();
    picture.matches = [this.matchesOf(slice)];
    const zoom = Math.max(0, positionOf(slice, state.zoom));
    picture.show([{ slice, zoom, up: state.view === 'flame' }]);
    if (moves) picture.revealZoom();
    const again = focused < 0 ? -1 : positionOf(slice, focused);
    if (again >= 0) this.focus({ layer: 0, node: again, hidden: false }, !moves);
    this.showStatus();
  }

  async showSandwich() {
    const { state, picture } = this;
    if (!state.frame) return this.message(TEXTS.chooseFunction);
    try {
      if (!this.pair || nameOf(this.pair[0], 0) !== state.frame) {
        this.parts.clear();
        const wide = this.fineWidth();
        this.pair = await this.source.sandwich(whichOf(state.frame), wide);
        for (const slice of this.pair) slice.wide = wide;
      }
      const [callers, callees] = this.pair;
      /** @type {Layer[]} */
      const layers = [{ slice: callers, zoom: 0, up: true, callees }, { slice: callees, zoom: 0, up: false }];
      const part = readPart(state.part);
      if (part) {
        const slice = this.parts.get(state.part) ?? await this.refinePart(part);
        const zoom = positionOf(slice, part.node);
        if (zoom >= 0) Object.assign(layers[part.side === 'callers' ? 0 : 1], { slice, zoom });
      }
      if (this.main.firstElementChild !== picture.stage) this.main.replaceChildren(picture.stage);
      picture.colouring = this.colouring();
      picture.matches = layers.map(({ slice }) => this.matchesOf(slice));
      picture.show(layers);
      picture.revealZoom();
      this.showStatus();
    } catch (error) {
      this.message(fill(TEXTS.failed, { why: error instanceof Error ? error.message : String(error) }));
    }
  }

  /** Asks for a part of the callers or callees, each time finer. @param {Part} part */
  async refinePart(part) {
    const { side, node } = part;
    const key = partKey(part);
    const whole = node === 0 ? this.pair?.[side === 'callers' ? 0 : 1] : undefined;
    const wide = this.finerThan(this.parts.get(key) ?? whole);
    const slice = await this.source.side(whichOf(this.state.frame), side, node, wide);
    slice.wide = wide;
    this.parts.set(key, slice);
    if (this.parts.size > SLICES_KEPT) this.parts.delete([...this.parts.keys()][0]);
    return slice;
  }

  /** Which of a slice's frames match. @param {Slice} slice */
  matchesOf(slice) {
    if (!this.found) return null;
    const found = new Set(this.found.frames);
    const { frames } = slice.head;
    const matches = new Uint8Array(frames.length);
    for (let at = 0; at < frames.length; at++) if (found.has(frames[at])) matches[at] = 1;
    return matches;
  }

  /** @param {string} re */
  typeSearch(re) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.setSearch(re, true), 120);
  }

  /** @param {string} re @param {boolean} [typed] */
  async setSearch(re, typed = false) {
    clearTimeout(this.typing);
    this.state.search = re;
    // Changing the address takes the browser some ms, in which the server can search.
    const searched = this.runSearch();
    this.write(typed);
    await searched;
    if (!typed) this.toolbar.search.value = re;
    this.picture.matches = this.picture.layers.map(({ slice }) => this.matchesOf(slice));
    this.picture.request(true);
    this.toolbar.update();
    this.toolbar.showFound();
  }

  async runSearch() {
    const re = this.state.search;
    this.matchAt = null;
    this.searchError = '';
    if (!re) {
      this.found = null;
      return;
    }
    try {
      const found = await this.source.search(re);
      if (re === this.state.search) this.found = found;
    } catch (error) {
      this.found = null;
      this.searchError = fill(TEXTS.noSearch, { why: error instanceof Error ? error.message : String(error) });
    }
  }

  /** @param {number} by */
  nextMatch(by) {
    const { picture } = this;
    const { boxes } = picture;
    if (!this.found || !picture.stage.isConnected) return;
    /** @type {Hit[]} */
    const hits = [];
    for (let at = 0; at < boxes.count; at++) {
      const layer = boxes.layer[at];
      const node = boxes.node[at];
      const root = picture.layers.length === 1 && node === 0;
      if (boxes.what[at] < 2 && !root && picture.matches[layer]?.[picture.layers[layer].slice.frame[node]]) hits.push({ layer, node, hidden: false });
    }
    if (!hits.length) return this.say(TEXTS.none);
    const { focused } = picture;
    const now = focused ? hits.findIndex((hit) => hit.node === focused.node && hit.layer === focused.layer) : -1;
    const at = now < 0 ? (by > 0 ? 0 : hits.length - 1) : (now + by + hits.length) % hits.length;
    this.matchAt = { at: at + 1, n: hits.length };
    this.focus(hits[at], true);
    this.toolbar.showFound();
  }

  /** @param {number} number */
  zoomTo(number) {
    return this.go({ zoom: number, ...(['flame', 'icicle'].includes(this.state.view) ? {} : { view: /** @type {View} */ ('flame') }) });
  }

  /** Zooms to what was hit; in the picture of callers and callees, its function comes into the middle. @param {Hit} hit */
  async activate(hit) {
    const { slice, zoom } = this.picture.layers[hit.layer];
    if (this.state.view === 'sandwich') return hit.hidden ? this.zoomPart(hit) : this.openSandwich(nameOf(slice, hit.node));
    if (!hit.hidden) return this.zoomTo(slice.number[hit.node]);
    if (hit.node !== zoom) return this.zoomTo(slice.number[hit.node]);
    const finer = await this.refine(slice.number[hit.node]);
    if (finer) this.draw(finer, false);
  }

  /** Zooms one side of the picture to a node of which not all is shown. @param {Hit} hit */
  async zoomPart(hit) {
    if (this.alone) return;
    const { slice } = this.picture.layers[hit.layer];
    /** @type {Part} */
    const part = { side: hit.layer ? 'callees' : 'callers', node: slice.number[hit.node] };
    if (this.state.part === partKey(part)) await this.refinePart(part);
    await this.go({ part: partKey(part) });
  }

  /** Shows the whole of the picture. */
  zoomOut() {
    return this.state.view === 'sandwich' ? this.go({ part: '' }) : this.zoomTo(0);
  }

  /** One step towards what is under the pointer, or back. @param {Hit | null} hit @param {boolean} inwards */
  step(hit, inwards) {
    const layer = this.picture.layers[0];
    if (!layer || this.state.view === 'sandwich') return;
    const { slice, zoom } = layer;
    if (!inwards) {
      let at = slice.parent[zoom];
      while (at > 0 && slice.width[at] <= slice.width[zoom] * 1.001) at = slice.parent[at];
      if (zoom) this.zoomTo(at > 0 && slice.width[at] < slice.width[0] * 0.999 ? slice.number[at] : 0);
      return;
    }
    if (!hit) return;
    const to = pathTo(slice, hit.node).find((at) => slice.depth[at] > slice.depth[zoom] && slice.width[at] < slice.width[zoom] * 0.8);
    if (to !== undefined) this.zoomTo(slice.number[to]);
    else if (hit.node !== zoom) this.zoomTo(slice.number[hit.node]);
  }

  /** @param {string} name */
  openSandwich(name) {
    return this.go({ view: 'sandwich', frame: name, part: '' });
  }

  /** @param {Hit} hit */
  nameAt(hit) {
    return nameOf(this.picture.layers[hit.layer].slice, hit.node);
  }

  /** @param {string} name */
  patternOf(name) {
    return exactly(name);
  }

  /** @param {Hit} hit @param {{x: number, y: number}} place */
  menu(hit, place) {
    this.tooltip.hide();
    this.focus(hit, false);
    openFunctionMenu(this, hit, place);
  }

  /** @param {Hit | null} hit @param {number} x @param {number} y */
  hover(hit, x, y) {
    const layer = hit && this.picture.layers[hit.layer];
    if (hit && layer) this.tooltip.show(layer, hit, describe(layer, hit, this.wholeWidth(), this.alone), x, y);
    else this.tooltip.hide();
  }

  /** Puts the keyboard's mark on a box. @param {Hit} hit @param {boolean} reveals */
  focus(hit, reveals) {
    const { picture } = this;
    picture.focused = hit;
    if (reveals) picture.reveal(hit);
    picture.request(false);
    const { name, lines } = describe(picture.layers[hit.layer], hit, this.wholeWidth(), this.alone);
    this.say(`${name.slice(0, 300)}, ${lines.join(', ')}`);
    this.showStatus();
  }

  /** The line below the picture: what is focused, else what fills the width. */
  showStatus() {
    const { picture } = this;
    const layer = picture.layers[picture.focused?.layer ?? 0];
    if (!layer) return;
    const { name, lines } = describe(layer, picture.focused ?? { layer: 0, node: layer.zoom, hidden: false }, this.wholeWidth(), this.alone);
    this.status.replaceChildren(el('bdi', {}, labelName(name)), el('span', {}, lines.join(' \u00b7 ')));
  }

  /** @param {string} text */
  say(text) {
    this.said.textContent = text;
  }

  /** @param {string} text */
  async copy(text) {
    this.say(await copyText(text) ? TEXTS.copied : TEXTS.notCopied);
  }

  /** @param {Hit} hit */
  copyStack(hit) {
    const { slice } = this.picture.layers[hit.layer];
    return this.copy(pathTo(slice, hit.node).filter((at) => at || this.state.view === 'sandwich').reverse().map((at) => nameOf(slice, at)).join('\n'));
  }
}

/** A function by its name, or by the number of its frame after a `#`. @param {string} frame */
function whichOf(frame) {
  return /^#\d+$/.test(frame) ? { frame: Number(frame.slice(1)) } : { name: frame };
}

/** @param {Part} part */
function partKey({ side, node }) {
  return `${side}.${node}`;
}

/** @param {string} text @returns {Part | null} */
function readPart(text) {
  const found = /^(callers|callees)\.(\d+)$/.exec(text);
  return found && { side: /** @type {'callers' | 'callees'} */ (found[1]), node: Number(found[2]) };
}

/** Runs when the browser has nothing more urgent to do. @param {() => void} run */
function whenIdle(run) {
  // Safari has none.
  if (window.requestIdleCallback) window.requestIdleCallback(run, { timeout: 500 });
  else setTimeout(run, 50);
}
