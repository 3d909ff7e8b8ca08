/**
 * The flame graph on a canvas no taller than what is seen of it: it stays where it is while its frame is scrolled. What the
 * pointer or the keyboard is on is drawn on a second canvas above.
 */

import { amountText, grouped, percent } from './amounts.js';
import { MATCH_FILL, changeShare, fillsOf } from './colours.js';
import { BOX, HIDDEN, RUN, arrange, hitTest } from './layout.js';
import { fitting, shorterNames } from './names.js';
import { shownName } from './slice.js';
import { TEXTS, fill } from './texts.js';

/** @typedef {import('./layout.js').Layer} Layer */
/** @typedef {import('./layout.js').Hit} Hit */
/** @typedef {import('./colours.js').Colouring} Colouring */

/** Height of a row, in px. */
export const ROW = 20;
const FONT = '12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
/** Boxes narrower than this hold no text, in px. */
const TEXT_FROM = 28;
const INK = '#1b1d21';
/** Letters that turn the direction of a text. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]|[\ud802\ud803\ud83a\ud83b]/;

/**
 * @typedef {object} PictureEvents
 * @property {(hit: Hit | null, x: number, y: number) => void} hover
 * @property {(hit: Hit, event: MouseEvent) => void} click
 * @property {(hit: Hit, x: number, y: number) => void} menu
 * @property {(hit: Hit | null, inwards: boolean) => void} wheel
 */

export class Picture {
  /** @param {PictureEvents} events */
  constructor(events) {
    this.events = events;
    this.stage = document.createElement('div');
    this.stage.className = 'pv-stage';
    this.base = document.createElement('canvas');
    this.over = document.createElement('canvas');
    this.base.className = 'pv-base';
    this.over.className = 'pv-over';
    this.over.tabIndex = 0;
    this.over.setAttribute('role', 'application');
    this.over.setAttribute('aria-label', TEXTS.canvas);
    this.over.setAttribute('aria-describedby', 'pv-said');
    this.pin = document.createElement('div');
    this.pin.className = 'pv-pin';
    this.spacer = document.createElement('div');
    this.pin.append(this.base, this.over);
    this.stage.append(this.pin, this.spacer);
    /** @type {Layer[]} */
    this.layers = [];
    /** @type {Colouring} */
    this.colouring = 'package';
    /** Which frames match, for each layer. @type {(Uint8Array | null)[]} */
    this.matches = [];
    /** @type {Hit | null} */
    this.hovered = null;
    /** @type {Hit | null} */
    this.focused = null;
    this.boxes = arrange([], 0);
    this.width = 0;
    this.height = 0;
    /** Height of all rows. */
    this.tall = 0;
    /** Where the stage was scrolled to when it was last painted. */
    this.paintedTop = 0;
    /** Width of a letter, and the ratio of pixels it was measured at. */
    this.glyph = 7.2;
    this.measured = 0;
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    /** Fill behind the boxes; read again when the colours change. */
    this.ground = '';
    this.painting = 0;
    /** Time of the last arranging and drawing, in ms. */
    this.spent = 0;
    this.listen();
  }

  listen() {
    const { over, stage, events } = this;
    const at = (/** @type {MouseEvent} */ event) => this.hitAt(event.clientX, event.clientY);
    over.addEventListener('mousemove', (event) => {
      this.hovered = at(event);
      events.hover(this.hovered, event.clientX, event.clientY);
      over.style.cursor = this.hovered ? 'pointer' : '';
      this.request(false);
    });
    over.addEventListener('mouseleave', () => {
      this.hovered = null;
      events.hover(null, 0, 0);
      this.request(false);
    });
    over.addEventListener('click', (event) => {
      const hit = at(event);
      if (hit) events.click(hit, event);
    });
    over.addEventListener('contextmenu', (event) => {
      const hit = at(event);
      if (!hit || event.shiftKey) return;
      event.preventDefault();
      events.menu(hit, event.clientX, event.clientY);
    });
    over.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (Math.abs(event.deltaY) > 3) events.wheel(at(event), event.deltaY < 0);
    }, { passive: false });
    stage.addEventListener('scroll', () => {
      events.hover(null, 0, 0);
      if (stage.scrollTop !== this.paintedTop) this.request(true);
    });
    new ResizeObserver(() => this.resized()).observe(stage);
    this.dark.addEventListener('change', () => {
      this.ground = '';
      this.request(true);
    });
  }

  /** @param {number} x @param {number} y */
  hitAt(x, y) {
    const place = this.over.getBoundingClientRect();
    const row = this.boxes.above - Math.floor((y - place.top + this.stage.scrollTop) / ROW);
    return hitTest(this.layers, this.width, x - place.left, row);
  }

  /**
   * Shows these layers.
   * @param {Layer[]} layers
   */
  show(layers) {
    this.layers = layers;
    this.hovered = null;
    this.focused = null;
    this.rearrange();
  }

  resized() {
    if (this.stage.clientWidth === this.width && this.stage.clientHeight === this.height) return;
    this.rearrange();
  }

  rearrange() {
    const began = performance.now();
    const { stage } = this;
    // What is read of the layout comes before what changes it: each reading after a change lays the page out anew.
    const bottom = this.tall - stage.scrollTop;
    const room = Math.floor(Math.max(200, Math.min(window.innerHeight - this.top() - 46, 4000)));
    this.width = stage.clientWidth;
    this.boxes = arrange(this.layers, this.width);
    const tall = (this.boxes.above + this.boxes.below + 1) * ROW + 1;
    const scrolled = this.tall > this.height;
    stage.style.maxHeight = `${room}px`;
    this.spacer.style.height = `${tall}px`;
    this.tall = tall;
    this.height = Math.min(tall, room);
    // A scroll bar that comes or goes changes the width, but not the number of rows.
    if (tall > room !== scrolled && stage.clientWidth !== this.width) {
      this.width = stage.clientWidth;
      this.boxes = arrange(this.layers, this.width);
    }
    this.fit(this.base);
    this.fit(this.over);
    if (this.boxes.above) stage.scrollTop = tall - bottom;
    this.paint();
    this.paintOver();
    this.spent = performance.now() - began;
  }

  /** Distance of the picture from the top of the window when the page is not scrolled. */
  top() {
    return Math.max(0, this.stage.getBoundingClientRect().top + window.scrollY);
  }

  /** @param {HTMLCanvasElement} canvas */
  fit(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (canvas.width === width && canvas.height === height) return;
    canvas.width = width;
    canvas.height = height;
    canvas.style.width = `${this.width}px`;
    canvas.style.height = `${this.height}px`;
  }

  /**
   * Draws with the next frame of the screen.
   * @param {boolean} whole
   */
  request(whole) {
    this.wantsBase = this.wantsBase || whole;
    if (this.painting) return;
    this.painting = requestAnimationFrame(() => {
      this.painting = 0;
      const began = performance.now();
      if (this.wantsBase) this.paint();
      this.wantsBase = false;
      this.paintOver();
      this.spent = performance.now() - began;
    });
  }

  /** Draws what is seen. */
  paint() {
    this.paintedTop = this.stage.scrollTop;
    paintBoxes(this, this.base, this.paintedTop, this.height);
  }

  /** Draws the frames around what the pointer and the keyboard are on. */
  paintOver() {
    const context = this.over.getContext('2d');
    if (!context) return;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const outline = (/** @type {Hit | null} */ hit, /** @type {string} */ colour, /** @type {number} */ thick) => {
      const place = hit && this.placeOf(hit);
      if (!place) return;
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.strokeRect(place.x + thick / 2, place.y - this.stage.scrollTop + thick / 2, Math.max(1, place.w - thick), ROW - 1 - thick);
    };
    outline(this.hovered, this.dark.matches ? '#fff' : INK, 1.5);
    outline(this.focused, '#0b57d0', 3);
    outline(this.focused, '#fff', 1);
  }

  /**
   * Where a hit is drawn, from the top left of the whole picture.
   * @param {Hit} hit
   */
  placeOf(hit) {
    const layer = this.layers[hit.layer];
    if (!layer) return null;
    const { slice, zoom } = layer;
    const scale = slice.width[zoom] > 0 ? this.width / slice.width[zoom] : 0;
    const above = slice.depth[hit.node] < slice.depth[zoom] || hit.node === zoom;
    const row = (slice.depth[hit.node] + (hit.hidden ? 1 : 0)) * (layer.up ? 1 : -1);
    const left = hit.hidden ? slice.hiddenLeft[hit.node] : slice.left[hit.node];
    const wide = hit.hidden ? slice.hidden[hit.node] : slice.width[hit.node];
    const whole = above && !hit.hidden;
    return { x: whole ? 0 : (left - slice.left[zoom]) * scale, w: whole ? this.width : wide * scale, y: (this.boxes.above - row) * ROW };
  }

  /**
   * Scrolls until a row is in sight.
   * @param {Hit} hit
   */
  reveal(hit) {
    const place = this.placeOf(hit);
    if (!place) return;
    if (place.y < this.stage.scrollTop) this.stage.scrollTop = place.y - ROW;
    else if (place.y + ROW > this.stage.scrollTop + this.height) this.stage.scrollTop = place.y + 2 * ROW - this.height;
  }

  /** Scrolls to where the zoomed box is, and what stands on it. */
  revealZoom() {
    const layer = this.layers[0];
    if (!layer) return;
    const row = layer.slice.depth[layer.zoom] * (layer.up ? 1 : -1);
    const y = (this.boxes.above - row) * ROW;
    if (this.layers.length > 1) this.stage.scrollTop = y - this.height / 2;
    else this.stage.scrollTop = layer.up ? y + 3 * ROW - this.height : y - 2 * ROW;
  }

  /** The whole picture as PNG, as tall as browsers can make one. */
  async png() {
    const canvas = document.createElement('canvas');
    const ratio = window.devicePixelRatio || 1;
    const height = Math.min(this.tall, Math.floor(16000 / ratio));
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(height * ratio);
    paintBoxes(this, canvas, this.layers[0]?.up ? this.tall - height : 0, height);
    return new Promise((/** @type {(blob: Blob | null) => void} */ done) => canvas.toBlob(done));
  }
}

/** Stripes made so far. @type {Map<string, CanvasPattern>} */
const HATCHES = new Map();

/**
 * Stripes.
 * @param {CanvasRenderingContext2D} context @param {string} ground @param {string} stripe
 */
function hatch(context, ground, stripe) {
  const known = HATCHES.get(ground);
  if (known) return known;
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const drawn = tile.getContext('2d');
  if (!drawn) return ground;
  drawn.fillStyle = ground;
  drawn.fillRect(0, 0, 8, 8);
  drawn.strokeStyle = stripe;
  drawn.lineWidth = 2;
  drawn.beginPath();
  for (const shift of [-8, 0, 8]) {
    drawn.moveTo(shift - 1, 9);
    drawn.lineTo(shift + 9, -1);
  }
  drawn.stroke();
  const made = context.createPattern(tile, 'repeat');
  if (made) HATCHES.set(ground, made);
  return made ?? ground;
}

/**
 * Draws the boxes between two heights.
 * @param {Picture} picture @param {HTMLCanvasElement} canvas @param {number} top @param {number} height
 */
function paintBoxes(picture, canvas, top, height) {
  const context = canvas.getContext('2d', { alpha: false });
  if (!context) return;
  const ratio = window.devicePixelRatio || 1;
  const { boxes, layers, width } = picture;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = picture.ground ||= getComputedStyle(picture.stage).backgroundColor;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.direction = 'ltr';
  context.textBaseline = 'middle';
  if (picture.measured !== ratio) {
    picture.glyph = context.measureText('M'.repeat(50)).width / 50 || 7.2;
    picture.measured = ratio;
  }
  const fills = layers.map((layer) => fillsOf(layer.slice, picture.colouring));
  const hiddenFill = hatch(context, '#d5d8dc', '#b9c0c8');
  const shrunkFill = hatch(context, 'rgba(255,255,255,0)', 'rgba(20,50,110,.17)');
  const signs = picture.colouring === 'diff';
  const first = boxes.above - Math.floor((top + height) / ROW);
  const last = boxes.above - Math.floor(top / ROW);
  const snap = (/** @type {number} */ x) => Math.round(x * ratio) / ratio;
  for (let at = 0; at < boxes.count; at++) {
    const row = boxes.row[at];
    if (row < first || row > last) continue;
    const node = boxes.node[at];
    const what = boxes.what[at];
    const { slice, zoom } = layers[boxes.layer[at]];
    const x = snap(boxes.x[at]);
    const right = snap(boxes.x[at] + boxes.w[at]);
    const y = (boxes.above - row) * ROW - top;
    const wide = Math.max(1 / ratio, right - x - (right - x > 3 ? 1 / ratio : 0));
    const matched = picture.matches[boxes.layer[at]]?.[slice.frame[node]] === 1 && what !== HIDDEN;
    context.fillStyle = what === HIDDEN ? hiddenFill : matched ? MATCH_FILL : fills[boxes.layer[at]](node);
    if (slice.depth[node] < slice.depth[zoom] && what === BOX) context.globalAlpha = 0.6;
    context.fillRect(x, y, wide, ROW - 1);
    if (signs && !matched && what !== HIDDEN && right - x > 6 && isShrunk(slice, node)) {
      context.fillStyle = shrunkFill;
      context.fillRect(x, y, wide, ROW - 1);
    }
    context.globalAlpha = 1;
    if (what === RUN || right - x < TEXT_FROM) continue;
    const room = Math.floor((right - x - 8) / picture.glyph);
    const text = what === HIDDEN ? fitting(hiddenForms(slice, node), room) : boxText(slice, node, room, signs);
    if (!text) continue;
    context.fillStyle = INK;
    context.fillText(RIGHT_TO_LEFT.test(text) ? '\u2068' + text + '\u2069' : text, x + 4, y + ROW / 2);
  }
}

/**
 * Whether a node has so much less than in the base that it is hatched.
 * @param {import('./slice.js').Slice} slice @param {number} node
 */
function isShrunk(slice, node) {
  if (!slice.baseTotal) return false;
  return changeShare(slice.total[node], baseOf(slice, node)) <= -0.05;
}

/**
 * The value of a node in the base, scaled as the picture is.
 * @param {import('./slice.js').Slice} slice @param {number} node
 */
export function baseOf(slice, node) {
  const scale = slice.head.diff && slice.head.diff.normalized ? slice.head.diff.scale : 1;
  return (slice.baseTotal ? slice.baseTotal[node] : 0) * scale;
}

/**
 * Sign and size of a node's change: `+12.3%`, `new`, `gone`.
 * @param {import('./slice.js').Slice} slice @param {number} node
 */
export function changeMark(slice, node) {
  const base = baseOf(slice, node);
  const total = slice.total[node];
  if (!base && total) return '+' + TEXTS.isNew;
  if (base && !total) return '\u2212' + TEXTS.isGone;
  if (!base) return '';
  const share = (total - base) / Math.abs(base) * 100;
  if (Math.abs(share) < 0.5) return '=';
  return (share < 0 ? '\u2212' : '+') + (Math.abs(share) >= 999.5 ? grouped(Math.abs(share)) : Math.abs(share).toFixed(0)) + '%';
}

/**
 * @param {import('./slice.js').Slice} slice @param {number} node @param {number} room @param {boolean} signs
 */
function boxText(slice, node, room, signs) {
  const frame = slice.frame[node];
  const forms = slice.forms[frame] ??= shorterNames(shownName(slice, node));
  const mark = signs && slice.baseTotal ? changeMark(slice, node) : '';
  if (!mark) return fitting(forms, room);
  const rest = fitting(forms, room - mark.length - 1);
  return rest ? mark + ' ' + rest : room >= mark.length ? mark : '';
}

/**
 * What a hatched box says, long and short.
 * @param {import('./slice.js').Slice} slice @param {number} node
 */
export function hiddenForms(slice, node) {
  const n = slice.hiddenNodes[node];
  const share = percent(slice.hidden[node], slice.width[0]);
  return ['\u2026 ' + fill(n === 1 ? TEXTS.hiddenOne : TEXTS.hidden, { n: grouped(n), share }), '\u2026 ' + share];
}

/**
 * The value of what is hidden below a node.
 * @param {import('./slice.js').Slice} slice @param {number} node
 */
export function hiddenText(slice, node) {
  return hiddenForms(slice, node)[0] + (slice.head.diff ? '' : ', ' + amountText(slice.head.amount, slice.hidden[node]));
}
