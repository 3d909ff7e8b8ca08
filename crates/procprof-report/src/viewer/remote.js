/** The data of a view, from the server. `local.js` has the same for a file that stands alone. */

import { decodeSlice } from './slice.js';

/** @typedef {import('./slice.js').Slice} Slice */
/** @typedef {{frames: number[], nodes: number, total: number, base_total?: number}} Found */
/** @typedef {{frame: number, name: string, kind: string, self: number, total: number, base_self?: number, base_total?: number, nodes: number}} Row */
/** @typedef {{rows: Row[], all: number}} Rows */
/** @typedef {{sort: string, re: string, limit: number, offset: number}} RowsWanted */
/**
 * @typedef {object} Source
 * @property {(pairs: [string, string][]) => void} choose
 * @property {(node: number, wide: number) => Promise<Slice>} tree
 * @property {(re: string) => Promise<Found>} search
 * @property {(wanted: RowsWanted) => Promise<Rows>} table
 * @property {(frame: {frame: number} | {name: string}) => Promise<[Slice, Slice]>} sandwich
 */

/** @implements {Source} */
export class Remote {
  /** @param {Record<string, string>} places */
  constructor(places) {
    this.places = places;
    /** @type {[string, string][]} */
    this.pairs = [];
  }

  /** @param {[string, string][]} pairs */
  choose(pairs) {
    this.pairs = pairs;
  }

  /** @param {number} node @param {number} wide */
  async tree(node, wide) {
    return decodeSlice(await this.bytes('tree', [...(node ? [pair('at', node)] : []), ...(wide ? [pair('wide', wide)] : [])]));
  }

  /** @param {string} re @returns {Promise<Found>} */
  async search(re) {
    return (await this.get('search', [['re', re]])).json();
  }

  /** @param {RowsWanted} wanted @returns {Promise<Rows>} */
  async table(wanted) {
    const pairs = Object.entries(wanted).filter(([, value]) => value !== '').map(([key, value]) => pair(key, value));
    return (await this.get('table', pairs)).json();
  }

  /** @param {{frame: number} | {name: string}} which @returns {Promise<[Slice, Slice]>} */
  async sandwich(which) {
    const bytes = await this.bytes('sandwich', Object.entries(which).map(([key, value]) => pair(key, value)));
    const length = new DataView(bytes.buffer).getUint32(0, true);
    return [decodeSlice(bytes.subarray(4, 4 + length)), decodeSlice(bytes.subarray(8 + length))];
  }

  /** @param {string} what @param {[string, string][]} more */
  async bytes(what, more) {
    return new Uint8Array(await (await this.get(what, more)).arrayBuffer());
  }

  /** @param {string} what @param {[string, string][]} more */
  async get(what, more) {
    const answer = await fetch(joined(this.places[what], [...this.pairs, ...more]));
    if (answer.ok) return answer;
    const text = await answer.text();
    let why = `${answer.status} ${answer.statusText}`;
    try {
      const problem = JSON.parse(text);
      why = problem.detail ?? problem.message ?? problem.title ?? why;
    } catch {
      // Not a problem of ours, but of something between.
    }
    throw new Error(why);
  }
}

/**
 * @param {string} key @param {string | number} value
 * @returns {[string, string]}
 */
function pair(key, value) {
  return [key, String(value)];
}

/**
 * The address with more in its query.
 * @param {string} place
 * @param {[string, string][]} pairs
 */
export function joined(place, pairs) {
  if (!pairs.length) return place;
  return place + (place.includes('?') ? '&' : '?') + new URLSearchParams(pairs).toString();
}
