/** All texts of the viewer, so that another language is another table. */

export const TEXTS = {
  flame: 'Flame graph', icicle: 'Icicle', sandwich: 'Callers and callees', table: 'Table', graph: 'Call graph',
  source: 'Source', tree: 'Tree',
  views: 'Views', search: 'Search (regular expression)', searchLabel: 'Search functions by regular expression',
  found: '{share} in {count}', frames: '{n} functions', frame: '1 function', none: 'no match', place: '{at} of {n}',
  previous: 'Previous match (N)', next: 'Next match (n)',
  sampleType: 'Sample type', colourBy: 'Colour by', package: 'package', self: 'self', kind: 'kind', diff: 'difference',
  filters: 'Filters', apply: 'Apply', remove: 'Remove {what}', removeAll: 'Remove all', exports: 'Export',
  keys: 'Keys', reset: 'Whole profile',
  zoomIn: 'Zoom in', showTable: 'Find in table', showSource: 'Show source',
  focusOn: 'Focus: only stacks with it', ignore: 'Ignore: stacks without it', hide: 'Hide its frames',
  showFrom: 'Show from here', sameSearch: 'Search for this name', copyName: 'Copy name', copyStack: 'Copy stack',
  copied: 'Copied', copy: 'Copy', notCopied: 'The browser did not permit copying',
  invert: 'Invert: callees at the root', collapse: 'Collapse recursion', normalize: 'Scale the base to the same total',
  total: 'Total', selfName: 'Self', base: 'Base', change: 'Change', function: 'Function',
  ofAll: '{share} of all', ofView: '{share} of view', ofParent: '{share} of caller', selfIs: 'self {value}',
  before: 'base {value} ({share})', now: 'now {value} ({share})', changed: 'change {value}', isNew: 'new', isGone: 'gone',
  hidden: '{n} more nodes, {share}', hiddenOne: '1 more node, {share}', hiddenHelp: 'not drawn one by one; click to zoom in',
  hiddenAlone: 'not in this file', aboveBelow: '\u25b4 callers above, \u25be callees below',
  inlined: 'inlined', partly: 'partly inlined', depth: 'depth {n}',
  failed: 'Not loaded: {why}', retry: 'Try again',
  empty: 'No samples pass the filters.', emptyProfile: 'The profile has no samples of this type.', noSearch: 'not a regular expression: {why}',
  filterTable: 'Functions that match', more: 'Show {n} more', rows: '{shown} of {all} functions',
  chooseFunction: 'Choose a function in the table or the flame graph to see what calls it and what it calls.',
  canvas: 'Flame graph. Arrow keys move, Enter zooms, question mark lists the keys.',
  treeLabel: 'Call tree', png: 'PNG picture (drawn here)', commands: 'Commands for this view',
  address: 'Address of this view',
  kinds: { n: 'native', g: 'Go', j: 'JVM', k: 'kernel', u: 'no symbol', r: 'remark' },
  shrunk: 'less than base', grown: 'more than base', same: 'unchanged', legendSelf: 'self, from none to all of its total',
  legendPackage: 'hue: kind of code; shade: package', legendHidden: 'more nodes, not drawn one by one', match: 'match',
  stale: 'The address named a node that is not in this profile; the whole profile is shown.',
  keyTable: [
    ['click, Enter', 'zoom in'], ['Ctrl + wheel, +, -', 'zoom in and out'], ['Esc', 'zoom out by one; clear the search'],
    ['0, Home', 'whole profile'], ['arrows', 'caller, callee, siblings'], ['/', 'search'], ['n, N', 'next, previous match'],
    ['s', 'callers and callees of the function'], ['m, right click', 'menu of the function'], ['c', 'copy the stack'],
    ['1 to 7', 'views'], ['Page Up, Page Down', 'scroll'], ['?', 'these keys'],
  ],
};

/**
 * The text with its `{places}` filled.
 * @param {string} text
 * @param {Record<string, string | number>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, key) => String(values[key] ?? ''));
}
