/** What opens above the view: menus, the filter form, exports and commands, the keys. */

import { copyText, el, save } from './dom.js';
import { joined } from './remote.js';
import { TEXTS, fill, keyTable, textOf } from './texts.js';

/** @typedef {import('./app.js').App} App */
/** @typedef {{key: string, help: string, choices?: string[]}} OptionRow */

/** Options of the filter form in its order. */
const FILTER_KEYS = ['focus', 'ignore', 'hide', 'show', 'show_from', 'tagfocus', 'tagignore', 'tagroot', 'granularity', 'normalize'];
const SWITCH_KEYS = ['invert', 'collapse_recursion', 'noinlines', 'keep_allocators', 'drop_negative'];

/**
 * Opens a popup below an element or at a place; it closes by Esc and by a click beside it.
 * @param {App} app @param {HTMLElement} popup @param {{x: number, y: number} | HTMLElement} place
 */
export function openPopup(app, popup, place) {
  const before = document.activeElement;
  popup.setAttribute('popover', 'auto');
  popup.classList.add('pv-popup');
  app.host.append(popup);
  popup.addEventListener('toggle', (event) => {
    if (/** @type {any} */ (event).newState !== 'closed') return;
    const inside = popup.contains(document.activeElement) || document.activeElement === document.body;
    popup.remove();
    if (place instanceof HTMLElement) place.setAttribute('aria-expanded', 'false');
    if (inside && before instanceof HTMLElement) before.focus();
  });
  popup.showPopover();
  const at = place instanceof HTMLElement ? place.getBoundingClientRect() : null;
  if (place instanceof HTMLElement) place.setAttribute('aria-expanded', 'true');
  const x = at ? at.left : 'x' in place ? place.x : 0;
  const y = at ? at.bottom + 4 : 'y' in place ? place.y : 0;
  popup.style.left = `${Math.max(4, Math.min(x, window.innerWidth - popup.offsetWidth - 8))}px`;
  popup.style.top = `${Math.max(4, Math.min(y, window.innerHeight - popup.offsetHeight - 8))}px`;
  popup.querySelector(/** @type {'button'} */ ('button, input, select, a'))?.focus({ preventScroll: true });
}

/**
 * A menu; arrow keys move in it.
 * @param {App} app @param {string} label @param {([string, () => void] | null)[]} entries
 * @param {{x: number, y: number} | HTMLElement} place
 */
export function openMenu(app, label, entries, place) {
  const menu = el('div', { role: 'menu', 'aria-label': label, class: 'pv-menu' });
  for (const entry of entries) {
    if (!entry) {
      menu.append(el('hr'));
      continue;
    }
    menu.append(el('button', { type: 'button', role: 'menuitem', onclick: () => {
      menu.hidePopover();
      entry[1]();
    } }, entry[0]));
  }
  menu.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const items = [...menu.querySelectorAll('button')];
    const at = items.indexOf(/** @type {any} */ (document.activeElement));
    items[(at + step + items.length) % items.length].focus();
  });
  openPopup(app, menu, place);
}

/**
 * The form of filters and options.
 * @param {App} app @param {HTMLElement} button
 */
export function openFilters(app, button) {
  const chosen = new Map(app.state.options);
  /** @type {OptionRow[]} */
  const rows = app.config.options ?? [];
  const known = (/** @type {string} */ key) => rows.find((row) => row.key === key);
  const form = el('form', { class: 'pv-form', 'aria-label': TEXTS.filters });
  for (const key of FILTER_KEYS) {
    const row = known(key);
    if (!row || key === 'normalize' && !app.root?.head.diff) continue;
    const value = chosen.get(key) ?? '';
    form.append(el('label', { title: textOf('help', key, row.help) }, key, row.choices
      ? el('select', { name: key }, ...row.choices.map((choice, index) =>
        el('option', { value: index ? choice : '', selected: value === choice }, key === 'normalize' ? textOf('scale', choice, choice) : choice)))
      : el('input', { name: key, value, spellcheck: 'false', autocomplete: 'off' })));
  }
  for (const key of SWITCH_KEYS) {
    const row = known(key);
    if (!row) continue;
    form.append(el('label', { class: 'pv-check', title: textOf('help', key, row.help) },
      el('input', { type: 'checkbox', name: key, value: 'true', checked: chosen.get(key) === 'true' }), textOf('switch', key, key)));
  }
  form.append(el('button', { class: 'pv-primary' }, TEXTS.apply));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const asked = [...new FormData(form)].map(([key, value]) => /** @type {[string, string]} */ ([key, String(value)]));
    const shown = [...FILTER_KEYS, ...SWITCH_KEYS];
    const rest = app.state.options.filter(([key]) => !shown.includes(key));
    form.hidePopover();
    app.setOptions([...rest, ...asked.filter(([, value]) => value)]);
  });
  openPopup(app, form, button);
}

/**
 * Exports, and the view as commands.
 * @param {App} app @param {HTMLElement} button
 */
export function openExports(app, button) {
  const menu = el('div', { class: 'pv-exports', 'aria-label': TEXTS.exports, role: 'group' });
  const picture = ['flame', 'icicle', 'sandwich'].includes(app.state.view);
  if (picture) {
    menu.append(el('button', { type: 'button', onclick: async () => {
      const blob = await app.picture.png();
      if (blob) save(blob, fileStem(app) + '.png');
    } }, TEXTS.png));
  }
  for (const { label, url } of app.config.exports ?? []) {
    menu.append(el('a', { href: joined(url, app.state.options), download: true }, label));
  }
  const commands = [...app.config.commands ?? [], ...(location.protocol.startsWith('http') ? [{ label: TEXTS.address, text: location.href }] : [])];
  if (commands.length) menu.append(el('h2', {}, TEXTS.commands));
  for (const { label, text } of commands) {
    const whole = commandText(text, app.state.options);
    const copied = el('button', { type: 'button', 'aria-label': `${TEXTS.copy}: ${label}`, onclick: async () => {
      copied.textContent = await copyText(whole) ? TEXTS.copied : TEXTS.notCopied;
    } }, TEXTS.copy);
    menu.append(el('div', { class: 'pv-command' }, el('span', { class: 'pv-soft' }, label), copied, el('pre', {}, whole)));
  }
  openPopup(app, menu, button);
}

/**
 * A command with the options in place of `{flags}` and `{query}`.
 * @param {string} text @param {[string, string][]} options
 */
export function commandText(text, options) {
  const flags = options.map(([key, value]) => ` -${key}=${quoted(value)}`).join('');
  const query = new URLSearchParams(options).toString();
  return text.replace('{flags}', () => flags).replace('{query}', () => query && '&' + query);
}

/** @param {string} value */
function quoted(value) {
  return /^[\w.,:/@%+-]+$/.test(value) ? value : `'${value.replace(/'/g, `'\\''`)}'`;
}

/** @param {App} app */
function fileStem(app) {
  return (app.root?.head.title ?? 'profile').replace(/[^\w.-]+/g, '_').slice(0, 80) || 'profile';
}

/**
 * The keys.
 * @param {App} app @param {HTMLElement} button
 */
export function openKeys(app, button) {
  const list = el('dl', { class: 'pv-keys', tabindex: '-1', 'aria-label': TEXTS.keys });
  for (const [keys, what] of keyTable()) list.append(el('dt', {}, keys), el('dd', {}, what));
  openPopup(app, list, button);
  list.focus();
}

/**
 * What can be done with a function.
 * @param {App} app @param {import('./layout.js').Hit} hit @param {{x: number, y: number}} place
 */
export function openFunctionMenu(app, hit, place) {
  const name = app.nameAt(hit);
  const pattern = app.patternOf(name);
  const narrow = (/** @type {string} */ key) => () => app.addOption(key, pattern);
  openMenu(app, name.slice(0, 200), [
    [TEXTS.zoomIn, () => app.activate(hit)],
    [TEXTS.sandwich, () => app.openSandwich(name)],
    [TEXTS.showTable, () => app.go({ view: 'table', filter: pattern })],
    app.hasSource() && [TEXTS.showSource, () => app.go({ view: 'source', frame: name })],
    [TEXTS.sameSearch, () => app.setSearch(pattern)],
    null,
    ...(app.canFilter() ? /** @type {[string, () => void][]} */ ([[TEXTS.focusOn, narrow('focus')], [TEXTS.ignore, narrow('ignore')],
      [TEXTS.hide, narrow('hide')], [TEXTS.showFrom, narrow('show_from')]]) : []),
    app.canFilter() && null,
    [TEXTS.copyName, () => app.copy(name)],
    [TEXTS.copyStack, () => app.copyStack(hit)],
  ].filter((entry) => entry !== false).map((entry) => /** @type {any} */ (entry)), place);
}

/**
 * The options that hold, each with a button that removes it.
 * @param {App} app
 */
export function chips(app) {
  const shown = app.state.options.filter(([key, value]) => key !== 'sample_index' && !(key === 'normalize' && value === 'false'));
  const made = shown.map(([key, value]) => el('button', { type: 'button', class: 'pv-chip', title: fill(TEXTS.remove, { what: `${key}=${value}` }),
    onclick: () => app.setOptions(app.state.options.filter((option) => option[0] !== key || option[1] !== value)) },
  el('b', {}, key), el('bdi', {}, value === 'true' ? '' : value.slice(0, 120)), el('span', { 'aria-hidden': true }, '\u00d7')));
  if (made.length > 1) {
    made.push(el('button', { type: 'button', class: 'pv-chip', onclick: () => app.setOptions(app.state.options.filter(([key]) => key === 'sample_index')) }, TEXTS.removeAll));
  }
  return made;
}
