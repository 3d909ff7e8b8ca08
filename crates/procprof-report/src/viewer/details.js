/** What is known of a node, in words: for the tooltip, the line below the picture, and screen readers. */

import { amountText, percent, signedText } from './amounts.js';
import { el, nameEl } from './dom.js';
import { wholeName } from './names.js';
import { baseOf, changeMark, hiddenText } from './picture.js';
import { shownName } from './slice.js';
import { TEXTS, fill, textOf } from './texts.js';

/** @typedef {import('./layout.js').Layer} Layer */
/** @typedef {import('./layout.js').Hit} Hit */

/**
 * Name and facts of what was hit.
 * @param {Layer} layer @param {Hit} hit @param {number} whole Width that is 100 %.
 * @param {boolean} alone Whether no more can be asked for.
 * @returns {{name: string, lines: string[], remark: string}}
 */
export function describe(layer, hit, whole, alone) {
  const { slice, zoom } = layer;
  const { head } = slice;
  const i = hit.node;
  if (hit.hidden) return { name: hiddenText(slice, i), lines: [alone ? TEXTS.hiddenAlone : TEXTS.hiddenHelp], remark: '' };
  const lines = slice.baseTotal ? changes(slice, i) : [`${amountText(head.amount, slice.total[i])} ${measureOf(head)}`];
  const own = selfOf(layer, i);
  if (own !== null) {
    const share = slice.baseTotal ? '' : ` (${percent(own, whole)})`;
    lines.push(fill(TEXTS.selfIs, { value: amountText(head.amount, own) + share }));
  }
  const shares = [fill(TEXTS.ofAll, { share: percent(slice.width[i], whole) })];
  if (zoom && slice.depth[i] >= slice.depth[zoom]) shares.push(fill(TEXTS.ofView, { share: percent(slice.width[i], slice.width[zoom]) }));
  const above = slice.parent[i];
  if (above >= 0 && above !== zoom && above) shares.push(fill(TEXTS.ofParent, { share: percent(slice.width[i], slice.width[above]) }));
  lines.push(shares.join(' \u00b7 '));
  if (i) lines.push(kindText(slice, i));
  const remark = head.remarks[slice.frame[i]];
  return { name: wholeName(shownName(slice, i)), lines, remark: remark ? wholeName(remark) : '' };
}

/** What the values count. @param {import('./slice.js').Head} head */
function measureOf(head) {
  return textOf('what', head.amount.kind, head.amount.what);
}

/** @param {import('./slice.js').Slice} slice @param {number} i */
function changes(slice, i) {
  const { amount } = slice.head;
  const base = baseOf(slice, i);
  const value = (/** @type {number} */ one, /** @type {number} */ whole) => ({ value: amountText(amount, one), share: percent(one, whole) });
  return [
    `${fill(TEXTS.now, value(slice.total[i], slice.total[0]))} \u00b7 ${fill(TEXTS.before, value(base, baseOf(slice, 0)))}`,
    `${fill(TEXTS.changed, { value: signedText(amount, slice.total[i] - base) })} (${changeMark(slice, i)})`,
  ];
}

/**
 * What a node spends by itself. Among callers, which stand upside down, only the function itself has a value of its own.
 * @param {import('./layout.js').Layer} layer @param {number} i
 */
function selfOf({ slice, callees }, i) {
  if (!callees) return slice.self[i];
  return i ? null : callees.self[0];
}

/** @param {import('./slice.js').Slice} slice @param {number} i */
function kindText(slice, i) {
  const kind = textOf('kind', slice.head.kinds[slice.frame[i]]);
  const inlined = ['', TEXTS.partly, TEXTS.inlined][slice.inlined[i]];
  const from = slice.head.package_names[slice.head.packages[slice.frame[i]]];
  return [kind, inlined, from && wholeName(from), fill(TEXTS.depth, { n: slice.depth[i] })].filter(Boolean).join(' \u00b7 ');
}

/** The box beside the pointer. */
export class Tooltip {
  constructor() {
    this.box = el('div', { class: 'pv-tip', hidden: true });
    this.key = '';
    /** @type {Layer | null} */
    this.layer = null;
  }

  /** @param {Layer} layer @param {Hit} hit @param {ReturnType<typeof describe>} described @param {number} x @param {number} y */
  show(layer, hit, described, x, y) {
    const { name, lines, remark } = described;
    const key = `${hit.layer} ${hit.node} ${hit.hidden}`;
    if (this.key !== key || this.layer !== layer) {
      this.box.replaceChildren(nameEl(name, 'pv-tip-name'), ...lines.map((line) => el('div', {}, line)), ...(remark ? [el('div', { class: 'pv-soft' }, remark)] : []));
    }
    this.key = key;
    this.layer = layer;
    this.box.hidden = false;
    const { offsetWidth: wide, offsetHeight: high } = this.box;
    this.box.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - wide - 8))}px`;
    this.box.style.top = `${y + 20 + high > window.innerHeight ? Math.max(4, y - high - 12) : y + 20}px`;
  }

  hide() {
    this.box.hidden = true;
  }
}
