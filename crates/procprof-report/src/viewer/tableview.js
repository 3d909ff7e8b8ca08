/** All functions as a table that can be sorted and filtered; a function leads to what calls it and what it calls. */

import { amountText, grouped, percent, signedText } from './amounts.js';
import { el, nameEl } from './dom.js';
import { labelName } from './names.js';
import { TEXTS, fill } from './texts.js';

/** @typedef {import('./app.js').App} App */
/** @typedef {import('./remote.js').Row} Row */

/** Rows fetched at a time. */
const ROWS_AT_ONCE = 500;

export class TableView {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.filter = el('input', { type: 'search', placeholder: TEXTS.filterTable, 'aria-label': TEXTS.filterTable, spellcheck: 'false',
      oninput: () => this.typed() });
    this.count = el('span', { class: 'pv-soft', role: 'status' });
    this.body = el('tbody');
    this.heads = el('tr');
    this.more = el('button', { type: 'button', hidden: true, onclick: () => this.load(this.rows.length) });
    this.element = el('div', { class: 'pv-table' }, el('div', { class: 'pv-table-top' }, this.filter, this.count),
      el('div', { class: 'pv-scroll' }, el('table', {}, el('thead', {}, this.heads), this.body), this.more));
    /** @type {Row[]} */
    this.rows = [];
    this.asked = 0;
  }

  typed() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.app.go({ filter: this.filter.value }, true), 200);
  }

  /** Shows what the state asks for. */
  async show() {
    const { state, root } = this.app;
    if (document.activeElement !== this.filter) this.filter.value = state.filter;
    const diff = Boolean(root?.head.diff);
    const sort = state.sort || (diff ? 'self_change' : 'self');
    const column = (/** @type {string} */ key, /** @type {string} */ text, /** @type {string} */ kind) => el('th', { scope: 'col', class: kind,
      'aria-sort': key === sort && (key === 'name' ? 'ascending' : 'descending') },
    key ? el('button', { type: 'button', onclick: () => this.app.go({ sort: key }, true) }, text) : text);
    this.heads.replaceChildren(column('self', TEXTS.selfName, 'pv-number'), column('', '%', 'pv-number'),
      ...(diff ? [column('self_change', TEXTS.selfChange, 'pv-number')] : []), column('total', TEXTS.total, 'pv-number'), column('', '%', 'pv-number'),
      ...(diff ? [column('', TEXTS.base, 'pv-number'), column('change', TEXTS.totalChange, 'pv-number')] : []), column('name', TEXTS.function, ''));
    await this.load(0);
  }

  /** @param {number} offset */
  async load(offset) {
    const { app } = this;
    const asked = ++this.asked;
    const { state, root } = app;
    try {
      const sort = state.sort || (root?.head.diff ? 'self_change' : 'self');
      const got = await app.source.table({ sort, re: state.filter, limit: ROWS_AT_ONCE, offset });
      if (asked !== this.asked || !root) return;
      this.rows = offset ? [...this.rows, ...got.rows] : got.rows;
      const made = got.rows.map((row) => this.row(row, root.head));
      if (offset) this.body.append(...made);
      else this.body.replaceChildren(...made);
      this.filter.setAttribute('aria-invalid', 'false');
      this.count.textContent = fill(TEXTS.rows, { shown: grouped(this.rows.length), all: grouped(got.all) });
      this.more.hidden = this.rows.length >= got.all;
      this.more.textContent = fill(TEXTS.more, { n: grouped(Math.min(ROWS_AT_ONCE, got.all - this.rows.length)) });
    } catch (error) {
      if (asked !== this.asked) return;
      this.filter.setAttribute('aria-invalid', 'true');
      this.count.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** @param {Row} row @param {import('./slice.js').Head} head */
  row(row, head) {
    const { amount, whole } = head;
    const scale = head.diff && head.diff.normalized ? head.diff.scale : 1;
    const [baseSelf, base] = [(row.base_self ?? 0) * scale, (row.base_total ?? 0) * scale];
    const value = (/** @type {number} */ one) => el('td', { class: 'pv-number' }, amountText(amount, one));
    const share = (/** @type {number} */ one) => {
      const cell = el('td', { class: 'pv-number pv-share' }, percent(one, whole.total));
      cell.style.setProperty('--share', String(Math.max(0, Math.min(1, whole.total ? one / whole.total : 0))));
      return cell;
    };
    const changed = (/** @type {number} */ by, mark = '') => el('td', { class: `pv-number ${by > 0 ? 'pv-up' : by < 0 ? 'pv-down' : ''}` },
      signedText(amount, by) + mark);
    const mark = base === 0 && row.total ? ` ${TEXTS.isNew}` : base && !row.total ? ` ${TEXTS.isGone}` : '';
    return el('tr', {}, value(row.self), share(row.self), ...(head.diff ? [changed(row.self - baseSelf)] : []),
      value(row.total), share(row.total), ...(head.diff ? [value(base), changed(row.total - base, mark)] : []),
      el('td', {}, el('a', { href: this.app.address({ view: 'sandwich', frame: row.name }), title: TEXTS.sandwich,
        onclick: (/** @type {MouseEvent} */ event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          this.app.openSandwich(row.name);
        } }, nameEl(labelName(row.name)))));
  }
}
