/**
 * Fonts of the tests, made here, so that the width of a page does not depend on the fonts that a machine has.
 *
 * Their letters are 20 % wider than the widest among DejaVu Sans, Liberation Sans and Noto Sans, and have no outline: a
 * page that fits with them fits with any of these. A file is TrueType with the tables that FreeType needs
 * (https://learn.microsoft.com/typography/opentype/spec/otff).
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Units of a font's square. */
const EM = 1000;
const WIDER = 1.2;
/** Bold letters by those that are not. */
const BOLD = 1.15;
/** Widths of the characters from space to tilde in the widest of the three fonts. */
const ASCII = [
  318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 551, 838, 318, 361, 318, 372, 636, 636, 636, 636, 636, 636, 636,
  636, 636, 636, 337, 337, 838, 838, 838, 556, 1015, 684, 686, 722, 770, 667, 611, 778, 752, 339, 500, 667, 557, 907,
  760, 787, 667, 787, 722, 667, 611, 732, 684, 989, 685, 667, 685, 390, 372, 390, 838, 556, 500, 613, 635, 550, 635,
  615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 413, 521, 392, 634, 592, 818, 592, 592, 525, 636,
  551, 636, 838,
];
/** The same of all letters of the font for code. */
const MONO = 602;
/** Characters with widths in the tables of a font: ASCII and Latin-1; then characters as wide as the square. */
const [SPACE, TILDE, HARD_SPACE, MIDDLE_DOT, LATIN_END] = [0x20, 0x7e, 0xa0, 0xb7, 0xff];
const RANGES = [[SPACE, TILDE], [HARD_SPACE, LATIN_END], [LATIN_END + 1, 0xd7ff], [0xe000, 0xfffd], [0x1f300, 0x1f9ff]];

const FONTS = [
  { family: 'Wide Sans', style: 'Regular', weight: 400 },
  { family: 'Wide Sans', style: 'Bold', weight: 700 },
  { family: 'Wide Mono', style: 'Regular', weight: 400, isMono: true },
];

/** The width of a character in thousandths of the size of the font. */
function advance(code, { weight, isMono }) {
  const isWide = code > LATIN_END;
  const latin = code === HARD_SPACE ? ASCII[0] : code === MIDDLE_DOT ? 380 : 838;
  const plain = isWide ? EM : isMono ? MONO : ASCII[code - SPACE] ?? latin;
  return Math.round(plain * WIDER * (weight > 400 && !isWide ? BOLD : 1));
}

/** The width of a text of the pages' font in pixels. */
export function widthOf(text, size, weight = 400) {
  return [...text].reduce((sum, character) => sum + advance(character.codePointAt(0), { weight }), 0) * size / EM;
}

const u16 = (...values) => Buffer.from(values.flatMap((value) => [value >> 8 & 255, value & 255]));
const u32 = (...values) => Buffer.concat(values.map((value) => u16(value / 65_536, value % 65_536)));

/** A table of characters, format 12: groups of subsequent characters and glyphs. */
function characters() {
  let glyph = 1;
  const groups = RANGES.map(([from, to]) => {
    const group = u32(from, to, glyph);
    glyph += to - from + 1;
    return group;
  });
  const length = 16 + 12 * groups.length;
  const cmap = Buffer.concat([u16(0, 1, 3, 10), u32(12), u16(12, 0), u32(length, 0, groups.length), ...groups]);
  return { cmap, glyphs: glyph };
}

function names({ family, style }) {
  const values = [[1, family], [2, style], [4, `${family} ${style}`], [6, `${family}-${style}`.replaceAll(' ', '')]];
  const records = [];
  const texts = [];
  let offset = 0;
  for (const [id, value] of values) {
    const text = u16(...[...value].map((character) => character.codePointAt(0)));
    records.push(u16(3, 1, 0x409, id, text.length, offset));
    texts.push(text);
    offset += text.length;
  }
  return Buffer.concat([u16(0, values.length, 6 + 12 * values.length), ...records, ...texts]);
}

/** A font's file. */
function font(look) {
  const { cmap, glyphs } = characters();
  const [ascent, descent] = [928, -236];
  const widths = [EM];
  for (const [from, to] of RANGES.slice(0, 2)) for (let code = from; code <= to; code++) widths.push(advance(code, look));
  // All further glyphs are as wide as the last that has a width.
  widths.push(advance(LATIN_END + 1, look));
  const isBold = look.weight > 400 ? 1 : 0;
  const panose = [2, 11, isBold ? 8 : 6, look.isMono ? 9 : 3, 0, 0, 0, 0, 0, 0];
  /** @type {Record<string, Buffer>} */
  const tables = {
    'OS/2': Buffer.concat([u16(4, 600, look.weight, 5, 0, ...Array(11).fill(0)), Buffer.from(panose), Buffer.alloc(16), Buffer.from('NONE'),
      u16(isBold ? 0x20 : 0x40, SPACE, 0xffff, ascent, descent, 0, ascent, -descent), Buffer.alloc(8), u16(500, 700, 0, SPACE, 1)]),
    cmap,
    glyf: Buffer.alloc(4),
    head: Buffer.concat([u32(0x10000, 0x10000, 0, 0x5f0f3cf5), u16(0, EM), Buffer.alloc(16), u16(0, descent, EM, ascent, isBold, 8, 2, 0, 0)]),
    hhea: Buffer.concat([u32(0x10000), u16(ascent, descent, 0, 2 * EM, 0, 0, EM, 1, 0, 0, 0, 0, 0, 0, 0, widths.length)]),
    hmtx: Buffer.concat([...widths.map((width) => u16(width, 0)), Buffer.alloc(2 * (glyphs - widths.length))]),
    loca: Buffer.alloc(2 * (glyphs + 1)),
    maxp: Buffer.concat([u32(0x10000), u16(glyphs), Buffer.alloc(26)]),
    name: names(look),
    post: Buffer.concat([u32(0x30000, 0), u16(-100, 50), u32(look.isMono ? 1 : 0), Buffer.alloc(16)]),
  };
  const entries = Object.entries(tables);
  const head = [u32(0x10000), u16(entries.length, 128, 3, 16 * entries.length - 128)];
  const bodies = [];
  let offset = 12 + 16 * entries.length;
  for (const [tag, body] of entries) {
    head.push(Buffer.from(tag), u32(0, offset, body.length));
    const padded = Buffer.concat([body, Buffer.alloc((4 - body.length % 4) % 4)]);
    bodies.push(padded);
    offset += padded.length;
  }
  return Buffer.concat([...head, ...bodies]);
}

/** Writes the fonts into a folder; the path of a configuration of fontconfig that has no others. */
export function writeFonts(folder) {
  const files = path.join(folder, 'fonts');
  mkdirSync(files);
  for (const look of FONTS) writeFileSync(path.join(files, `${look.family} ${look.style}.ttf`), font(look));
  const alias = (name, family) => `<alias binding="same"><family>${name}</family><prefer><family>${family}</family></prefer></alias>`;
  // What names no family of these is shown in the last one.
  const other = '<match><edit name="family" mode="append_last"><string>Wide Sans</string></edit></match>';
  const config = path.join(folder, 'fonts.conf');
  writeFileSync(config, `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>${files}</dir><cachedir>${path.join(folder, 'font-cache')}</cachedir>${alias('monospace', 'Wide Mono')}${other}</fontconfig>\n`);
  return config;
}
