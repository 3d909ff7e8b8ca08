/** The state of the view, in the query of the page's address; a file that stands alone has it after the `#`. */

/** @typedef {'flame' | 'icicle' | 'sandwich' | 'table' | 'graph' | 'source' | 'tree'} View */
/**
 * @typedef {object} State
 * @property {View} view
 * @property {number} zoom Number of the node that fills the width.
 * @property {string} search
 * @property {import('./colours.js').Colouring | ''} colour
 * @property {string} frame Name of the function of `sandwich` and `source`.
 * @property {string} part The node that one side of `sandwich` is zoomed to: `callers.12`, `callees.7`.
 * @property {string} sort
 * @property {string} filter
 * @property {[string, string][]} options
 */

/** @type {View[]} */
export const VIEWS = ['flame', 'icicle', 'sandwich', 'table', 'graph', 'source', 'tree'];
const OWN_KEYS = ['view', 'zoom', 'search', 'colour', 'frame', 'part', 'order', 'filter'];

/**
 * Reads the state; keys that are neither state nor option belong to the subject and are left alone.
 * @param {URLSearchParams} query
 * @param {string[]} optionKeys
 * @param {View} first
 * @returns {State}
 */
export function readState(query, optionKeys, first) {
  const view = /** @type {View} */ (query.get('view') ?? first);
  const zoom = Number(query.get('zoom') ?? 0);
  const colour = query.get('colour') ?? '';
  return {
    view: VIEWS.includes(view) ? view : first,
    zoom: Number.isSafeInteger(zoom) && zoom > 0 ? zoom : 0,
    search: query.get('search') ?? '',
    colour: ['package', 'self', 'kind', 'diff'].includes(colour) ? /** @type {any} */ (colour) : '',
    frame: query.get('frame') ?? '',
    part: query.get('part') ?? '',
    sort: query.get('order') ?? '',
    filter: query.get('filter') ?? '',
    options: [...query].filter(([key, value]) => optionKeys.includes(key) && value !== ''),
  };
}

/**
 * The query that reads as this state.
 * @param {State} state
 * @param {URLSearchParams} old
 * @param {string[]} optionKeys
 * @param {View} first
 */
export function writeState(state, old, optionKeys, first) {
  const subject = [...old].filter(([key]) => !OWN_KEYS.includes(key) && !optionKeys.includes(key));
  const made = new URLSearchParams([...subject, ...state.options]);
  const set = (/** @type {string} */ key, /** @type {string} */ value) => value && made.set(key, value);
  set('view', state.view === first ? '' : state.view);
  set('zoom', state.zoom ? String(state.zoom) : '');
  set('search', state.search);
  set('colour', state.colour);
  set('frame', ['sandwich', 'source'].includes(state.view) ? state.frame : '');
  set('part', state.view === 'sandwich' ? state.part : '');
  set('order', state.view === 'table' ? state.sort : '');
  set('filter', state.view === 'table' ? state.filter : '');
  return made.toString();
}
