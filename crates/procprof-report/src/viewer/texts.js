/**
 * The texts of the viewer in one language. `texts.json` has them in all: English, Japanese, Chinese; an empty English text
 * stands for one that comes with the data. `build.rs` makes one script of each language.
 */

/** @typedef {Record<keyof typeof import('./texts.json'), string>} Texts */

/** @type {Texts} */
export const TEXTS = JSON.parse('TEXTS_OF_THE_LANGUAGE');

/**
 * The text of a group of texts: `kind_n` is the text `n` of the group `kind`.
 * @param {'kind' | 'what' | 'help' | 'switch' | 'scale' | 'key' | 'note'} group
 * @param {string} key
 * @param {string} [otherwise] Stands for a text that the group lacks.
 */
export function textOf(group, key, otherwise = '') {
  const name = /** @type {keyof Texts} */ (`${group}_${key}`);
  return Object.hasOwn(TEXTS, name) && TEXTS[name] || otherwise;
}

/** Keys in the order in which they are listed. */
const KEYS = ['zoom', 'step', 'escape', 'home', 'arrows', 'search', 'match', 'sandwich', 'menu', 'copy', 'views', 'scroll', 'help'];

/** Keys and what they do. */
export function keyTable() {
  return KEYS.map((key) => textOf('key', key).split(' = '));
}

/**
 * The text with its `{places}` filled.
 * @param {string} text
 * @param {Record<string, unknown>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, key) => String(values[key] ?? ''));
}
