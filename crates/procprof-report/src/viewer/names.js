/**
 * Names of functions as they are drawn. A name is hostile: it only ever becomes text, its control characters are made
 * visible, and it is isolated from the direction of what stands beside it.
 */

import { TEXTS } from './texts.js';

/** Most characters of a name that are drawn or listed; the whole name is in the details. */
const LABEL_MAX = 240;
/** Most characters of a name in a tooltip. */
const SHOWN_MAX = 4000;
/** The type that a C++ template returns. */
const RETURN_TYPE = /^(?:void|bool|char|short|int|long|unsigned|float|double|auto)(?: long| int| char)*[ *&]+(?=[\w:~])/;
/** Namespaces, paths and packages at the start of a name. */
const FIRST_STEP = /^(?:[^:\s]*::|[^/]*\/|[\w$]+\.(?!part|cold|isra|constprop|llvm|\d))(?=.)/;
// eslint-disable-next-line no-control-regex
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/**
 * The name with characters that are not seen, or turn the text around, written as their code.
 * @param {string} name
 */
export function visible(name) {
  return name.replace(INVISIBLE, (c) => {
    return `\u27e8U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}

/**
 * The whole name for a tooltip, a long one cut in its middle.
 * @param {string} name
 */
export function wholeName(name) {
  const cut = name.length > SHOWN_MAX ? name.slice(0, SHOWN_MAX - 200) + ' \u2026 ' + name.slice(-200) : name;
  return visible(cut) || TEXTS.noName;
}

/**
 * The name for a line of a list.
 * @param {string} name
 */
export function labelName(name) {
  return visible(name.length > LABEL_MAX ? name.slice(0, LABEL_MAX) + '\u2026' : name) || TEXTS.noName;
}

/**
 * The name without arguments and type parameters.
 * @param {string} name
 */
export function plainName(name) {
  let out = '';
  let depth = 0;
  for (const c of name) {
    const opens = c === '<' && out !== '' || c === '[' && /\w$/.test(out) || c === '(' && /[\w>\]]$/.test(out);
    if (depth ? '<[('.includes(c) : opens) depth++;
    else if (depth && (c === ')' || c === ']' || c === '>')) depth--;
    else if (!depth) out += c;
  }
  return depth || !out ? name : out.replace(/::(?:::)+/g, '::').replace(/::$/, '');
}

/**
 * The forms of a name from whole to short: without arguments, then without its first steps one by one.
 * @param {string} name
 * @returns {string[]}
 */
export function shorterNames(name) {
  const whole = labelName(name);
  const forms = [whole];
  if (whole[0] === '[') return forms;
  let short = labelName(plainName(name.slice(0, SHOWN_MAX)).replace(RETURN_TYPE, ''));
  if (short !== whole) forms.push(short);
  for (let steps = 0; steps < 40; steps++) {
    const step = FIRST_STEP.exec(short);
    if (!step) break;
    short = short.slice(step[0].length);
    forms.push(short);
  }
  return forms;
}

/**
 * Columns of a monospaced font that the text takes.
 * @param {string} text
 */
function columns(text) {
  // eslint-disable-next-line no-control-regex
  if (/^[\u0000-\u2e7f]*$/.test(text)) return text.length;
  let sum = 0;
  for (const c of text) sum += (c.codePointAt(0) ?? 0) > 0x2e7f ? 2 : 1;
  return sum;
}

/**
 * The longest of the forms that fits in so many columns, the shortest cut off if none does; empty if that is too little.
 * @param {string[]} forms
 * @param {number} room
 */
export function fitting(forms, room) {
  if (room < 2) return '';
  for (const form of forms) if (columns(form) <= room) return form;
  if (room < 3) return '';
  let out = '';
  let sum = 1;
  for (const c of forms[forms.length - 1]) {
    sum += (c.codePointAt(0) ?? 0) > 0x2e7f ? 2 : 1;
    if (sum > room) break;
    out += c;
  }
  return out + '\u2026';
}

/**
 * A regular expression that matches this name alone.
 * @param {string} name
 */
export function exactly(name) {
  return '^' + name.replace(/[\\.+*?()|[\]{}^$#&~-]/g, '\\$&') + '$';
}
