/** The bar above the view: views, sample type, colours, filters, exports, search. */

import { grouped, percent } from './amounts.js';
import { DIFF_STEPS, MATCH_FILL, SELF_STEPS, SHADES } from './colours.js';
import { el } from './dom.js';
import { chips, openExports, openFilters, openKeys } from './popups.js';
import { TEXTS, fill, textOf } from './texts.js';
import { VIEWS } from './addresses.js';

/** @typedef {import('./app.js').App} App */

export class Toolbar {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.tabs = el('nav', { class: 'pv-tabs', 'aria-label': TEXTS.views });
    this.types = el('select', { 'aria-label': TEXTS.sampleType, onchange: () => app.chooseType(this.types.value) });
    this.colours = el('select', { 'aria-label': TEXTS.colourBy, onchange: () => app.go({ colour: /** @type {any} */ (this.colours.value) }) });
    const button = (/** @type {string} */ text, /** @type {(app: App, at: HTMLElement) => void} */ open) => {
      const made = el('button', { type: 'button', 'aria-haspopup': 'dialog', 'aria-expanded': 'false', onclick: () => open(app, made) }, text);
      return made;
    };
    this.filters = button(TEXTS.filters, openFilters);
    this.exports = button(TEXTS.exports, openExports);
    this.help = button('?', openKeys);
    this.help.setAttribute('aria-label', TEXTS.keys);
    this.search = el('input', { type: 'search', placeholder: TEXTS.search + '  /', 'aria-label': TEXTS.searchLabel, spellcheck: 'false',
      autocomplete: 'off', oninput: () => app.typeSearch(this.search.value), onkeydown: (/** @type {KeyboardEvent} */ event) => this.searchKey(event) });
    this.found = el('output', { class: 'pv-found' });
    const step = (/** @type {string} */ text, /** @type {string} */ title, /** @type {number} */ by) =>
      el('button', { type: 'button', title, 'aria-label': title, onclick: () => app.nextMatch(by) }, text);
    this.steps = [step('\u2039', TEXTS.previous, -1), step('\u203a', TEXTS.next, 1)];
    this.chips = el('div', { class: 'pv-chips', role: 'group', 'aria-label': TEXTS.filters });
    this.notes = el('ul', { class: 'pv-notes' });
    this.legend = el('div', { class: 'pv-legend' });
    this.whole = el('button', { type: 'button', class: 'pv-chip', hidden: true, onclick: () => app.zoomOut() }, TEXTS.reset);
    this.element = el('div', { class: 'pv-top' },
      el('div', { class: 'pv-bar' }, this.tabs, el('div', { class: 'pv-tools' }, this.types, this.colours, this.filters, this.exports, this.help)),
      el('div', { class: 'pv-bar pv-second' }, this.legend, el('div', { class: 'pv-find', role: 'search' }, this.found, this.search, ...this.steps)),
      this.chips, this.notes);
  }

  /** Shows the state. */
  update() {
    const { app } = this;
    const { state } = app;
    const head = app.root?.head;
    this.tabs.replaceChildren(...VIEWS.filter((view) => app.hasView(view)).map((view) => el('a', {
      href: app.address({ view }), 'aria-current': state.view === view && 'page', onclick: (/** @type {MouseEvent} */ event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        app.go({ view });
      } }, TEXTS[view])));
    const types = head?.sample_types ?? [];
    this.types.hidden = types.length < 2 || !app.canFilter();
    this.types.replaceChildren(...types.map(([kind], index) => el('option', { value: kind, selected: index === head?.sample_index }, kind)));
    const picture = ['flame', 'icicle', 'sandwich'].includes(state.view);
    this.colours.hidden = !picture;
    const colourings = head?.diff ? ['diff', 'package', 'self', 'kind'] : ['package', 'self', 'kind'];
    this.colours.replaceChildren(...colourings.map((colour) => el('option', { value: colour, selected: colour === app.colouring() },
      TEXTS[/** @type {'diff' | 'package' | 'self' | 'kind'} */ (colour)])));
    this.filters.hidden = !app.canFilter();
    if (document.activeElement !== this.search) this.search.value = state.search;
    const zoomed = state.view === 'sandwich' ? state.part : state.zoom;
    this.chips.replaceChildren(...(zoomed ? [this.whole] : []), ...chips(app));
    this.whole.hidden = !zoomed;
    this.notes.replaceChildren(...app.warnings.map((warning) => el('li', {}, el('bdi', {}, warning))),
      ...(head?.notes ?? []).map((note) => el('li', {}, el('bdi', {}, noteText(note)), ' ', shownBy(app, note))));
    this.showLegend();
  }

  showLegend() {
    const { app } = this;
    const picture = ['flame', 'icicle', 'sandwich'].includes(app.state.view);
    this.legend.replaceChildren(...(picture && app.root ? legend(app) : []));
  }

  /** Shows what the search found. */
  showFound() {
    const { app } = this;
    const { found } = app;
    const total = app.root ? app.root.width[0] : 0;
    this.search.setAttribute('aria-invalid', String(Boolean(app.searchError)));
    this.steps.forEach((button) => { button.hidden = !found; });
    if (app.searchError) this.found.textContent = app.searchError;
    else if (!found) this.found.textContent = '';
    else if (!found.frames.length) this.found.textContent = TEXTS.none;
    else {
      const width = found.total + (app.root?.head.diff ? (found.base_total ?? 0) * (app.root.head.diff.normalized ? app.root.head.diff.scale : 1) : 0);
      const count = found.frames.length === 1 ? TEXTS.frame : fill(TEXTS.frames, { n: grouped(found.frames.length) });
      this.found.textContent = (app.matchAt ? fill(TEXTS.place, app.matchAt) + ' \u00b7 ' : '') + fill(TEXTS.found, { share: percent(width, total), count });
    }
  }

  /** @param {KeyboardEvent} event */
  searchKey(event) {
    if (event.key === 'Enter') this.app.nextMatch(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape') {
      this.app.setSearch('');
      this.search.value = '';
      this.app.picture.over.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** @param {import('./slice.js').Note} note */
function noteText(note) {
  const text = fill(textOf('note', note.key, note.text), { ...note.values });
  return note.base ? fill(TEXTS.ofBase, { note: text }) : text;
}

/**
 * The link that shows what a note is about.
 * @param {App} app @param {import('./slice.js').Note} note
 */
function shownBy(app, { option }) {
  if (!option || !app.canFilter()) return '';
  const rest = app.state.options.filter(([key]) => key !== option[0]);
  return el('a', { href: app.address({ options: [...rest, option] }), onclick: (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    app.addOption(...option);
  } }, TEXTS.showThem);
}

/** @param {App} app */
function legend(app) {
  const head = app.root?.head;
  const colouring = app.colouring();
  const entry = (/** @type {string} */ fills, /** @type {string} */ text) => {
    const swatch = el('span', { class: 'pv-swatch', 'aria-hidden': true });
    swatch.style.background = fills;
    return el('span', {}, swatch, text);
  };
  const steps = (/** @type {string[]} */ colours) => `linear-gradient(90deg,${colours.join(',')})`;
  const entries = [];
  if (colouring === 'diff') {
    entries.push(entry(`repeating-linear-gradient(135deg,${DIFF_STEPS[1]} 0 3px,#6f9ad0 3px 5px)`, '\u2212 ' + TEXTS.shrunk),
      entry(DIFF_STEPS[5], TEXTS.same), entry(DIFF_STEPS[9], '+ ' + TEXTS.grown));
  } else if (colouring === 'self') entries.push(entry(steps(SELF_STEPS), TEXTS.legendSelf));
  else {
    const present = new Set(head?.kinds ?? '');
    for (const [kind, shades] of Object.entries(SHADES)) {
      if (present.has(kind) && !(kind === 'r' && present.size > 1)) entries.push(entry(colouring === 'kind' ? shades[0] : steps(shades.slice(0, 3)), textOf('kind', kind)));
    }
    if (colouring === 'package') entries.push(el('span', {}, TEXTS.legendPackage));
  }
  if (app.root && app.root.count < app.root.head.whole.nodes) entries.push(entry('repeating-linear-gradient(135deg,#d5d8dc 0 3px,#b9c0c8 3px 5px)', TEXTS.legendHidden));
  if (app.state.view === 'sandwich') entries.unshift(el('span', {}, TEXTS.aboveBelow));
  if (app.found) entries.push(entry(MATCH_FILL, TEXTS.match));
  return entries;
}
