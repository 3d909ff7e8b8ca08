/**
 * The controls that the tests of a file have seen on its pages, and those that they have used.
 *
 * A control is named by its element, its container and its label in English, so that it is the same in every row of data.
 */

/** What a person operates. */
const CONTROLS = ['a[href]', 'button', 'input:not([type=hidden])', 'select', 'textarea', 'summary', '[tabindex="0"]',
  ...['button', 'link', 'menuitem', 'tab', 'slider', 'checkbox', 'option'].map((role) => `[role=${role}]`)].join(', ');
/** Where links are labelled by data: rows, bars, nodes, chips of filters, reports. */
const DATA = 'tbody, svg, nav.tabs, #all-nodes, .matches, .save, .compared, .lane-name, span.one, .pv-scroll, .pv-exports a, '
  + '.marks, .filters [target=_blank], .filters[aria-label]';

/** Runs in a page before its scripts: reports each control that is visible there, and each that is used. */
function watch([controls, data, report]) {
  /** The type of a profile, the second class of its names and bars, is data. */
  const isOfType = (element) => element.classList.contains('type') || element.classList.contains('bars');
  const classes = (element) => element.id ? `#${element.id}`
    : [element.localName, ...isOfType(element) ? [element.classList[0]] : element.classList].join('.');
  /** The part of the pages that a control belongs to. */
  const part = (element) => element.closest('#viewer') ? 'viewer' : location.pathname.includes('/ui/') ? 'file' : 'page';
  function label(element) {
    if (element.matches('.pv-chip')) return '';
    if (element.name) return `[name=${element.name}${element.localName === 'button' ? ` value=${element.value}` : ''}]`;
    const isData = element.closest(data) !== null;
    if (!element.matches('a, button, input, select, summary') || (isData && element.matches('a, input'))) return '';
    const said = isData ? null : element.getAttribute('aria-label');
    // A button that copies says so for a while.
    return ` ${(said ?? element.textContent).trim().replace(/\d[\d,.]*/g, 'N').replace(/^Copied$/, 'Copy')}`;
  }
  function name(element) {
    const around = element.parentElement.closest('[class], [id], nav, form, main, body');
    return `${part(element)} ${classes(around)} ${classes(element)}${label(element)}`;
  }
  const told = new Set();
  function tell(what, element) {
    const line = `${what} ${name(element)}`;
    if (document.documentElement.lang !== 'en' || told.has(line)) return;
    told.add(line);
    globalThis[report](line);
  }
  function see() {
    for (const element of document.querySelectorAll(controls)) {
      if (element.checkVisibility({ visibilityProperty: true })) tell('seen', element);
    }
  }
  for (const type of ['click', 'contextmenu', 'input', 'change', 'keydown']) {
    addEventListener(type, (event) => {
      const element = event.target instanceof Element ? event.target.closest(controls) : null;
      // The browser makes a click of the key that operates a native control.
      const isOther = type === 'keydown' && (event.key === 'Tab' || element?.matches('a, button, summary, input, select, textarea'));
      const isScripted = !event.isTrusted && !['input', 'change'].includes(type);
      if (element && !isOther && !isScripted) tell('used', element);
    }, { capture: true });
  }
  addEventListener('DOMContentLoaded', () => {
    see();
    new MutationObserver(see).observe(document, { subtree: true, childList: true, attributes: true });
  });
}

export class Controls {
  /** @type {Set<string>} */
  #seen = new Set();
  /** @type {Set<string>} */
  #used = new Set();

  /** Follows the pages of a context. */
  async follow(context) {
    await context.exposeFunction('procprofControl', (line) => (line.startsWith('used') ? this.#used : this.#seen).add(line.slice(5)));
    await context.addInitScript(watch, [CONTROLS, DATA, 'procprofControl']);
  }

  /** Those of these parts of the pages that no test has used. */
  unused(...parts) {
    return [...this.#seen].filter((name) => !this.#used.has(name) && parts.includes(name.split(' ', 1)[0])).sort();
  }
}
