/** The data of a view, from the one slice inside a file that stands alone: what the server computes otherwise. */

import { placed } from './slice.js';

/** @typedef {import('./slice.js').Slice} Slice */
/** @typedef {{frame: number, inlined: number, total: number, self: number, baseTotal: number, baseSelf: number, size: number, below: Map<number, Merged>}} Merged */

/** @typedef {import('./remote.js').Source} Source */

/** @implements {Source} */
export class Local {
  /** @param {Slice} slice */
  constructor(slice) {
    this.slice = slice;
  }

  choose() {}

  async first() {
    return this.slice;
  }

  async tree() {
    return this.slice;
  }

  /** @param {string} re */
  async search(re) {
    return searchSlice(this.slice, re);
  }

  /** @param {import('./remote.js').RowsWanted} wanted */
  async table(wanted) {
    return tableOf(this.slice, wanted);
  }

  /** @param {import('./remote.js').Which} which @param {'callers' | 'callees'} side */
  async side(which, side) {
    return (await this.sandwich(which))[side === 'callers' ? 0 : 1];
  }

  /** @param {import('./remote.js').Which} which @returns {Promise<[Slice, Slice]>} */
  async sandwich(which) {
    const { frames, names } = this.slice.head;
    const index = 'frame' in which ? frames.indexOf(which.frame) : names.indexOf(which.name);
    if (index < 0) throw new Error('the function is not in this view');
    return sandwichOf(this.slice, index);
  }
}

/**
 * The expression, with Rust's `(?i)` at its start.
 * @param {string} re
 */
function expression(re) {
  const flags = /^\(\?([is]+)\)/.exec(re);
  return new RegExp(flags ? re.slice(flags[0].length) : re, flags ? flags[1] + 'u' : 'u');
}

/**
 * Frames that match, and their value without double counting.
 * @param {Slice} slice @param {string} re
 */
export function searchSlice(slice, re) {
  const pattern = expression(re);
  const matches = slice.head.names.map((name) => pattern.test(name));
  /** @type {import('./remote.js').Found} */
  const found = { frames: [], nodes: 0, total: 0, ...(slice.baseTotal ? { base_total: 0 } : {}) };
  const used = new Set();
  let covered = 0;
  for (let i = 0; i < slice.count; i++) {
    if (i === 0 || !matches[slice.frame[i]]) continue;
    found.nodes++;
    used.add(slice.head.frames[slice.frame[i]]);
    if (i < covered) continue;
    covered = slice.end[i];
    found.total += slice.total[i];
    if (slice.baseTotal) found.base_total = (found.base_total ?? 0) + slice.baseTotal[i];
  }
  found.frames = [...used].sort((one, other) => one - other);
  return found;
}

/**
 * The functions; a total counts a function that calls itself once.
 * @param {Slice} slice @param {import('./remote.js').RowsWanted} wanted
 */
export function tableOf(slice, wanted) {
  const { head, frame, total, self, baseTotal, baseSelf, end } = slice;
  /** @type {import('./remote.js').Row[]} */
  const all = head.names.map((name, index) => ({ frame: head.frames[index], name, kind: head.kinds[index], self: 0, total: 0,
    ...(head.diff ? { base_self: 0, base_total: 0 } : {}), nodes: 0 }));
  const openUntil = new Int32Array(all.length);
  for (let i = 1; i < slice.count; i++) {
    const row = all[frame[i]];
    row.nodes++;
    row.self += self[i];
    if (baseSelf) row.base_self = (row.base_self ?? 0) + baseSelf[i];
    if (i < openUntil[frame[i]]) continue;
    openUntil[frame[i]] = end[i];
    row.total += total[i];
    if (baseTotal) row.base_total = (row.base_total ?? 0) + baseTotal[i];
  }
  const pattern = expression(wanted.re);
  const rows = all.filter((row) => row.nodes && pattern.test(row.name));
  const scale = head.diff && head.diff.normalized ? head.diff.scale : 1;
  /** The values that order a row, largest first. @param {import('./remote.js').Row} row @returns {number[]} */
  const keys = (row) => {
    const { base_self: baseSelf = 0, base_total: baseTotal = 0 } = row;
    if (wanted.sort === 'name') return [];
    const changes = [Math.abs(row.self - baseSelf * scale), Math.abs(row.total - baseTotal * scale)];
    if (wanted.sort === 'self_change') return changes;
    if (wanted.sort === 'change') return changes.reverse();
    const own = Math.abs(row.self) + Math.abs(baseSelf);
    const whole = Math.abs(row.total) + Math.abs(baseTotal);
    return wanted.sort === 'total' ? [whole, own] : [own, whole];
  };
  // Frames are numbered by name.
  rows.sort((one, other) => {
    const [ones, others] = [keys(one), keys(other)];
    return (others[0] ?? 0) - (ones[0] ?? 0) || (others[1] ?? 0) - (ones[1] ?? 0) || one.frame - other.frame;
  });
  return { rows: rows.slice(wanted.offset, wanted.offset + wanted.limit), all: rows.length };
}

/**
 * What calls a function, and what it calls.
 * @param {Slice} slice @param {number} index
 * @returns {[Slice, Slice]}
 */
export function sandwichOf(slice, index) {
  const callers = merged(index, 0);
  const callees = merged(index, 0);
  for (let i = 1; i < slice.count;) {
    if (slice.frame[i] !== index) {
      i++;
      continue;
    }
    for (const root of [callers, callees]) root.inlined = root.total || root.baseTotal ? joint(root.inlined, slice.inlined[i]) : slice.inlined[i];
    let at = callers;
    add(at, slice, i, false);
    for (let up = slice.parent[i]; up > 0; up = slice.parent[up]) {
      at = child(at, slice.frame[up], slice.inlined[up]);
      add(at, slice, i, false);
    }
    leaf(at, slice, i);
    graft(callees, slice, i);
    i = slice.end[i];
  }
  return [flattened(slice, callers), flattened(slice, callees)];
}

/** @param {number} frame @param {number} inlined @returns {Merged} */
function merged(frame, inlined) {
  return { frame, inlined, total: 0, self: 0, baseTotal: 0, baseSelf: 0, size: 1, below: new Map() };
}

/** Of two kinds of calls: one of them, or partly inlined. @param {number} one @param {number} other */
function joint(one, other) {
  return one === other ? one : 1;
}

/** @param {Merged} node @param {number} frame @param {number} inlined */
function child(node, frame, inlined) {
  const known = node.below.get(frame);
  if (known) {
    known.inlined = joint(known.inlined, inlined);
    return known;
  }
  const made = merged(frame, inlined);
  node.below.set(frame, made);
  return made;
}

/** @param {Merged} node @param {Slice} slice @param {number} i @param {boolean} withSelf */
function add(node, slice, i, withSelf) {
  node.total += slice.total[i];
  if (slice.baseTotal) node.baseTotal += slice.baseTotal[i];
  if (!withSelf) return;
  node.self += slice.self[i];
  if (slice.baseSelf) node.baseSelf += slice.baseSelf[i];
}

/** @param {Merged} node @param {Slice} slice @param {number} i */
function leaf(node, slice, i) {
  node.self += slice.total[i];
  if (slice.baseTotal) node.baseSelf += slice.baseTotal[i];
}

/** Merges what stands on a node. @param {Merged} into @param {Slice} slice @param {number} from */
function graft(into, slice, from) {
  /** @type {Merged[]} */
  const open = [into];
  const level = slice.depth[from];
  for (let i = from; i < slice.end[from]; i++) {
    const down = slice.depth[i] - level;
    const node = down === 0 ? into : child(open[down - 1], slice.frame[i], slice.inlined[i]);
    open[down] = node;
    add(node, slice, i, true);
    node.size += slice.hidden[i] > 0 ? slice.hiddenNodes[i] : 0;
  }
}

/**
 * Lays a merged tree out as a slice, siblings by name.
 * @param {Slice} slice @param {Merged} root
 */
function flattened(slice, root) {
  /** @type {{node: Merged, depth: number}[]} */
  const order = [];
  const stack = [{ node: root, depth: 0 }];
  const frames = slice.head.frames;
  while (stack.length) {
    const next = stack.pop();
    if (!next) break;
    order.push(next);
    const below = [...next.node.below.values()].sort((one, other) => frames[other.frame] - frames[one.frame]);
    for (const node of below) stack.push({ node, depth: next.depth + 1 });
  }
  for (let at = order.length - 1, open = /** @type {number[]} */ ([]); at >= 0; at--) {
    const { node, depth } = order[at];
    node.size += open[depth + 1] ?? 0;
    open[depth + 1] = 0;
    open[depth] = (open[depth] ?? 0) + node.size;
  }
  const column = (/** @type {(node: Merged) => number} */ of) => Float64Array.from(order, ({ node }) => of(node));
  const whole = { nodes: root.size, total: root.total, depth: 0, ...(slice.head.diff ? { base_total: root.baseTotal } : {}) };
  return placed({
    head: { ...slice.head, whole, node: 0, nodes: order.length }, count: order.length,
    number: Float64Array.from(order.keys()), depth: Int32Array.from(order, ({ depth }) => depth),
    frame: Uint32Array.from(order, ({ node }) => node.frame), inlined: Uint8Array.from(order, ({ node }) => node.inlined),
    size: column((node) => node.size), total: column((node) => node.total), self: column((node) => node.self),
    baseTotal: slice.baseTotal && column((node) => node.baseTotal), baseSelf: slice.baseSelf && column((node) => node.baseSelf),
  });
}
