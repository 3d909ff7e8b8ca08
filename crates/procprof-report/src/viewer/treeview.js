/**
 * The call tree as a tree grid of real elements, for screen readers and for reading in order. Only the rows in sight are
 * elements.
 */

import { amountText, grouped, percent } from './amounts.js';
import { el, nameEl } from './dom.js';
import { labelName } from './names.js';
import { changeMark } from './picture.js';
import { shownName, positionOf } from './slice.js';
import { TEXTS, fill } from './texts.js';

/** @typedef {import('./app.js').App} App */
/** @typedef {import('./slice.js').Slice} Slice */
/** @typedef {{slice: Slice, node: number, level: number, hidden: boolean}} Line */

const LINE_HEIGHT = 26;

export class TreeView {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** Numbers of the nodes that are open. @type {Set<number>} */
    this.open = new Set([0]);
    /** @type {Line[]} */
    this.lines = [];
    this.at = 0;
    /** The loading whose tree is shown. */
    this.shown = 0;
    this.pad = el('div', { class: 'pv-tree-pad', role: 'rowgroup' });
    this.element = el('div', { class: 'pv-tree', role: 'treegrid', 'aria-label': TEXTS.treeLabel, tabindex: '0', onscroll: () => this.draw(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event) });
    this.heads = el('div', { class: 'pv-tree-row pv-tree-head', role: 'row' });
    this.element.append(el('div', { role: 'rowgroup', class: 'pv-tree-heads' }, this.heads), this.pad);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Shows the tree, opened along its widest path the first time. */
  show() {
    const { root, state } = this.app;
    if (!root) return;
    if (this.shown !== this.app.generation) {
      this.shown = this.app.generation;
      this.open = new Set([0]);
      this.at = 0;
      const zoomed = this.app.best(state.zoom);
      let node = zoomed ? positionOf(zoomed, state.zoom) : 0;
      const slice = zoomed ?? root;
      for (let up = node; up >= 0; up = slice.parent[up]) this.open.add(slice.number[up]);
      for (let step = 0; step < 12 && node < slice.end[node]; step++) {
        this.open.add(slice.number[node]);
        let best = -1;
        for (let child = node + 1; child < slice.end[node]; child = slice.end[child]) {
          if (best < 0 || slice.width[child] > slice.width[best]) best = child;
        }
        if (best < 0 || slice.width[best] < slice.width[node] / 2) break;
        node = best;
      }
    }
    const cell = (/** @type {string} */ text, /** @type {string} */ kind) => el('span', { role: 'columnheader', class: kind }, text);
    this.heads.replaceChildren(cell(TEXTS.function, ''), ...(root.head.diff ? [cell(TEXTS.change, 'pv-number')] : []), cell(TEXTS.total, 'pv-number'),
      cell('%', 'pv-number'), cell(TEXTS.selfName, 'pv-number'));
    this.list();
  }

  /** Lists the lines of open nodes. */
  list() {
    const { app } = this;
    this.lines = [];
    /** @type {Line[]} */
    const stack = [{ slice: app.best(0) ?? app.rootSlice(), node: 0, level: 1, hidden: false }];
    while (stack.length) {
      const line = /** @type {Line} */ (stack.pop());
      this.lines.push(line);
      if (line.hidden || !this.open.has(line.slice.number[line.node])) continue;
      const number = line.slice.number[line.node];
      const slice = app.best(number) ?? line.slice;
      const node = positionOf(slice, number);
      const below = [];
      for (let child = node + 1; child < slice.end[node]; child = slice.end[child]) below.push(child);
      below.sort((one, other) => slice.width[one] - slice.width[other]);
      if (slice.hiddenNodes[node] > 0) stack.push({ slice, node, level: line.level + 1, hidden: true });
      for (const child of below) stack.push({ slice, node: child, level: line.level + 1, hidden: false });
    }
    this.at = Math.min(this.at, this.lines.length - 1);
    this.element.setAttribute('aria-rowcount', String(this.lines.length + 1));
    this.pad.style.height = `${this.lines.length * LINE_HEIGHT}px`;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / LINE_HEIGHT) - 5);
    const last = Math.min(this.lines.length, first + Math.ceil(this.element.clientHeight / LINE_HEIGHT) + 12);
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.line(at));
    this.pad.replaceChildren(...rows);
    const current = this.at >= first && this.at < last;
    if (current) this.element.setAttribute('aria-activedescendant', `pv-line-${this.at}`);
    else this.element.removeAttribute('aria-activedescendant');
  }

  /** @param {number} at */
  line(at) {
    const { slice, node, level, hidden } = this.lines[at];
    const { head } = slice;
    const leaf = slice.size[node] <= 1;
    const open = !hidden && this.open.has(slice.number[node]);
    const value = hidden ? slice.hidden[node] : slice.total[node];
    const text = hidden ? '\u2026 ' + fill(slice.hiddenNodes[node] === 1 ? TEXTS.hiddenOne : TEXTS.hidden,
      { n: grouped(slice.hiddenNodes[node]), share: percent(slice.hidden[node], slice.width[0]) }) : labelName(shownName(slice, node));
    const cell = (/** @type {string} */ content) => el('span', { role: 'gridcell', class: 'pv-number' }, content);
    const row = el('div', { role: 'row', id: `pv-line-${at}`, class: 'pv-tree-row' + (at === this.at ? ' pv-at' : ''), 'aria-level': level,
      'aria-rowindex': at + 2, 'aria-expanded': !leaf && !hidden && String(open), onclick: () => this.toggle(at) },
    el('span', { role: 'gridcell' }, el('span', { class: 'pv-twist', 'aria-hidden': true }, hidden || leaf ? '' : open ? '\u25be' : '\u25b8'), nameEl(text)),
    ...(head.diff ? [cell(hidden ? '' : changeMark(slice, node))] : []), cell(amountText(head.amount, value)),
    cell(percent(hidden ? slice.hidden[node] : slice.width[node], slice.width[0])), cell(hidden ? '' : amountText(head.amount, slice.self[node])));
    row.style.top = `${at * LINE_HEIGHT}px`;
    row.style.setProperty('--level', String(Math.min(level, 60)));
    return row;
  }

  /** Opens or closes a line; what was not sent is asked for. @param {number} at */
  async toggle(at) {
    this.at = at;
    const line = this.lines[at];
    const number = line.slice.number[line.node];
    if (line.hidden) await this.app.refine(number);
    else if (this.open.has(number)) this.open.delete(number);
    else {
      this.open.add(number);
      const slice = this.app.best(number);
      const node = slice ? positionOf(slice, number) : -1;
      if (slice && node >= 0 && slice.end[node] === node + 1 && slice.size[node] > 1) await this.app.refine(number);
    }
    this.list();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const line = this.lines[this.at];
    if (!line) return;
    const isOpen = this.open.has(line.slice.number[line.node]) && !line.hidden;
    const moves = /** @type {Record<string, () => number | void>} */ ({
      ArrowDown: () => this.at + 1, ArrowUp: () => this.at - 1, Home: () => 0, End: () => this.lines.length - 1,
      PageDown: () => this.at + 20, PageUp: () => this.at - 20,
      ArrowRight: () => isOpen ? this.at + 1 : void this.toggle(this.at),
      ArrowLeft: () => isOpen && line.slice.size[line.node] > 1 ? void this.toggle(this.at) : this.above(),
      Enter: () => void this.app.go({ view: 'flame', zoom: line.slice.number[line.node] }),
      ' ': () => void this.toggle(this.at),
    });
    if (!Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    const to = moves[event.key]();
    if (typeof to !== 'number') return;
    this.at = Math.max(0, Math.min(this.lines.length - 1, to));
    const y = this.at * LINE_HEIGHT;
    if (y < this.element.scrollTop) this.element.scrollTop = y;
    else if (y + 2 * LINE_HEIGHT > this.element.scrollTop + this.element.clientHeight) this.element.scrollTop = y + 2 * LINE_HEIGHT - this.element.clientHeight;
    this.draw();
  }

  above() {
    const { level } = this.lines[this.at];
    let at = this.at;
    while (at > 0 && this.lines[at].level >= level) at--;
    return at;
  }
}
