/** Fills of boxes; dark text reads on all of them, in light and dark. `palette.rs` has the same shades by kind. */

/** @typedef {import('./slice.js').Slice} Slice */
/** @typedef {'package' | 'self' | 'kind' | 'diff'} Colouring */

/** @type {Record<string, string[]>} */
export const SHADES = {
  n: ['#f7a65b', '#fbc95f', '#f5957a', '#fcd99a', '#f9b584', '#eebf57'],
  g: ['#74c8dc', '#8fb9ee', '#7dd3c0', '#a9dcea', '#93cdf2', '#5fbcd0'],
  j: ['#93cf83', '#b5d96b', '#7cc79a', '#c9e4a0', '#a3d5a6', '#8fc46a'],
  k: ['#d9a5e0', '#caa6e6', '#e3b0d8', '#c0adec', '#e9bbdf', '#d4b5ef'],
  u: ['#c3c7cc', '#ced2d6', '#b9bec4', '#d6d9dc', '#c8ccd0', '#bfc4c9'],
  r: ['#dedcd3', '#e4e2da', '#d8d6cc', '#e8e6df', '#e0ded6', '#dad8cf'],
};
/** From none of its total to all of it. */
export const SELF_STEPS = ['#e9e6df', '#f3e3b3', '#fad98a', '#fcc766', '#f9ae4f', '#f59247', '#f0784a'];
/** From all gone over unchanged to all new. */
export const DIFF_STEPS = ['#6fa8ec', '#8fbcf1', '#adcff5', '#cbe0f7', '#e4ebf2', '#e7e5e0', '#f6e4cf', '#fbd3a8', '#fbbd7d', '#f9a655', '#f48f35'];
export const MATCH_FILL = '#f078f0';
export const ROOT_FILL = '#dedcd3';

/**
 * FNV-1a over UTF-8, as `palette.rs` computes it.
 * @param {string} text
 */
function shadeOf(text) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return ((hash >>> 0) >>> 7) % 6;
}

/**
 * The change of a node as a share of the larger of both values, -1 to 1; 1 is new, -1 is gone.
 * @param {number} total
 * @param {number} base
 */
export function changeShare(total, base) {
  const most = Math.max(Math.abs(total), Math.abs(base));
  return most ? (total - base) / most : 0;
}

/**
 * The fill of each node of a slice.
 * @param {Slice} slice
 * @param {Colouring} colouring
 * @returns {(node: number) => string}
 */
export function fillsOf(slice, colouring) {
  const known = FILLS.get(slice)?.get(colouring);
  if (known) return known;
  const made = makeFills(slice, colouring);
  FILLS.set(slice, (FILLS.get(slice) ?? new Map()).set(colouring, made));
  return made;
}

/** Fills made so far. @type {WeakMap<Slice, Map<Colouring, (node: number) => string>>} */
const FILLS = new WeakMap();

/**
 * @param {Slice} slice
 * @param {Colouring} colouring
 * @returns {(node: number) => string}
 */
function makeFills(slice, colouring) {
  const { head, frame, inlined, total, self, baseTotal } = slice;
  if (colouring === 'diff' && baseTotal) {
    const scale = head.diff && head.diff.normalized ? head.diff.scale : 1;
    return (i) => DIFF_STEPS[diffStep(total[i], baseTotal[i] * scale)];
  }
  if (colouring === 'self') {
    return (i) => {
      const share = total[i] > 0 ? Math.max(0, self[i]) / total[i] : 0;
      return SELF_STEPS[share === 0 ? 0 : Math.min(6, 1 + Math.floor(share * 6))];
    };
  }
  const shades = head.package_names.map(shadeOf);
  const whole = head.names.map((_, index) => {
    const kind = SHADES[head.kinds[index]] ?? SHADES.u;
    return kind[colouring === 'kind' ? 0 : shades[head.packages[index]] ?? 0];
  });
  const light = whole.map(lighter);
  return (i) => i === 0 ? ROOT_FILL : inlined[i] === 2 ? light[frame[i]] : whole[frame[i]];
}

/**
 * Index of a change in `DIFF_STEPS`.
 * @param {number} total
 * @param {number} base
 */
function diffStep(total, base) {
  const change = changeShare(total, base);
  if (Math.abs(change) < 0.005) return 5;
  return change < 0 ? Math.max(0, 4 - Math.floor(-change * 4.999)) : Math.min(10, 6 + Math.floor(change * 4.999));
}

/**
 * Half way to white.
 * @param {string} colour
 */
function lighter(colour) {
  const channel = (/** @type {number} */ at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * 0.55 + 255 * 0.45);
  return `rgb(${channel(1)},${channel(3)},${channel(5)})`;
}
