/** The data of a view, from the server. `local.js` has the same for a file that stands alone. */

import { decodeSlice } from './slice.js';

/** @typedef {import('./slice.js').Slice} Slice */
/** @typedef {{frames: number[], nodes: number, total: number, base_total?: number}} Found */
/** @typedef {{frame: number, name: string, kind: string, self: number, total: number, base_self?: number, base_total?: number, nodes: number}} Row */
/** @typedef {{rows: Row[], all: number}} Rows */
/** @typedef {{sort: string, re: string, limit: number, offset: number}} RowsWanted */
/** @typedef {{frame: number} | {name: string}} Which */
/**
 * @typedef {object} Source
 * @property {(pairs: [string, string][]) => void} choose
 * @property {() => Promise<Slice>} first What the first screen shows of the tree, or more.
 * @property {(node: number, wide: number) => Promise<Slice>} tree
 * @property {(re: string) => Promise<Found>} search
 * @property {(wanted: RowsWanted) => Promise<Rows>} table
 * @property {(which: Which, wide: number) => Promise<[Slice, Slice]>} sandwich
 * @property {(which: Which, side: 'callers' | 'callees', node: number, wide: number) => Promise<Slice>} side
 */

/** The slice that a screen shows first: boxes of about a pixel, in the rows in sight. @type {[string, string][]} */
const FIRST = [['wide', '2048'], ['rows', '64']];

/** @implements {Source} */
export class Remote {
  /** @param {Record<string, string>} places */
  constructor(places) {
    this.places = places;
    /** The first slice of the page's own options, which the page has fetched ahead. */
    this.ahead = places.first ?? '';
    /** @type {[string, string][]} */
    this.pairs = [];
  }

  /** @param {[string, string][]} pairs */
  choose(pairs) {
    this.pairs = pairs;
  }

  async first() {
    const { ahead } = this;
    this.ahead = '';
    return decodeSlice(ahead ? await bytesOf(await answered(ahead)) : await this.bytes('tree', FIRST));
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

  /** @param {Which} which @param {string} side @param {number} node @param {number} wide */
  async side(which, side, node, wide) {
    const [key, value] = Object.entries(which)[0];
    return decodeSlice(await this.bytes('sandwich', [pair(key, value), ['side', side], pair('at', node), pair('wide', wide)]));
  }

  /** @param {Which} which @param {number} wide @returns {Promise<[Slice, Slice]>} */
  async sandwich(which, wide) {
    const [key, value] = Object.entries(which)[0];
    const bytes = await this.bytes('sandwich', [pair(key, value), pair('wide', wide)]);
    const length = new DataView(bytes.buffer).getUint32(0, true);
    return [decodeSlice(bytes.subarray(4, 4 + length)), decodeSlice(bytes.subarray(8 + length))];
  }

  /** @param {string} what @param {[string, string][]} more */
  async bytes(what, more) {
    return bytesOf(await this.get(what, more));
  }

  /** @param {string} what @param {[string, string][]} more */
  async get(what, more) {
    return answered(joined(this.places[what], [...this.pairs, ...more]));
  }
}

/** The answer of an address; an error with the server's reason. @param {string} address */
async function answered(address) {
  // From the origin: the page's own address may contain a name and password, which fetch refuses.
  const answer = await fetch(new URL(address, location.origin));
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

/** @param {Response} answer */
async function bytesOf(answer) {
  return new Uint8Array(await answer.arrayBuffer());
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
