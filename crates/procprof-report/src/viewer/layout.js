/**
 * Places of boxes on the screen. Only what is wide enough becomes a box; narrower neighbours of a row become one run, and
 * what was not sent becomes a hatched box, so that cost follows what is seen, and nothing is left out unseen.
 */

/** @typedef {import('./slice.js').Slice} Slice */
/**
 * A tree on the picture; its root is in row 0, and its rows go up or down from there. Callers of a function name the tree
 * of its callees.
 * @typedef {{slice: Slice, zoom: number, up: boolean, callees?: Slice}} Layer
 */
/** @typedef {{layer: number, node: number, hidden: boolean}} Hit */

/** Narrower boxes are merged with their neighbours, in px. */
export const RUN_BELOW = 2;
/** What stands on narrower boxes is not visited, in px. */
const VISIT_FROM = 0.35;

export const BOX = 0;
export const RUN = 1;
export const HIDDEN = 2;

/** Boxes to draw, as columns. */
export class Boxes {
  constructor() {
    this.count = 0;
    /** Deepest rows above and below row 0. */
    this.above = 0;
    this.below = 0;
    this.grow(1024);
  }

  /** @param {number} size */
  grow(size) {
    const copy = (/** @type {any} */ made, /** @type {any} */ old) => {
      if (old) made.set(old);
      return made;
    };
    this.x = copy(new Float64Array(size), this.x);
    this.w = copy(new Float64Array(size), this.w);
    this.row = copy(new Int32Array(size), this.row);
    this.node = copy(new Int32Array(size), this.node);
    this.what = copy(new Uint8Array(size), this.what);
    this.layer = copy(new Uint8Array(size), this.layer);
  }

  /**
   * @param {number} layer @param {number} what @param {number} node @param {number} row
   * @param {number} x @param {number} w
   */
  push(layer, what, node, row, x, w) {
    if (this.count === this.x.length) this.grow(this.count * 2);
    const at = this.count++;
    this.layer[at] = layer;
    this.what[at] = what;
    this.node[at] = node;
    this.row[at] = row;
    this.x[at] = x;
    this.w[at] = w;
    if (row > this.above) this.above = row;
    if (-row > this.below) this.below = -row;
    return at;
  }
}

/**
 * All boxes of the layers at this width.
 * @param {Layer[]} layers
 * @param {number} width
 */
export function arrange(layers, width) {
  const boxes = new Boxes();
  layers.forEach((layer, index) => arrangeLayer(boxes, layer, index, width));
  return boxes;
}

/**
 * @param {Boxes} boxes @param {Layer} layer @param {number} index @param {number} width
 */
function arrangeLayer(boxes, layer, index, width) {
  const { slice, zoom } = layer;
  const { depth, end, left, hidden, hiddenLeft } = slice;
  const wide = slice.width;
  const sign = layer.up ? 1 : -1;
  for (let at = slice.parent[zoom]; at >= 0; at = slice.parent[at]) boxes.push(index, BOX, at, sign * depth[at], 0, width);
  const scale = wide[zoom] > 0 ? width / wide[zoom] : 0;
  const origin = left[zoom];
  /** The box of the open run of each row, or -1. @type {number[]} */
  const runs = [];
  const narrow = (/** @type {number} */ node, /** @type {number} */ down, /** @type {number} */ x, /** @type {number} */ w) => {
    const open = runs[down] ?? -1;
    if (open >= 0 && x - (boxes.x[open] + boxes.w[open]) < 1) {
      if (w > wide[boxes.node[open]] * scale) boxes.node[open] = node;
      boxes.w[open] = x + w - boxes.x[open];
    } else runs[down] = boxes.push(index, RUN, node, sign * down, x, w);
  };
  const last = end[zoom];
  for (let i = zoom; i < last;) {
    const w = i === zoom ? width : wide[i] * scale;
    const x = (left[i] - origin) * scale;
    if (w < RUN_BELOW && i !== zoom) {
      if (w > 0) narrow(i, depth[i], x, w);
      i = w < VISIT_FROM ? end[i] : i + 1;
      continue;
    }
    boxes.push(index, BOX, i, sign * depth[i], x, w);
    const unsent = hidden[i] * scale;
    if (unsent >= RUN_BELOW) boxes.push(index, HIDDEN, i, sign * (depth[i] + 1), (hiddenLeft[i] - origin) * scale, unsent);
    else if (unsent > 0) narrow(i, depth[i] + 1, (hiddenLeft[i] - origin) * scale, unsent);
    i++;
  }
}

/**
 * The node at a place, however narrow it is.
 * @param {Layer[]} layers
 * @param {number} width
 * @param {number} x
 * @param {number} row
 * @returns {Hit | null}
 */
export function hitTest(layers, width, x, row) {
  const index = layers.findIndex((layer) => row === 0 || layer.up === row > 0);
  if (index < 0 || x < 0 || x >= width) return null;
  const { slice, zoom } = layers[index];
  const wanted = Math.abs(row);
  let at = zoom;
  while (slice.depth[at] > wanted) at = slice.parent[at];
  const place = slice.left[zoom] + x / width * slice.width[zoom];
  while (slice.depth[at] < wanted) {
    let child = at + 1;
    while (child < slice.end[at] && (slice.left[child] + slice.width[child] <= place || slice.width[child] === 0)) child = slice.end[child];
    if (child >= slice.end[at] || slice.left[child] > place) {
      const from = slice.hiddenLeft[at];
      const inside = slice.depth[at] + 1 === wanted && place >= from && place < from + slice.hidden[at];
      return inside ? { layer: index, node: at, hidden: true } : null;
    }
    at = child;
  }
  return { layer: index, node: at, hidden: false };
}
