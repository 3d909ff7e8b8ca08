/**
 * A slice of the call tree: the nodes that can be seen, as columns in preorder. What is below a node and was not sent is
 * counted: its width and its number of nodes follow from the totals and sizes.
 */

import { TEXTS } from './texts.js';

/**
 * @typedef {object} Head
 * @property {string} title
 * @property {[string, string][]} sample_types
 * @property {number} sample_index
 * @property {import('./amounts.js').Amount} amount
 * @property {string} [layout]
 * @property {{nodes: number, total: number, base_total?: number, depth: number}} whole
 * @property {number} profile_total
 * @property {number} node
 * @property {{normalized: boolean, scale: number}} [diff]
 * @property {number[]} frames
 * @property {string[]} names
 * @property {string} kinds
 * @property {number[]} packages
 * @property {string[]} package_names
 * @property {Record<string, string>} remarks
 * @property {number} nodes
 * @property {string[]} facts
 * @property {Note[]} notes
 */
/**
 * What the picture leaves out or lacks: English, the key and the values of other languages, the option that shows it.
 * @typedef {{key: string, text: string, values: string[], base?: boolean, option?: [string, string]}} Note
 */
/**
 * @typedef {object} Slice
 * @property {Head} head
 * @property {number} count
 * @property {Float64Array} number
 * @property {Int32Array} depth
 * @property {Uint32Array} frame
 * @property {Uint8Array} inlined
 * @property {Float64Array} size
 * @property {Float64Array} total
 * @property {Float64Array} self
 * @property {Float64Array | null} baseTotal
 * @property {Float64Array | null} baseSelf
 * @property {Int32Array} parent
 * @property {Int32Array} end
 * @property {Float64Array} left
 * @property {Float64Array} width
 * @property {Float64Array} hidden Width of what is below and was not sent.
 * @property {Float64Array} hiddenLeft Where it begins.
 * @property {Float64Array} hiddenNodes Its number of nodes.
 * @property {string[][]} forms Shorter names of frames, made when drawn.
 * @property {number} [wide] Parts of the width from which on nodes were asked for.
 */

/**
 * One column of varints.
 * @param {Uint8Array} bytes
 * @param {number} count
 * @param {boolean} zigzag
 */
function decodeColumn(bytes, count, zigzag) {
  const out = new Float64Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    let byte = bytes[at++];
    let value = byte & 127;
    let factor = 128;
    while (byte & 128) {
      byte = bytes[at++];
      value += (byte & 127) * factor;
      factor *= 128;
    }
    out[i] = zigzag ? value % 2 ? -(value + 1) / 2 : value / 2 : value;
  }
  if (at !== bytes.length) throw new Error('the call tree is damaged: a column has another length');
  return out;
}

/**
 * Decodes a slice.
 * @param {Uint8Array} bytes
 * @returns {Slice}
 */
export function decodeSlice(bytes) {
  if (String.fromCharCode(...bytes.subarray(0, 4)) !== 'PPT1') throw new Error('this is no call tree');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 4;
  const next = () => {
    const length = view.getUint32(at, true);
    at += 4 + length;
    if (at > bytes.length) throw new Error('the call tree is cut off');
    return bytes.subarray(at - length, at);
  };
  /** @type {Head} */
  const head = JSON.parse(new TextDecoder().decode(next()));
  const count = head.nodes;
  const [skip, up, frame, size, total, self] = [0, 0, 0, 0, 1, 1].map((zigzag) => decodeColumn(next(), count, zigzag === 1));
  const baseTotal = head.diff ? decodeColumn(next(), count, true) : null;
  const baseSelf = head.diff ? decodeColumn(next(), count, true) : null;
  const depth = new Int32Array(count);
  const frames = new Uint32Array(count);
  const inlined = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    skip[i] = i ? skip[i - 1] + 1 + skip[i] : skip[i];
    depth[i] = i ? depth[i - 1] + 1 - up[i] : 0;
    frames[i] = frame[i] >>> 2;
    inlined[i] = frame[i] & 3;
  }
  return placed({ head, count, number: skip, depth, frame: frames, inlined, size, total, self, baseTotal, baseSelf });
}

/**
 * Completes columns with what follows from them: relations, widths, places, and what is hidden.
 * @param {Pick<Slice, 'head' | 'count' | 'number' | 'depth' | 'frame' | 'inlined' | 'size' | 'total' | 'self' | 'baseTotal' | 'baseSelf'>} columns
 * @returns {Slice}
 */
export function placed(columns) {
  const { head, count, depth, size, total, self, baseTotal, baseSelf } = columns;
  const parent = new Int32Array(count).fill(-1);
  const end = new Int32Array(count).fill(count);
  const width = new Float64Array(count);
  const left = new Float64Array(count);
  const hidden = new Float64Array(count);
  const hiddenNodes = new Float64Array(count);
  const scale = head.diff && head.diff.normalized ? head.diff.scale : 1;
  /** @param {number} value @param {number} base */
  const wide = (value, base) => head.diff ? Math.max(0, value) + Math.max(0, base) * scale : Math.max(0, value);
  const next = new Float64Array(count);
  /** @type {number[]} */
  const open = [];
  for (let i = 0; i < count; i++) {
    while (open.length > depth[i]) end[open.pop() ?? 0] = i;
    width[i] = wide(total[i], baseTotal ? baseTotal[i] : 0);
    hidden[i] = width[i] - wide(self[i], baseSelf ? baseSelf[i] : 0);
    hiddenNodes[i] = size[i] - 1;
    const above = open.length ? open[open.length - 1] : -1;
    parent[i] = above;
    if (above >= 0) {
      left[i] = next[above];
      next[above] += width[i];
      hidden[above] -= width[i];
      hiddenNodes[above] -= size[i];
    }
    next[i] = left[i];
    open.push(i);
  }
  for (let i = 0; i < count; i++) if (hiddenNodes[i] <= 0 || hidden[i] < 0) hidden[i] = 0;
  return { ...columns, parent, end, left, width, hidden, hiddenLeft: next, hiddenNodes, forms: [] };
}

/**
 * Where the node of that number is, or -1.
 * @param {Slice} slice
 * @param {number} number
 */
export function positionOf(slice, number) {
  let low = 0;
  let high = slice.count - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (slice.number[middle] === number) return middle;
    if (slice.number[middle] < number) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/**
 * Positions from the root to the node.
 * @param {Slice} slice
 * @param {number} i
 */
export function pathTo(slice, i) {
  /** @type {number[]} */
  const path = [];
  for (let at = i; at >= 0; at = slice.parent[at]) path.push(at);
  return path.reverse();
}

/**
 * The name of a node's frame.
 * @param {Slice} slice
 * @param {number} i
 */
export function nameOf(slice, i) {
  return slice.head.names[slice.frame[i]] ?? '';
}

/**
 * The name that is shown: that of the root in the language of the page.
 * @param {Slice} slice
 * @param {number} i
 */
export function shownName(slice, i) {
  const name = nameOf(slice, i);
  return i === 0 && name === 'all' && slice.head.kinds[slice.frame[0]] === 'r' ? TEXTS.root : name;
}

/**
 * The node's path by names, the root left out.
 * @param {Slice} slice
 * @param {number} i
 */
export function namesTo(slice, i) {
  return pathTo(slice, i).slice(1).map((at) => nameOf(slice, at));
}

/**
 * The node that a path of names leads to, as far as it is there.
 * @param {Slice} slice
 * @param {string[]} names
 */
export function follow(slice, names) {
  let at = 0;
  for (const name of names) {
    let child = at + 1;
    while (child < slice.end[at] && nameOf(slice, child) !== name) child = slice.end[child];
    if (child >= slice.end[at]) break;
    at = child;
  }
  return at;
}
