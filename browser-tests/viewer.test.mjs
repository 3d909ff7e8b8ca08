/** The viewer's page in Chromium, against a server with stored profiles. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Controls } from './controls.mjs';
import { Browser, LOOKS, box, click, copy, fileView, look, newFolder, open, ready, server as start, tooWide, until } from './harness.mjs';
import { pprof } from './pprof.mjs';

const TYPES = [['samples', 'count'], ['cpu', 'nanoseconds']];
const HOSTILE = ['<script>document.documentElement.dataset.pwned=1</script>', '"><img src=x onerror=alert(1)>', 'evil\u202egpj.exe\u0007\n',
  'x'.repeat(65536), '日本語の関数::名前😀'];
const AXE = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

const controls = new Controls();
const browser = new Browser(controls);
/** @type {any} */
let server;
let sources = '';
let id = '';
let base = '';

/** A sample of both types. */
const sample = (stack, value, labels) => ({ stack, values: [value, value * 1_000_000], labels });

before(async () => {
  sources = newFolder();
  writeFileSync(path.join(sources, 'server.c'), 'int parse(char *text) {\n  int sum = 0;\n  while (*text) sum += *text++; // <b>\n  return sum;\n}\n');
  [, server] = await Promise.all([browser.start(), start(`source_roots = ["${sources}"]\n`)]);
  id = await server.push('cpu', pprof(TYPES, [
    sample(['main', 'serve', 'parse'], 300, { thread: 'web' }), sample(['main', 'serve', 'parse', 'utf8::check'], 100, { thread: 'web' }),
    sample(['main', 'serve', 'answer'], 200, { thread: 'web' }), sample(['main', 'flush'], 250, { thread: 'disk' }),
    sample(['main', 'flush', 'write'], 50, { thread: 'disk' }), sample(['main', 'walk', 'walk', 'walk'], 60), sample(['main', ...HOSTILE], 40),
  ]));
  base = await server.push('cpu', pprof(TYPES, [
    sample(['main', 'serve', 'parse'], 100), sample(['main', 'serve', 'answer'], 200), sample(['main', 'gone'], 300),
  ], 1_699_990_000));
});

after(async () => {
  await browser.close();
  await server?.stop();
});

/** Adds a test with a page that must not complain. */
const check = (name, run, options) => browser.check(name, run, options);

const address = (query = '') => `${server.base}/p/${id}${query}`;
const status = (page) => page.textContent('.pv-status');
const state = (page) => page.evaluate(() => ({ ...window.procprofViewer.state }));

/** Edges of boxes in a row of the canvas: places where the ground shows. */
async function segments(page, y) {
  return page.evaluate((y) => {
    const canvas = document.querySelector('.pv-base');
    const row = canvas.getContext('2d').getImageData(0, Math.round(y - canvas.getBoundingClientRect().top) + 1, canvas.width, 1).data;
    const ground = getComputedStyle(document.querySelector('.pv-stage')).backgroundColor.match(/\d+/g).slice(0, 3).map(Number);
    const found = [];
    let from = -1;
    for (let x = 0; x <= canvas.width; x++) {
      const filled = x < canvas.width && [0, 1, 2].some((channel) => Math.abs(row[4 * x + channel] - ground[channel]) > 4);
      if (filled && from < 0) from = x;
      if (!filled && from >= 0) {
        found.push([from, x]);
        from = -1;
      }
    }
    return found;
  }, y);
}

check('the widths of boxes are their values within one pixel, at three zoom levels', async (page) => {
  const levels = [
    [[], ['main'], [['flush', 300], ['serve', 600], ['walk', 60]], 1000],
    [['main', 'serve'], ['main', 'serve'], [['answer', 200], ['parse', 400]], 600],
    [['main', 'serve', 'parse'], ['main', 'serve', 'parse'], [['utf8::check', 100]], 400],
  ];
  await open(page, address());
  for (const [zoom, parent, children, whole] of levels) {
    if (zoom.length) await click(page, zoom);
    const { x: left, w: width } = await box(page, zoom.length ? zoom : ['main']);
    const first = await box(page, [...parent, children[0][0]]);
    const drawn = await segments(page, first.y);
    for (const [name, value] of children) {
      const place = await box(page, [...parent, name]);
      const expected = value / whole * width;
      assert.ok(Math.abs(place.w - expected) <= 1, `${name}: ${place.w} for ${expected}`);
      const [from, to] = drawn.find(([from, to]) => Math.abs(from + left - place.x) <= 1.01 && to > from) ?? [0, 0];
      assert.ok(Math.abs(to - from - expected) <= 2, `${name}: drawn ${from} to ${to} for ${expected}`);
    }
  }
});

check('a click zooms, the address keeps it, and the back button leaves it', async (page) => {
  await open(page, address());
  await click(page, ['main', 'serve']);
  await until(page, () => location.search.includes('zoom='));
  assert.match(await status(page), /serve600 ms CPU time/);
  const link = page.url();
  await click(page, ['main', 'serve', 'parse']);
  await until(page, (link) => location.href !== link, link);
  await page.goBack();
  await until(page, () => document.querySelector('.pv-status').textContent.startsWith('serve'));
  await page.goBack();
  await until(page, () => window.procprofViewer.state.zoom === 0);
  await open(page, link);
  assert.match(await status(page), /^serve600 ms/);
  await page.click('text=Whole profile');
  await until(page, () => !location.search.includes('zoom='));
  // The wheel zooms with Ctrl, one step at a time.
  const place = await box(page, ['main', 'serve', 'parse']);
  await page.mouse.move(place.x + 5, place.y + 9);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -100);
  await until(page, () => window.procprofViewer.state.zoom > 0);
  await page.mouse.wheel(0, 100);
  await until(page, () => window.procprofViewer.state.zoom === 0);
  await page.keyboard.up('Control');
  await open(page, address('?zoom=99999'));
  assert.match(await page.textContent('.pv-notes'), /not in this profile/);
  // The browser logs the refusal.
  page.complaints.length = 0;
});

check('what a note leaves out is one click away', async (page) => {
  const heap = await server.push('heap', pprof([['inuse_space', 'bytes']], [{ stack: ['main', 'keep', 'prof_backtrace_impl'], values: [64] }],
    1_700_000_000, {}, 'prof_backtrace_impl'));
  await open(page, `${server.base}/p/${heap}`);
  assert.match(await page.textContent('.pv-notes'), /^Allocator frames at the leaf are left out/);
  await page.click('.pv-notes a');
  await until(page, () => location.search.includes('keep_allocators=true') && !document.querySelector('.pv-notes li'));
  await page.goBack();
  await until(page, () => document.querySelector('.pv-notes li'));
});

check('notes and the root are in the language of the page', async (page) => {
  await open(page, `${server.base}/p/${id}?focus=serve`);
  assert.match(await page.textContent('.pv-notes'), /^focus=serve のみ：600 ms、プロファイルの 60/);
  const root = await page.evaluate(() => window.procprofViewer.picture.layers[0].slice.forms);
  assert.ok(Object.values(root).some((forms) => forms?.includes('全体')), JSON.stringify(root));
}, { locale: 'ja' });

check('the keyboard does everything', async (page) => {
  await open(page, address());
  await page.focus('.pv-over');
  for (const key of ['ArrowUp', 'ArrowUp']) await page.keyboard.press(key);
  assert.match(await status(page), /^serve/);
  assert.match(await page.textContent('#pv-said'), /^serve, 600 ms CPU time/);
  await page.keyboard.press('ArrowLeft');
  assert.match(await status(page), /^flush/);
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await until(page, () => window.procprofViewer.state.zoom > 0);
  await page.keyboard.press('Escape');
  await until(page, () => window.procprofViewer.state.zoom === 0);
  await page.keyboard.press('/');
  await page.keyboard.type('utf8|flush');
  await until(page, () => document.querySelector('.pv-found').textContent.includes('40.00% in 2 functions'));
  await page.keyboard.press('Enter');
  await until(page, () => document.querySelector('.pv-found').textContent.startsWith('1 of 2'));
  await page.focus('.pv-over');
  await page.keyboard.press('n');
  await until(page, () => document.querySelector('.pv-found').textContent.startsWith('2 of 2'));
  await page.keyboard.press('N');
  await until(page, () => document.querySelector('.pv-found').textContent.startsWith('1 of 2'));
  await page.keyboard.press('s');
  await until(page, () => window.procprofViewer.state.view === 'sandwich');
  await page.keyboard.press('?');
  await page.waitForSelector('.pv-keys');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.pv-keys', { state: 'detached' });
  for (const [key, view] of [['2', 'icicle'], ['4', 'table'], ['1', 'flame']]) {
    await page.keyboard.press(key);
    await until(page, (view) => window.procprofViewer.state.view === view, view);
  }
  await page.focus('.pv-over');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('m');
  await page.waitForSelector('.pv-menu');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await until(page, () => window.procprofViewer.state.view === 'sandwich' && window.procprofViewer.state.frame === 'main');
});

check('a search says its share, and what is no expression', async (page) => {
  await open(page, address());
  await page.fill('.pv-find input', 'walk');
  await until(page, () => document.querySelector('.pv-found').textContent === '6.00% in 1 function');
  await page.fill('.pv-find input', '(?i)NOTHING');
  await until(page, () => document.querySelector('.pv-found').textContent === 'no match');
  page.complaints.length = 0;
  await page.fill('.pv-find input', '(');
  await until(page, () => document.querySelector('.pv-found').textContent.startsWith('not a regular expression'));
  // The browser logs the refusal.
  page.complaints.length = 0;
  await open(page, address('?search=walk'));
  assert.equal(await page.textContent('.pv-found'), '6.00% in 1 function');
  assert.equal(await page.inputValue('.pv-find input'), 'walk');
});

check('the menu of a function filters, and chips take it back', async (page) => {
  await open(page, address());
  await click(page, ['main', 'flush'], { button: 'right' });
  await page.click('.pv-menu button:has-text("Ignore")');
  await until(page, () => location.search.includes('ignore='));
  await until(page, () => document.querySelector('.pv-status').textContent.includes('700 ms'));
  await click(page, ['main', 'serve'], { button: 'right' });
  await page.click('.pv-menu button:has-text("Focus")');
  // The status has the same value of the box under the pointer before.
  await until(page, () => document.querySelectorAll('.pv-chips .pv-chip').length === 3);
  await page.click('.pv-chips .pv-chip:has-text("ignore")');
  await until(page, () => !location.search.includes('ignore='));
  await ready(page);
  await page.click('.pv-chips .pv-chip:has-text("focus")');
  await until(page, () => location.search === '');
  await page.click('text=Filters');
  await page.fill('.pv-form input[name=tagfocus]', 'thread=disk');
  await page.check('.pv-form input[name=invert]');
  await page.click('.pv-form .pv-primary');
  await until(page, () => location.search.includes('invert=true') && document.querySelector('.pv-status').textContent.includes('300 ms'));
  await ready(page);
  await box(page, ['write', 'flush', 'main']);
  await open(page, address('?collapse_recursion=true'));
  await assert.rejects(box(page, ['main', 'walk', 'walk']), /no walk below walk/);
  await page.selectOption('.pv-tools select[aria-label="Sample type"]', 'samples');
  await until(page, () => document.querySelector('.pv-status').textContent.includes('1,000 samples'));
});

check('colours are by package, self and kind', async (page) => {
  await open(page, address());
  const picture = () => page.evaluate(() => document.querySelector('.pv-base').toDataURL());
  const seen = new Set([await picture()]);
  for (const colour of ['self', 'kind']) {
    await page.selectOption('.pv-tools select[aria-label="Colour by"]', colour);
    await until(page, (colour) => location.search.includes(`colour=${colour}`), colour);
    seen.add(await picture());
  }
  assert.ok(seen.size >= 2);
  assert.ok(await page.locator('.pv-legend .pv-swatch').count() > 0);
});

check('the table sorts and filters, and a row leads to callers and callees', async (page) => {
  await open(page, address('?view=table'));
  const names = () => page.locator('.pv-table tbody a').allTextContents();
  assert.deepEqual((await names()).slice(0, 3), ['parse', 'flush', 'answer']);
  await page.click('.pv-table th button:has-text("Total")');
  await until(page, () => document.querySelector('.pv-table tbody a').textContent === 'main');
  await page.click('.pv-table th button:text-is("Self")');
  await until(page, () => document.querySelector('.pv-table tbody a').textContent === 'parse');
  await page.click('.pv-table th button:has-text("Function")');
  await until(page, () => document.querySelector('.pv-table tbody a').textContent.startsWith('"'));
  await page.fill('.pv-table-top input', '^(walk|write)$');
  await until(page, () => document.querySelectorAll('.pv-table tbody tr').length === 2);
  await page.click('.pv-table tbody a:has-text("walk")');
  await until(page, () => window.procprofViewer.picture.layers.length === 2);
  await box(page, ['main'], 0);
  await assert.rejects(box(page, ['walk', 'walk', 'walk'], 1));
  await box(page, ['walk', 'walk'], 1);
  assert.match(await status(page), /60.0 ms CPU time.*6.00% of all/);
  // A caller comes into the middle.
  const place = await box(page, ['main'], 0);
  await page.mouse.click(place.x + 20, place.y + 9);
  await until(page, () => window.procprofViewer.state.frame === 'main');
  await page.goBack();
  await until(page, () => window.procprofViewer.state.frame === 'walk');
});

check('a long table is fetched piece by piece', async (page) => {
  const many = Array.from({ length: 700 }, (_, number) => sample(['main', `function ${number}`], number + 1));
  await open(page, `${server.base}/p/${await server.push('cpu', pprof(TYPES, many, 1_699_980_000))}?view=table`);
  await until(page, () => document.querySelectorAll('.pv-table tbody tr').length === 500);
  await page.click('.pv-scroll > button:has-text("more")');
  await until(page, () => document.querySelectorAll('.pv-table tbody tr').length === 701);
  assert.equal(await page.locator('.pv-scroll > button').isVisible(), false);
});

check('the tree is a grid of rows for screen readers', async (page) => {
  await open(page, address('?view=tree'));
  const row = () => page.textContent('.pv-tree .pv-at');
  await page.focus('.pv-tree');
  assert.match(await row(), /all/);
  await page.keyboard.press('ArrowDown');
  assert.match(await row(), /main1.00 s100%/);
  await page.keyboard.press('ArrowLeft');
  await until(page, () => document.querySelectorAll('.pv-tree-pad [role=row]').length === 2);
  await page.keyboard.press('ArrowRight');
  await until(page, () => document.querySelectorAll('.pv-tree-pad [role=row]').length > 2);
  await page.keyboard.press('ArrowDown');
  assert.match(await row(), /serve600 ms60.00%/);
  assert.equal(await page.getAttribute('.pv-tree .pv-at', 'aria-level'), '3');
  await page.keyboard.press('Enter');
  await until(page, () => window.procprofViewer.state.view === 'flame' && window.procprofViewer.state.zoom > 0);
});

check('the first slice has what is in sight, and the rest follows', async (page) => {
  const deep = Array.from({ length: 120 }, (_, row) => `row ${row}`);
  const narrow = Array.from({ length: 40 }, (_, number) => sample(['main', `narrow ${number}`], 1));
  const pushed = await server.push('cpu', pprof(TYPES, [sample(deep, 100_000), ...narrow]));
  await open(page, `${server.base}/p/${pushed}`);
  await until(page, () => window.procprofViewer.root.count > 120);
  const asked = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => new URL(name)).filter(({ pathname }) => pathname.endsWith('/tree')).map(({ search }) => search));
  assert.deepEqual(asked, ['?wide=2048&rows=64', '?wide=6400'], 'once ahead of the script, once when it is drawn');
  // What was seen first is still where it was, and what is narrower than a quarter of a pixel is counted.
  const { count, hidden, first } = await page.evaluate(() => {
    const { root, picture } = window.procprofViewer;
    return { count: root.count, hidden: root.hiddenNodes.reduce((sum, nodes, at) => sum + (root.hidden[at] > 0 ? nodes : 0), 0), first: picture.layers[0].slice === root };
  });
  assert.ok(first);
  assert.equal(count + hidden, 162);
  await box(page, deep);
  // A node that is not in the first slice can be opened by its address.
  await open(page, `${server.base}/p/${pushed}?zoom=45`);
  assert.match(await status(page), /narrow|main|row/);
});

check('either side of callers and callees can be zoomed', async (page) => {
  const callers = Array.from({ length: 40 }, (_, number) => sample([`caller ${number}`, 'middle', 'callee'], 1));
  const pushed = await server.push('cpu', pprof(TYPES, [sample(['main', 'middle', 'callee'], 18_000), ...callers]));
  const view = `${server.base}/p/${pushed}?view=sandwich&frame=middle`;
  await open(page, view);
  const place = await page.evaluate(() => {
    const { picture } = window.procprofViewer;
    const place = picture.placeOf({ layer: 0, node: 0, hidden: true });
    const canvas = picture.over.getBoundingClientRect();
    return { x: canvas.left + place.x + 1.5, y: canvas.top + place.y - picture.stage.scrollTop + 9 };
  });
  await page.mouse.click(place.x, place.y);
  await until(page, () => window.procprofViewer.picture.layers[0].slice.hiddenNodes[0] === 0);
  assert.equal(new URL(page.url()).searchParams.get('part'), 'callers.0');
  await box(page, ['caller 7'], 0);
  await open(page, page.url());
  await box(page, ['caller 7'], 0);
  await page.focus('.pv-over');
  await page.keyboard.press('Escape');
  await until(page, () => !location.search.includes('part=') && location.search.includes('sandwich'));
});

check('an opened file has the viewer, and is listed until it is closed', async (page) => {
  await page.goto(`${server.base}/open`);
  const [opened] = [pprof(TYPES, [sample(['main', 'hot'], 70), sample(['main', 'cold'], 30)])];
  await page.setInputFiles('input[type=file]', { name: 'mine <b>.pb', mimeType: 'application/octet-stream', buffer: opened });
  await page.click('form.drop button');
  await ready(page);
  assert.match(await status(page), /all100 ms CPU time/);
  await click(page, ['main', 'hot']);
  await until(page, () => location.search.includes('zoom='));
  await page.click('.pv-tabs a:has-text("Table")');
  await page.click('.pv-table tbody a:has-text("cold")');
  await until(page, () => window.procprofViewer.picture.layers.length === 2);
  await page.fill('.pv-find input', 'hot|cold');
  await until(page, () => document.querySelector('.pv-found').textContent.startsWith('100%'));
  await open(page, page.url());
  await page.goto(`${server.base}/open`);
  await page.click('tr:has-text("mine <b>.pb") button');
  await page.waitForSelector('form.drop');
  assert.equal(await page.locator('td a').count(), 0);
});

check('the call graph stands in a frame that is shut off', async (page) => {
  await open(page, address('?view=graph'));
  assert.equal(await page.getAttribute('.pv-frame', 'sandbox'), 'allow-scripts');
  const frame = await (await page.waitForSelector('.pv-frame')).contentFrame();
  await frame.waitForSelector('svg');
  assert.match(await frame.evaluate(() => document.documentElement.textContent), /serve/);
});

check('the lines of a function have their values, and a file that is not found is named', async (page) => {
  const places = { parse: { file: `${sources}/server.c`, line: 3 }, answer: { file: '/away/answer.c', line: 7 } };
  const profile = pprof(TYPES, [sample(['main', 'parse'], 300), sample(['main', 'answer'], 200)], undefined, places);
  const own = `${server.base}/p/${await server.push('cpu', profile)}`;
  const shown = async () => {
    const frame = await (await page.waitForSelector('.pv-frame')).contentFrame();
    await frame.waitForFunction(() => document.readyState === 'complete' && document.body?.textContent.includes('ROUTINE'));
    return frame.evaluate(() => document.body.textContent);
  };
  await open(page, own);
  await page.click('.pv-tabs a:has-text("Source")');
  assert.match(await page.textContent('.pv-empty'), /Show source/);
  await page.click('.pv-tabs a:has-text("Flame")');
  await click(page, ['main', 'parse'], { button: 'right' });
  await page.click('.pv-menu button:has-text("Show source")');
  const found = await shown();
  assert.match(found, /ROUTINE =+ parse in .*server\.c/);
  assert.match(found, /300ms +300ms +3: {2}while \(\*text\) sum \+= \*text\+\+; \/\/ <b>/);
  assert.match(found, /\. +\. +4: {2}return sum;/);
  assert.equal(new URL(page.url()).searchParams.get('frame'), 'parse');
  await open(page, `${own}?view=source&frame=answer`);
  assert.match(await shown(), /answer\.c[^]*Error: \/away\/answer\.c: not below any folder of source_roots/);
  await open(page, `${own}?view=source&frame=main`);
  const frame = await (await page.waitForSelector('.pv-frame')).contentFrame();
  await frame.waitForFunction(() => document.body?.textContent.includes('No source information for main'));
  // The viewer of a file shows the same lines, and the machine code where its binary is found.
  const view = await fileView(profile, `-source_path=${sources}`);
  try {
    await open(page, view.base);
    const place = page.url().split('?')[0];
    await open(page, `${place}?view=source&frame=answer`);
    assert.match(await page.frameLocator('.pv-frame').locator('main').textContent(), /answer\.c: open .*no such file/);
    await open(page, `${place}?view=source&frame=parse&source_path=${encodeURIComponent(sources)}`);
    const source = await page.frameLocator('.pv-frame').locator('.source').textContent();
    assert.match(source, /300ms300ms3 *while \(\*text\)/);
  } finally {
    await view.stop();
  }
});

check('every export answers, and commands have the filters', async (page) => {
  await open(page, address('?focus=serve'));
  await page.click('text=Export');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('.pv-exports button:has-text("PNG")')]);
  assert.match(download.suggestedFilename(), /\.png$/);
  assert.ok(readFileSync(await download.path()).subarray(1, 4).equals(Buffer.from('PNG')));
  const links = await page.locator('.pv-exports a').evaluateAll((links) => links.map((link) => link.href));
  assert.ok(links.length >= 5);
  for (const link of links) {
    const answer = await page.request.get(link);
    assert.equal(answer.status(), 200, link);
    assert.ok((await answer.body()).length > 20, link);
    assert.ok(link.includes('focus=serve'), link);
  }
  const commands = await page.locator('.pv-command pre').allTextContents();
  assert.ok(commands.some((text) => text.includes('-focus=serve')) && commands.some((text) => text.includes('&focus=serve')), commands.join('\n'));
});

check('a difference shows both values, new and gone', async (page) => {
  await open(page, `${address()}?base=${base}`);
  assert.match(await status(page), /now 1.00 s.*base 600 ms.*change \+400 ms/);
  await click(page, ['main', 'gone']);
  await until(page, () => /now 0 s.*base 300 ms.*gone/.test(document.querySelector('.pv-status').textContent));
  assert.match(await page.textContent('.pv-legend'), /less than base.*more than base/);
  await page.keyboard.press('0');
  await page.click('.pv-tabs a:has-text("Table")');
  await until(page, () => document.querySelectorAll('.pv-table tbody tr').length > 3);
  assert.match(await page.textContent('.pv-table tbody'), /gone/);
  assert.match(await page.textContent('.pv-table tbody'), /\+300 ms newflush/);
  for (const [name, sort] of [['Self change', 'self_change'], ['Total change', 'change']]) {
    await page.locator(`.pv-table th button:text-is("${name}")`).click();
    await until(page, (sort) => location.search.includes(`order=${sort}`) || location.search.includes(`sort=${sort}`), sort);
  }
  await page.click('.pv-tabs a:has-text("Callers")');
  // The profiles have the same duration, not the same total.
  await page.click('.pv-tools button:has-text("Filters")');
  await page.selectOption('.pv-form select[name=normalize]', 'time');
  await page.click('.pv-form .pv-primary');
  await until(page, () => location.search.includes('normalize=time'));
  await ready(page);
  assert.match(await page.evaluate(() => window.procprofViewer.root.head.facts.join()), /scaled to the same measured time/);
  assert.deepEqual(await page.evaluate(() => window.procprofViewer.root.head.diff), { normalized: true, scale: 1 });
  await open(page, `${address()}?base=${base}&normalize=true`);
  assert.match(await status(page), /change 0 s|\(=\)/);
});

check('hostile names are text, isolated and visible', async (page) => {
  await open(page, address());
  const path = ['main', HOSTILE[0], HOSTILE[1], await page.evaluate(() => window.procprofViewer.root.head.names.find((name) => name.includes('gpj')))];
  await click(page, path);
  await until(page, () => window.procprofViewer.state.zoom > 0);
  const place = await box(page, path);
  await page.mouse.move(place.x + 50, place.y + 5);
  await page.mouse.move(place.x + 60, place.y + 9);
  await page.waitForSelector('.pv-tip:not([hidden])');
  assert.match(await page.textContent('.pv-tip'), /evil.{1,10}gpj\.exe/);
  for (const view of ['table', 'tree', 'flame', 'icicle']) {
    await open(page, address(`?view=${view}&search=x`));
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wider, 0, view);
  }
  await open(page, address('?view=table'));
  await page.click('.pv-table tbody a:has-text("<script>")');
  await until(page, () => window.procprofViewer.picture.layers.length === 2);
});

check('a copied address reproduces the view', async (page) => {
  for (const query of ['?view=icicle&zoom=3&search=utf8&colour=self', '?view=table&order=total&filter=walk', '?view=sandwich&frame=parse',
    '?focus=serve&view=tree', '?sample_index=samples&hide=utf8&granularity=functions']) {
    await open(page, address(query));
    assert.equal(new URL(page.url()).search, query);
    const { view, search } = await state(page);
    assert.equal(view, new URLSearchParams(query).get('view') ?? 'flame');
    assert.equal(search, new URLSearchParams(query).get('search') ?? '');
    assert.equal(await page.getAttribute('.pv-tabs a[aria-current]', 'href'), new URL(page.url()).pathname + query);
  }
});

for (const [language, options, looks] of LOOKS) {
  check(`no view has a serious accessibility issue, ${language}`, async (page) => {
    const serious = async (selector) => {
      const { violations } = await page.evaluate((selector) => window.axe.run(selector, { resultTypes: ['violations'] }), selector);
      return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
        .map(({ id, nodes }) => [id, nodes[0].html, nodes[0].failureSummary]);
    };
    for (const query of ['', '?view=icicle&search=walk', '?view=sandwich&frame=parse', '?view=table', '?view=tree', '?focus=serve&hide=x',
      `?base=${base}`, `?base=${base}&view=table`]) {
      await open(page, address(query));
      await page.evaluate(AXE);
      for (const [name, shown] of looks) {
        await look(page, shown);
        assert.deepEqual(await serious('#viewer'), [], `${query}, ${name}`);
      }
    }
    await open(page, address());
    await page.evaluate(AXE);
    for (const [name, shown] of looks) {
      await look(page, shown);
      for (const [number, popup] of ['.pv-form', '.pv-exports'].entries()) {
        await page.locator('.pv-tools button').nth(number).click();
        await page.waitForSelector(popup);
        assert.deepEqual(await serious('.pv-popup'), [], `${popup}, ${name}`);
        await page.keyboard.press('Escape');
        await page.waitForSelector(popup, { state: 'detached' });
      }
    }
  }, options);
}

for (const locale of ['en-US', 'ja-JP', 'zh-CN']) {
  check(`a window holds every view, ${locale}`, async (page) => {
    for (const query of ['view=flame', 'view=icicle', 'view=table', 'view=tree', 'view=sandwich&frame=parse', `base=${base}`,
      `base=${base}&view=table`, 'focus=serve&hide=x&search=parse']) {
      await open(page, address(`?${query}`));
      assert.deepEqual(await tooWide(page), [], query);
    }
  }, { locale });
}

check('a window holds every report of a file', async (page) => {
  const view = await fileView(pprof(TYPES, [sample(['main', 'hot'], 70), sample(['main', 'cold'], 30)]));
  try {
    await page.goto(view.base);
    await ready(page);
    const place = page.url().split('?')[0];
    for (const report of ['', 'top', 'tree', 'list', 'peek', 'traces', 'top?focus=hot']) {
      await page.goto(place + report);
      assert.deepEqual(await tooWide(page), [], report);
    }
    // A report of one function, without its name, leads to the functions.
    await page.goto(`${place}list`);
    await page.click('.empty a:text-is("Top")');
    await page.waitForURL(/\/top/);
  } finally {
    await view.stop();
  }
});

/** Words that every language has: names of options, keys, functions, formats and units. */
const SAME_WORDS = new RegExp(['[a-z]+_?[a-z]+=\\S*', 'focus|ignore|hide|show(_from)?|tag(focus|ignore|root)|granularity|filefunctions|functions|files|lines|addresses',
  'Ctrl|Enter|Esc|Home|Page Up|Page Down|JavaScript', 'CPU|PNG|SVG|HTML|JVM|Go|SQL|curl|procprof|go tool pprof|pprof|speedscope|collapsed|Profile|samples|cpu',
  'main|serve|parse|absent|kb|mb|ms|min|all|[nNscm]'].map((words) => `(?<![A-Za-z])(?:${words})(?![A-Za-z])`).join('|'), 'g');

for (const [locale, word] of [['ja-JP', 'フレームグラフ'], ['zh-CN', '火焰图']]) {
  check(`every word of the viewer is in the language of the browser, ${locale}`, async (page) => {
    /** @type {string[]} */
    const texts = [];
    const collect = async (selector) => texts.push(...await page.$$eval(selector, (all) => all.flatMap((element) =>
      [...['title', 'aria-label', 'placeholder'].map((key) => element.getAttribute(key)), element.children.length ? '' : element.textContent])
      .filter(Boolean)));
    const around = '.pv-top, .pv-top *, .pv-status *, .pv-over';
    await open(page, address(`?base=${base}&search=parse`));
    assert.match(await page.textContent('.pv-tabs'), new RegExp(word));
    await collect(around);
    const place = await box(page, ['main', 'serve']);
    await page.mouse.move(place.x + 50, place.y + 5);
    await page.mouse.move(place.x + 60, place.y + 9);
    await page.waitForSelector('.pv-tip:not([hidden])');
    await collect('.pv-tip *');
    await page.mouse.click(place.x + 60, place.y + 9, { button: 'right' });
    await page.waitForSelector('.pv-menu');
    await collect('.pv-menu *');
    await page.keyboard.press('Escape');
    await page.waitForSelector('.pv-menu', { state: 'detached' });
    for (const [number, popup] of ['.pv-form', '.pv-exports', '.pv-keys'].entries()) {
      await page.locator('.pv-tools button').nth(number).click();
      await page.waitForSelector(popup);
      await collect(`${popup} :not(pre)`);
      await page.keyboard.press('Escape');
      await page.waitForSelector(popup, { state: 'detached' });
    }
    for (const query of ['', '?search=[', '?search=nothing', '?search=parse&colour=self', '?colour=kind']) {
      await open(page, address(query));
      await collect(around);
    }
    await open(page, address(`?view=sandwich`));
    await collect('.pv-empty');
    await open(page, address(`?view=sandwich&frame=parse`));
    await collect(around);
    await open(page, address('?view=table'));
    await collect('.pv-table-top *, .pv-table th *');
    await open(page, address('?view=tree'));
    await collect('.pv-tree, .pv-tree-head *');
    await open(page, address('?focus=absent&zoom=99'));
    await collect('.pv-empty, .pv-chips *');
    // The engine of regular expressions explains its errors in English.
    const words = texts.map((text) => text.replace(/(?<=：)report option[^]*/, '').replace(SAME_WORDS, ' '));
    assert.deepEqual(words.filter((text) => /[A-Za-z]/.test(text)), []);
    // The browser logs the refusals.
    page.complaints = page.complaints.filter((complaint) => !/status of 40[04]/.test(complaint));
  }, { locale });
}

check('without JavaScript there is a table', async (page) => {
  await page.goto(address());
  await page.waitForURL(/plain=true/);
  const text = await page.locator('main').textContent();
  assert.match(text, /parse/);
  assert.match(text, /serve/);
}, { javaScriptEnabled: false });

check('the view of one file is the same viewer', async (page) => {
  const view = await fileView(pprof(TYPES, [sample(['main', 'hot'], 70), sample(['main', 'cold'], 30)]));
  try {
    await open(page, view.base);
    assert.match(await status(page), /all100 ms CPU time/);
    await click(page, ['main', 'hot']);
    await until(page, () => location.search.includes('zoom='));
    await page.click('.pv-tabs a:has-text("Table")');
    await page.click('.pv-table tbody a:has-text("cold")');
    await until(page, () => window.procprofViewer.picture.layers.length === 2);
    await page.click('summary:has-text("Reports")');
    await page.click('details.save a:has-text("Peek")');
    await page.waitForSelector('nav.tabs');
  } finally {
    await view.stop();
  }
});

check('every filter of the form is in the address', async (page) => {
  const fields = { focus: 'main', ignore: 'cold', hide: 'xx', show: 'serve|parse|main|web', show_from: 'web|main', tagfocus: 'thread=web', tagignore: 'thread=disk',
    tagroot: 'thread' };
  const switches = ['collapse_recursion', 'noinlines', 'keep_allocators', 'drop_negative'];
  await open(page, address());
  await page.click('.pv-tools button:has-text("Filters")');
  for (const [key, value] of Object.entries(fields)) await page.fill(`.pv-form input[name=${key}]`, value);
  for (const key of switches) await page.check(`.pv-form input[name=${key}]`);
  await page.selectOption('.pv-form select[name=granularity]', 'filefunctions');
  await page.click('.pv-form .pv-primary');
  await until(page, () => location.search.includes('granularity='));
  await ready(page);
  const asked = Object.fromEntries(new URL(page.url()).searchParams);
  assert.deepEqual(asked, { ...fields, ...Object.fromEntries(switches.map((key) => [key, 'true'])), granularity: 'filefunctions' });
  await box(page, ['web thread', 'main', 'serve']);
  // The form has what holds.
  await page.click('.pv-tools button:has-text("Filters")');
  assert.equal(await page.inputValue('.pv-form input[name=tagroot]'), 'thread');
  assert.ok(await page.isChecked('.pv-form input[name=noinlines]'));
  await page.keyboard.press('Escape');
  await page.click('.pv-chips button:has-text("Remove all")');
  await until(page, () => location.search === '');
});

check('the menu of a function leads to all that it names', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.base });
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  const choose = async (name) => {
    await open(page, address());
    await click(page, ['main', 'serve', 'parse'], { button: 'right' });
    await page.click(`.pv-menu button:text-is("${name}")`);
  };
  await choose('Zoom in');
  await until(page, () => /^parse400 ms/.test(document.querySelector('.pv-status').textContent));
  await choose('Find in table');
  await until(page, () => document.querySelectorAll('.pv-table tbody tr').length === 1);
  await choose('Search for this name');
  await until(page, () => document.querySelector('.pv-found').textContent === '40.00% in 1 function');
  await choose('Hide its frames');
  await until(page, () => location.search.includes('hide='));
  await ready(page);
  await box(page, ['main', 'serve', 'utf8::check']);
  await choose('Show from here');
  await until(page, () => location.search.includes('show_from='));
  await ready(page);
  await box(page, ['parse', 'utf8::check']);
  await choose('Copy name');
  await page.waitForFunction(async () => await navigator.clipboard.readText() === 'parse');
  await choose('Copy stack');
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).includes('serve'));
  assert.equal(await copied(), 'parse\nserve\nmain');
});

check('buttons do what their keys do', async (page) => {
  await open(page, address('?search=utf8|flush'));
  const found = (text) => until(page, (text) => document.querySelector('.pv-found').textContent.startsWith(text), text);
  await found('40.00%');
  await page.click('.pv-find button[title^="Next"]');
  await found('1 of 2');
  await page.click('.pv-find button[title^="Next"]');
  await found('2 of 2');
  await page.click('.pv-find button[title^="Previous"]');
  await found('1 of 2');
  for (const [tab, view] of [['Icicle', 'icicle'], ['Tree', 'tree'], ['Call graph', 'graph'], ['Flame graph', 'flame']]) {
    await page.click(`.pv-tabs a:text-is("${tab}")`);
    await until(page, (view) => window.procprofViewer.state.view === view, view);
  }
  await page.click('.pv-tools button >> nth=2');
  await page.waitForSelector('.pv-keys');
});

check('commands and exports are one click away', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.base });
  await open(page, address('?focus=serve'));
  await page.click('text=Export');
  const commands = page.locator('.pv-command');
  for (let number = 0; number < await commands.count(); number++) {
    assert.equal(await copy(page, commands.nth(number).locator('button')), await commands.nth(number).locator('pre').textContent());
  }
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('.pv-exports a').first().click()]);
  assert.ok(readFileSync(await download.path()).length > 20);
});

check('the form of a report narrows it, and marks take that back', async (page) => {
  const view = await fileView(pprof(TYPES, [sample(['main', 'hot'], 70), sample(['main', 'cold'], 30)]));
  try {
    await open(page, view.base);
    await page.click('details.save >> nth=1');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('details.save[open] a:text-is("collapsed")')]);
    assert.match(readFileSync(await download.path(), 'utf8'), /main;hot 70/);
    await page.goto(new URL('peek', page.url()).href);
    const fields = { symbol: 'hot|cold', focus: 'main', ignore: 'cold', hide: 'xx', show: 'main|hot', show_from: 'main' };
    for (const [key, value] of Object.entries(fields)) await page.fill(`.refine input[name=${key}]`, value);
    await page.selectOption('.refine select[name=sample_index]', 'samples');
    await page.selectOption('.refine select[name=granularity]', 'files');
    await page.click('.refine summary:text-is("More options")');
    const more = page.locator('.refine details.more :is(input, select)');
    for (const field of await more.all()) {
      // Each is sent as it is by default.
      if (await field.evaluate(({ localName }) => localName === 'select')) await field.selectOption({ index: 0 });
      else await field.fill(' ').then(() => field.fill(''));
    }
    await page.fill('.refine input[name=nodecount]', '7');
    await page.click('.refine button.primary');
    await page.waitForURL(/nodecount=7/);
    const asked = Object.fromEntries([...new URL(page.url()).searchParams].filter(([, value]) => value));
    assert.deepEqual(asked, { ...fields, sample_index: 'samples', granularity: 'files', nodecount: '7' });
    await page.click('.marks a[title="Take nodecount back"]');
    await page.waitForURL((url) => !url.search.includes('nodecount=7'));
    await page.click('.marks a:text-is("Reset")');
    await page.waitForURL((url) => url.search === '?sample_index=samples');
    await page.click('nav.tabs a:text-is("Top")');
    await page.waitForURL(/\/top/);
    await page.click('table.top th a:text-is("Cum")');
    await page.waitForURL(/sort=cum/);
    await page.click('table.top th a:text-is("Flat")');
    await page.waitForURL(/sort=flat/);
    await page.click('table.top td.name a:text-is("hot")');
    await page.waitForURL(/peek\?.*symbol=/);
    await page.goBack();
    await page.click('table.top a:text-is("source") >> nth=0');
    await page.waitForURL(/list\?.*symbol=/);
    await page.click('a.brand');
    await ready(page);
  } finally {
    await view.stop();
  }
});

test('no control is unused', () => {
  assert.equal(controls.unused('viewer', 'file').join('\n'), '');
});
