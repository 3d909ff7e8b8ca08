/** The pages around the viewer in Chromium: every control with a script and without, by keyboard, with hostile names. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Controls } from './controls.mjs';
import { widthOf } from './fonts.mjs';
import { Browser, LOOKS, NARROW, copy, eventually, look, server as start, tooWide, until } from './harness.mjs';
import { pprof } from './pprof.mjs';

const CPU = [['samples', 'count'], ['cpu', 'nanoseconds']];
const HEAP = [['inuse_objects', 'count'], ['inuse_space', 'bytes']];
const FIRST = 1_700_000_000;
const HOSTILE = ['<script>document.documentElement.dataset.pwned=1</script>', '"><img src=x onerror=document.documentElement.dataset.pwned=1>',
  '\' or 1=1 --', 'evil\u202egpj.exe\u0007\n', 'x'.repeat(65536), '日本語の関数::名前😀'];
const AXE = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const PLAIN = { javaScriptEnabled: false };
const PAGES = ['/', '/proc_profile?node=1', '/proc_profile?node=far', '/proc_profile/errors?node=far', '/merge', '/heap?node=1', '/heap?node=1&state=yes',
  '/search', '/search?function=hot&percent=1', '/search?function=main&of=total', '/open', '/archive', '/settings', '/symbols', '/help', '/nothing',
  '/merge?node=1&type=cpu&from=yesterday&to=today'];
/** Statuses of pages of problems, which the browser reports. */
const PROBLEMS = /status of 4\d\d/;

const controls = new Controls();
const browser = new Browser(controls);
/** @type {any} */
let server;
/** Ids, oldest first. @type {string[]} */
const cpu = [];
/** @type {string[]} */
const heap = [];

const sample = (stack, value) => ({ stack, values: [value, value * 1_000_000] });
const at = (seconds) => new Date(seconds * 1000).toISOString();
const merged = `node=1&type=cpu&from=${at(FIRST - 60)}&to=${at(FIRST + 3600)}`;

before(async () => {
  // CPU and heap profiles are not scheduled by the server's configuration. The address is long, and so is its error.
  const far = `[[node]]\nname = "far"\nkind = "pprof"\nurls = { contention = "http://127.0.0.1:1/${'a'.repeat(300)}" }\n`
    + 'labels = { zone = "a" }\nschedule.contention = { on = true, seconds = 1, every = 1 }\n';
  const quiet = 'self_interval_seconds = 3600\n';
  [, server] = await Promise.all([browser.start(), start(quiet + far)]);
  for (let number = 0; number < 45; number++) {
    const hot = number === 40 ? 4800 : 100 + number;
    cpu.push(await server.push('cpu', pprof(CPU, [sample(['main', 'hot'], hot), sample(['main', 'cold'], 50)], FIRST + 60 * number)));
  }
  for (const [number, value] of [100, 250].entries()) {
    heap.push(await server.push('heap', pprof(HEAP, [sample(['main', 'kept'], value)], FIRST + 60 * number)));
  }
});

after(async () => {
  await browser.close();
  await server?.stop();
});

/** Adds a test with a page that must not complain. */
const check = (name, run, options) => browser.check(name, run, options);

/** The same with the script and without. */
function both(name, run) {
  check(`${name}, with a script`, (page) => run(page, true));
  check(`${name}, without one`, (page) => run(page, false), PLAIN);
}

/** Opens a page. */
async function go(page, path) {
  await page.goto(server.base + path);
  await settle(page);
}
/** Waits for an address, and until the page has nowhere left to lead. */
async function arrive(page, pattern) {
  await page.waitForURL((url) => pattern.test(url.pathname + url.search));
  await settle(page);
}
/** Without a script, a page with a picture leads on to its table: what is opened meanwhile would be replaced by it. */
async function settle(page) {
  const address = page.url();
  const hasPicture = /^\/(p|merge|open)\b/.test(new URL(address).pathname);
  if (page.isScripted || !hasPicture || /[?&]plain=true/.test(address)) return;
  const html = await (await fetch(address)).text();
  if (html.includes('http-equiv="refresh"')) await page.waitForURL(/[?&]plain=true/);
}
const place = (page) => page.url().slice(server.base.length);
/** Follows what a click leads to. */
async function leads(page, selector, pattern) {
  await page.click(selector);
  await arrive(page, pattern);
}
/** Rows of the list. */
const rows = (page) => page.locator('.profiles-table tbody tr').count();
/** Waits until a count is above 0; without a script, the page is opened again and again. */
async function reload(page, scripted, address, count) {
  await eventually(`${address} does not change`, async () => {
    if (await count() > 0) return true;
    if (!scripted) await go(page, address);
    return false;
  });
}
const pushed = () => server.push('cpu', pprof(CPU, [sample(['main', 'mine'], 9)], FIRST + 86_400));

for (const [language, options, looks] of LOOKS) {
  check(`axe finds nothing serious on any page, ${language}`, async (page) => {
    const found = [];
    for (const path of [...PAGES, `/merge?${merged}`]) {
      await go(page, path);
      await page.evaluate(AXE);
      for (const [name, shown] of looks) {
        await look(page, shown);
        const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
        const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
        found.push(...serious.map(({ id, nodes }) => [path, name, id, nodes[0].html]));
      }
    }
    assert.deepEqual(found, []);
    // The browser reports the page that is not there.
    page.complaints = page.complaints.filter((complaint) => !PROBLEMS.test(complaint));
  }, options);
}

check('the letters are those of the tests, whatever fonts a machine has', async (page) => {
  await go(page, '/help');
  const widths = await page.evaluate(() => ['html', 'code'].map((name) => {
    const context = document.createElement('canvas').getContext('2d');
    context.font = `100px ${getComputedStyle(document.querySelector(name)).fontFamily}`;
    return context.measureText('Pause schedule').width;
  }));
  const expected = [widthOf('Pause schedule', 100), 'Pause schedule'.length * 72.2];
  for (const [index, width] of widths.entries()) {
    // The browser may round each letter to a pixel.
    assert.ok(Math.abs(width - expected[index]) <= 'Pause schedule'.length / 2, `${width} for ${expected[index]}`);
  }
});

/** The profile with the longest name of a type, and no page wider than its window; the letters are wide. */
async function fits(page) {
  const holders = [['contentions', 'count'], ['delay', 'nanoseconds']];
  const id = await server.push('mutex', pprof(holders, [sample(['main', 'hold'], 9)], FIRST + 40 * 86_400));
  // The error of the node is on its pages.
  await eventually('the node does not fail', async () => {
    await go(page, '/proc_profile/errors?node=far');
    return await page.locator('.errors li').count() > 0;
  });
  const found = [];
  for (const path of [...PAGES, `/p/${cpu[0]}`, `/p/${cpu[1]}?base=${cpu[0]}`, `/merge?${merged}`]) {
    await go(page, path);
    found.push(...await tooWide(page).then((widths) => widths.map((width) => `${path}: ${width}`)));
  }
  assert.deepEqual(found, []);
  // A table that is wider than its place scrolls; none of these has to.
  await page.setViewportSize(NARROW);
  const cut = [];
  for (const path of ['/proc_profile?node=1', '/proc_profile?node=far', '/proc_profile/errors?node=far', '/symbols', '/archive']) {
    await go(page, path);
    const hidden = await page.locator('.table').evaluateAll((all) => all.map((table) => table.scrollWidth - table.clientWidth));
    cut.push(...hidden.filter((width) => width > 0).map((width) => `${path}: ${width}`));
  }
  assert.deepEqual(cut, [], 'all columns are visible');
  await page.request.delete(`${server.base}/api/profiles/${id}`);
  page.complaints = page.complaints.filter((complaint) => !PROBLEMS.test(complaint));
}

both('no page is wider than its window', fits);
check('no page is wider than its window, Japanese', fits, { locale: 'ja-JP', colorScheme: 'dark' });
check('no page is wider than its window, Chinese', fits, { locale: 'zh-CN' });

check('the list shows the columns of a profile on a laptop, and rows of two lines on a telephone', async (page) => {
  const shown = () => page.locator('.profiles-table thead th').evaluateAll((all) =>
    all.filter((head) => head.offsetParent !== null).map((head) => head.innerText.trim()));
  await page.setViewportSize({ width: 1440, height: 900 });
  await go(page, '/proc_profile?node=1');
  for (const head of ['Duration', 'Flame graph', 'Size']) assert.ok((await shown()).includes(head), head);
  await page.setViewportSize({ width: 390, height: 844 });
  for (const path of ['/proc_profile?node=1', `/merge?${merged}`, '/search?function=hot&percent=1']) {
    await go(page, path);
    const rows = await page.locator('.profiles-table tbody tr').evaluateAll((all) => all.map((row) => {
      const when = row.querySelector('.when time').getClientRects();
      return { height: row.getBoundingClientRect().height, lines: when.length };
    }));
    assert.ok(rows.length > 1, path);
    assert.deepEqual(rows.filter(({ height, lines }) => height > 72 || lines !== 1), [], path);
  }
});

check('no card leads to the page that it is on', async (page) => {
  for (const path of PAGES) {
    await go(page, path);
    const own = await page.locator('.card a[href]').evaluateAll((all) =>
      all.filter((link) => link.href.split('#')[0] === location.href.split('#')[0]).map((link) => link.outerHTML));
    assert.deepEqual(own, [], path);
  }
  page.complaints = page.complaints.filter((complaint) => !PROBLEMS.test(complaint));
});

both('the navigation leads to every page, and marks where one is', async (page) => {
  await go(page, '/');
  const links = await page.locator('nav.places a').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  assert.ok(links.length >= 8, String(links));
  for (const [index, link] of links.entries()) {
    await leads(page, `nav.places a:nth-child(${index + 1})`, new RegExp(`^${link.replace('/', '\\/')}`));
    assert.equal(await page.locator('nav.places a[aria-current]').getAttribute('href').then((href) => href.split('?')[0]), link);
    assert.equal(await page.locator('h1').count(), 1, link);
  }
});

both('the navigation keeps the node', async (page) => {
  await go(page, '/proc_profile?node=far');
  for (const [name, place] of [['Heap', '/heap'], ['Search', '/search'], ['Merge', '/merge'], ['Profiles', '/proc_profile']]) {
    await leads(page, `nav.places a:has-text("${name}")`, new RegExp(`^${place}\\?node=\\d+$`));
    assert.match(await page.locator('main, nav').allInnerTexts().then((all) => all.join()), /far/, place);
    if (place !== '/heap' && place !== '/proc_profile') assert.match(await page.locator('select[name=node] option:checked').innerText(), /far/, place);
  }
});

both('the overview finds, captures, pauses and resumes', async (page, scripted) => {
  await go(page, '/');
  assert.equal(await page.locator('.nodes-table tbody tr').count(), 2);
  await page.fill('main input[type=search]', 'far');
  if (scripted) await until(page, () => [...document.querySelectorAll('.nodes-table tbody tr')].filter((row) => !row.hidden).length === 1);
  await leads(page, 'main form[role=search] button', /\?q=far$/);
  assert.equal(await page.locator('.nodes-table tbody tr').count(), 1);
  await page.fill('main input[type=search]', 'nowhere');
  await leads(page, 'main form[role=search] button', /\?q=nowhere$/);
  await leads(page, '.empty a', /^\/$/);
  await page.check('input[name=node][value="1"]');
  await page.fill('#capture input[name=seconds]', '1');
  await page.click('#capture button');
  const job = page.locator('.jobs .job').first();
  await job.waitFor();
  await reload(page, scripted, '/', () => job.locator('a.view, .bad').count());
  await leads(page, '.jobs .job a.view', /^\/p\//);
  await go(page, '/');
  await page.locator('.nodes-table .menu > summary').first().click();
  await page.click('.nodes-table .menu[open] button');
  await leads(page, '.chip.warn', /^\/settings$/);
  await page.click('#schedule button');
  await page.waitForSelector('.chip.warn', { state: 'detached' });
  await go(page, '/');
  await page.click('details.commands summary');
  assert.match(await page.locator('details.commands').innerText(), /SELECT id, name[^]*curl '.*\/api\/nodes'/);
  await leads(page, 'a.node:has-text("far")', /node=\d+/);
});

both('the list is filtered and paged, and its address keeps it', async (page) => {
  // Before what other tests capture.
  const first = `/proc_profile?node=1&to=${encodeURIComponent(at(FIRST + 4000))}`;
  await go(page, first);
  assert.equal(await rows(page), 40);
  await leads(page, '.pages a:has-text("Older")', /cursor=/);
  assert.equal(await rows(page), 7);
  await leads(page, '.pages a:has-text("Newest")', /node=1&to=[^&]*$/);
  await leads(page, '[aria-label="Type"] a:has-text("Heap")', /type=heap/);
  assert.equal(await rows(page), 2);
  assert.equal(await page.locator('.profiles-table .type:has-text("Heap")').count(), 2);
  await leads(page, '[aria-label="Type"] a:has-text("All types")', /node=1&to=[^&]*$/);
  await leads(page, '[aria-label="Time"] a:has-text("1 hour")', /last=1h/);
  await leads(page, '[aria-label="Time"] a:has-text("Any time")', /node=1$/);
  await page.click('.more-filters summary');
  await page.fill('.more-filters input[name=from]', at(FIRST));
  await page.fill('.more-filters input[name=to]', at(FIRST + 180));
  await page.selectOption('.more-filters select[name=trigger]', 'push');
  await leads(page, '.filter-bar button:has-text("Filter")', /from=.*to=.*trigger=push/);
  const filtered = place(page);
  const count = await rows(page);
  assert.ok(count > 0 && count < 8, String(count));
  await go(page, '/help');
  await go(page, filtered);
  assert.equal(await rows(page), count);
  assert.equal(await page.inputValue('select[name=trigger]'), 'push');
  await leads(page, '.filter-bar a:has-text("Clear")', /node=1$/);
  await go(page, '/proc_profile?node=far');
  await page.click('.more-filters summary');
  await page.selectOption('.more-filters select[name=label]', 'zone=a');
  await leads(page, '.filter-bar button:has-text("Filter")', /label=zone%3Da/);
  assert.equal(await page.inputValue('select[name=label]'), 'zone=a');
  await go(page, '/proc_profile?node=1');
  await page.fill('.filter-bar input[type=search]', 'no such function');
  await leads(page, '.filter-bar button:has-text("Filter")', /text=no/);
  await leads(page, '.empty a:has-text("Clear the filters")', /node=1$/);
  await page.click('details.commands summary');
  assert.match(await page.locator('details.commands').innerText(), /FROM profiles WHERE node = 1[^]*api\/profiles\?node=1/);
});

both('selected profiles are viewed, compared and merged', async (page, scripted) => {
  await go(page, '/proc_profile?node=1&type=cpu');
  const box = (number) => page.locator('.profiles-table input[type=checkbox]').nth(number);
  const button = (name) => page.locator(`#selection button[value=${name}]`);
  if (scripted) assert.equal(await button('view').isVisible(), false);
  await box(0).check();
  await button('view').click();
  await arrive(page, /\/p\/[^?]*(\?plain=true)?$/);
  await go(page, '/proc_profile?node=1&type=cpu');
  await box(0).check();
  await box(1).check();
  if (scripted) assert.equal(await button('view').isDisabled(), true);
  await button('compare').click();
  await arrive(page, /\/p\/.*base=/);
  await go(page, '/proc_profile?node=1&type=cpu');
  for (const number of [0, 1, 2]) await box(number).check();
  await button('merge').click();
  await arrive(page, /\/merge\?id=.*id=.*id=/);
  assert.match(await page.locator('h1').innerText(), /of 3 profiles/);
});

both('the menu of a row downloads, searches, pins and deletes', async (page) => {
  const id = await pushed();
  const list = `/proc_profile?node=1&from=${at(FIRST + 80_000)}&to=${at(FIRST + 100_000)}`;
  await go(page, list);
  const row = () => page.locator('tr', { has: page.locator(`a[href="/p/${id}"]`) });
  const item = async (name) => {
    await row().locator('details.menu > summary').click();
    return row().locator('details.menu').getByText(name, { exact: true });
  };
  const [download] = await Promise.all([page.waitForEvent('download'), (await item('Download')).click()]);
  assert.match(download.suggestedFilename(), /cpu-profile/);
  await go(page, list);
  await (await item('Search its functions')).click();
  await arrive(page, /\/search\?node=1&type=cpu/);
  await go(page, list);
  await (await item('Pin')).click();
  await row().locator('.tag.pin').waitFor();
  await (await item('Unpin')).click();
  await row().locator('.tag.pin').waitFor({ state: 'detached' });
  await (await item('Delete…')).click();
  await row().locator('button.danger').click();
  await row().waitFor({ state: 'detached' });
  await arrive(page, /^\/proc_profile(\?|$)/);
});

both('the page of a profile has its reports, its file, the day before, and deletes it', async (page) => {
  const day = 86_400;
  // Two of the day before, so that the sides differ in length.
  await server.push('cpu', pprof(CPU, [sample(['main', 'mine'], 7)], FIRST + 9 * day));
  const earlier = await server.push('cpu', pprof(CPU, [sample(['main', 'mine'], 7)], FIRST + 9 * day));
  const id = await server.push('cpu', pprof(CPU, [sample(['main', 'mine'], 9)], FIRST + 10 * day));
  const open = () => go(page, `/p/${id}`);
  await open();
  await page.click('details.save summary');
  const reports = await page.locator('details.save a').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  assert.ok(reports.length > 15, String(reports));
  for (const report of reports) assert.ok([200, 400].includes((await page.request.get(server.base + report)).status()), report);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('.actions a:has-text("Download")')]);
  assert.match(download.suggestedFilename(), /^cpu-profile.*gz$/);
  await leads(page, '.actions a:has-text("Compare with day before")', /^\/merge\?.*normalize=time/);
  assert.match(await page.locator('main').innerText(), /compared with/);
  assert.match(await page.locator('.notice').innerText(), /^Measured: 1 second here, \d+ seconds in the base\. The base is scaled to the same measured time/);
  for (const [name, value, scaled] of [['Compare as measured', 'false', 'as measured'], ['Scale to the same total', 'true', 'to the same total'],
    ['Scale to the same measured time', 'time', 'to the same measured time']]) {
    await leads(page, `.notice a:has-text("${name}")`, new RegExp(`normalize=${value}`));
    assert.match(await page.locator('.notice').innerText(), new RegExp(`${scaled}\\.`));
  }
  await open();
  await leads(page, '.actions a:has-text("Compare with previous")', new RegExp(`^/p/${id}\\?base=${earlier}`));
  await go(page, `/p/${id}?base=${earlier}`);
  await leads(page, '.compared a:has-text("Swap")', new RegExp(`^/p/${earlier}\\?base=${id}`));
  await leads(page, '.compared a:has-text("End the comparison")', new RegExp(`^/p/${earlier}(\\?plain=true)?$`));
  await open();
  await leads(page, '.crumbs a', /^\/proc_profile\?node=1$/);
  await open();
  await page.click('.actions button:has-text("Pin")');
  await page.locator('h1 .tag.pin').waitFor();
  await settle(page);
  assert.equal(await page.locator('details.confirm').count(), 0, 'a pinned profile is not deleted');
  await page.click('.actions button:has-text("Unpin")');
  await page.locator('h1 .tag.pin').waitFor({ state: 'detached' });
  await settle(page);
  await page.click('details.confirm summary');
  await page.click('details.confirm button.danger');
  await arrive(page, /^\/proc_profile\?node=1$/);
  assert.equal((await page.request.get(`${server.base}/p/${id}`)).status(), 404);
});

both('a capture is cancelled', async (page, scripted) => {
  await go(page, '/proc_profile?node=1');
  await page.click('details.capture > summary');
  await page.selectOption('details.capture select[name=type]', 'cpu');
  await page.fill('details.capture input[name=seconds]', '120');
  await page.click('details.capture button');
  await page.locator('.jobs .job').first().waitFor();
  await page.locator('.jobs button:has-text("Cancel")').first().click();
  await reload(page, scripted, '/proc_profile?node=1', () => page.locator('.jobs .job:has-text("Cancelled")').count());
});

both('the heap of a process is sampled for a while, and dumped', async (page, scripted) => {
  const address = '/heap?node=1&state=yes';
  await go(page, address);
  // It is on from the start of the process.
  if (await page.locator('#heap button[value=no]').count()) {
    await page.click('#heap button[value=no]');
    await reload(page, scripted, address, () => page.locator('#heap button[value=yes]').count());
  }
  assert.match(await page.locator('#heap').innerText(), /\bOff\b/);
  await page.selectOption('#heap select[name=minutes]', '10');
  await page.click('#heap button[name=active][value=yes]');
  await reload(page, scripted, address, () => page.locator('#heap button[value=no]').count());
  assert.match(await page.locator('#heap').innerText(), /On · allocations are sampled until \d/);
  const dumps = page.locator('#dumps input[name=from]');
  const before = await dumps.count();
  // There is nothing to dump until an allocation is sampled, and the pages of the server are its allocations.
  const open = page.locator('#jobs .job:has(form)');
  for (let tries = 0; await dumps.count() === before; tries++) {
    assert.ok(tries < 100, 'no dump');
    for (const path of PAGES) await fetch(server.base + path);
    await page.click('button:has-text("Dump now")');
    await reload(page, scripted, '/heap?node=1', async () => Number(await dumps.count() > before || await open.count() === 0));
  }
  await go(page, address);
  await page.click('#heap button[value=no]');
  await reload(page, scripted, address, () => page.locator('#heap button[value=yes]').count());
});

both('a file of several kinds of events shows each, and has the reports', async (page) => {
  await go(page, '/open');
  await page.setInputFiles('input[type=file]', new URL('../testdata/formats/jfr/made.jfr', import.meta.url).pathname);
  await page.click('form.drop button');
  await arrive(page, /^\/open\/[^/]+$/);
  const kinds = page.locator('[aria-label="Kind of event"] a');
  assert.ok(await kinds.count() > 1);
  const second = await kinds.nth(1).getAttribute('href');
  await kinds.nth(1).click();
  await arrive(page, /event=1/);
  assert.equal(await kinds.nth(1).getAttribute('aria-current'), 'true');
  const reports = await page.locator('main > .filters a[target=_blank]').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  assert.ok(reports.length > 10 && reports.every((report) => report.startsWith(second.split('?')[0])), String(reports));
  assert.equal((await page.request.get(server.base + reports.find((report) => report.includes('format=top')))).status(), 200);
  await leads(page, '.crumbs a', /^\/open$/);
  await leads(page, 'td a', /^\/open\/[^/]+$/);
  await page.click('form.actions button:has-text("Close")');
  await arrive(page, /^\/open$/);
  await page.setInputFiles('input[type=file]', new URL('../testdata/formats/jfr/made.jfr', import.meta.url).pathname);
  await page.click('form.drop button');
  await arrive(page, /^\/open\/[^/]+$/);
  await go(page, '/open');
  await page.click('td button:text-is("Close")');
  await arrive(page, /^\/open$/);
  assert.equal(await page.locator('td a').count(), 0);
});

both('a growth of threads is visible in the list', async (page) => {
  const day = FIRST + 30 * 86_400;
  const threads = (count) => Array.from({ length: count }, (_, number) => ({ ...sample(['main', 'work'], 100), labels: { thread: `worker ${number}` } }));
  const ids = [];
  for (const [number, count] of [2, 2, 3, 2, 2, 200].entries()) ids.push(await server.push('cpu', pprof(CPU, threads(count), day + 60 * number)));
  await go(page, `/proc_profile?node=1&from=${at(day - 60)}&to=${at(day + 600)}`);
  const lane = page.locator('.lane', { has: page.locator('.lane-name a:text-is("Threads")') });
  assert.match(await lane.innerText(), /max 200/);
  const heights = await lane.locator('rect').evaluateAll((all) => all.map((bar) => Number(bar.getAttribute('height'))));
  assert.equal(heights.length, ids.length);
  assert.ok(heights[5] === 32 && heights.slice(0, 5).every((height) => height < 4), String(heights));
  const marked = page.locator('.profiles-table tbody tr', { hasText: '200 threads' });
  assert.equal(await marked.count(), 1);
  assert.equal(await marked.locator('a.view').getAttribute('href'), `/p/${ids[5]}`);
  const list = place(page);
  await leads(page, '.lane-name a.type.threads', /type=cpu/);
  await go(page, list);
  await leads(page, 'svg.bars.threads a', /^\/p\//);
  for (const id of ids) await page.request.delete(`${server.base}/api/profiles/${id}`);
});

check('more nodes than a page shows are reached by pages, search and suggestions', async (page) => {
  const many = Array.from({ length: 120 }, (_, number) => `[[node]]\nname = "node-${number}"\nkind = "pprof"\n`
    + 'urls = { contention = "http://127.0.0.1:1/profile" }\nschedule.contention = { on = false, seconds = 1, every = 3600 }\n').join('');
  const own = await start(`self_interval_seconds = 3600\n${many}`);
  try {
    await page.goto(`${own.base}/`);
    assert.equal(await page.locator('#nodes tbody tr').count(), 100);
    await page.click('nav.pages a[rel=next]');
    await page.waitForURL(`${own.base}/?page=2`);
    assert.equal(await page.locator('#nodes tbody tr').count(), 21);
    await page.click('nav.pages a[rel=prev]');
    await page.waitForURL(`${own.base}/?page=1`);
    assert.match(await page.locator('nav.pages').innerText(), /Rows 1 to 100 of 121/);
    assert.deepEqual(await tooWide(page), []);
    await page.fill('main input[name=q]', 'node-119');
    await page.keyboard.press('Enter');
    await page.waitForURL(`${own.base}/?q=node-119`);
    assert.equal(await page.locator('#nodes tbody tr').count(), 1);
    for (const path of ['/search', '/merge']) {
      await page.goto(own.base + path);
      await page.fill('input[name=node]', 'node-119');
      await until(page, () => {
        const options = [...document.querySelectorAll('#node-names option')];
        return options.length === 1 && options[0].value === 'node-119';
      });
    }
  } finally {
    await own.stop();
  }
});

check('a node is found among many', async (page) => {
  const many = Array.from({ length: 12 }, (_, number) => `[[node]]\nname = "node-${number}"\nkind = "pprof"\n`
    + 'urls = { contention = "http://127.0.0.1:1/profile" }\nschedule.contention = { on = false, seconds = 1, every = 3600 }\n').join('');
  const own = await start(`self_interval_seconds = 3600\n${many}`);
  try {
    await page.goto(`${own.base}/proc_profile`);
    assert.ok(await page.locator('nav.tabs > a').count() <= 8);
    await page.click('details.picker summary');
    assert.equal(await page.locator('#all-nodes li').count(), 13);
    await page.fill('details.picker input[type=search]', 'node-11');
    await until(page, () => [...document.querySelectorAll('#all-nodes li')].filter((item) => !item.hidden).length === 1);
    await page.click('#all-nodes li:not([hidden]) a');
    await page.waitForURL(/node=\d+/);
    assert.match(await page.locator('nav.tabs > a[aria-current]').innerText(), /node-11/);
    await page.click('details.picker summary');
    await page.fill('details.picker input[type=search]', 'node-3');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/\?q=node-3$/);
  } finally {
    await own.stop();
  }
});

check('a part of the timeline is marked, merged, listed and compared', async (page) => {
  await go(page, `/proc_profile?node=1&from=${at(FIRST)}&to=${at(FIRST + 3000)}`);
  const drag = async () => {
    const lane = await page.locator('.lane[data-type=cpu] svg.bars').boundingBox();
    await page.mouse.move(lane.x + lane.width * 0.2, lane.y + 10);
    await page.mouse.down();
    await page.mouse.move(lane.x + lane.width * 0.5, lane.y + 12, { steps: 5 });
    await page.mouse.up();
    await page.waitForSelector('.brushed');
  };
  await drag();
  assert.match(await page.locator('.brushed').innerText(), /\d+ bars of cpu/);
  await page.click('.brushed button');
  assert.equal(await page.locator('.brush, .brushed').count(), 0);
  for (const [name, pattern] of [['Merge', /^\/merge\?/], ['Compare with the day before', /base_from=/], ['List', /^\/proc_profile\?.*from=/]]) {
    await drag();
    await leads(page, `.brushed a:has-text("${name}")`, pattern);
    await page.goBack();
    await page.waitForSelector('.lanes');
  }
});

check('a finger marks a part of the timeline, and scrolls the page', async (page) => {
  await go(page, `/proc_profile?node=1&from=${at(FIRST)}&to=${at(FIRST + 3000)}`);
  const lane = await page.locator('.lane[data-type=cpu] svg.bars').boundingBox();
  const touches = await page.context().newCDPSession(page);
  const touch = (type, x, y) => touches.send('Input.dispatchTouchEvent', { type, touchPoints: type === 'touchEnd' ? [] : [{ x, y }] });
  const [left, middle] = [lane.x + lane.width * 0.3, lane.y + lane.height / 2];
  await touch('touchStart', left, middle);
  for (let step = 1; step <= 8; step++) await touch('touchMove', left + step * lane.width / 20, middle);
  await touch('touchEnd');
  await page.waitForSelector('.brushed');
  assert.match(await page.locator('.brushed').innerText(), /bars of cpu/);
  // A tap in the moment in which the page is laid out anew misses the button.
  await eventually('the button does not clear the mark', async () => {
    const button = await page.evaluate(() => document.querySelector('.brushed button')?.getBoundingClientRect());
    if (button) await page.touchscreen.tap(button.x + button.width / 2, button.y + button.height / 2);
    return !button;
  });
  const small = await page.locator('button:visible, nav a:visible, .filters a:visible').evaluateAll((all) => all
    .filter((element) => element.getBoundingClientRect().height < 24).map((element) => element.outerHTML.slice(0, 80)));
  assert.deepEqual(small, [], 'large enough for a finger');
}, { viewport: NARROW, hasTouch: true, isMobile: true });

both('the timeline leads to profiles, types and merges', async (page) => {
  const list = `/proc_profile?node=1&from=${at(FIRST)}&to=${at(FIRST + 3000)}`;
  await go(page, list);
  const href = await page.locator('.lane[data-type=cpu] svg.bars a').first().getAttribute('href');
  assert.match(href, /^\/p\//);
  await leads(page, '.lane[data-type=heap] .lane-name a.type', /type=heap/);
  await go(page, list);
  await leads(page, '.lane[data-type=cpu] a:has-text("merge")', /^\/merge\?node=1&type=cpu/);
  await go(page, '/proc_profile?node=1');
  assert.match(await page.locator('.profiles-table').innerText(), /×\d/, 'the spike is marked');
});

both('a capture is started from the list', async (page, scripted) => {
  await go(page, '/proc_profile?node=1');
  await page.click('details.capture > summary');
  await page.selectOption('details.capture select[name=type]', 'cpu');
  await page.fill('details.capture input[name=seconds]', '1');
  await page.click('details.capture button');
  const job = page.locator('.jobs .job').first();
  await job.waitFor();
  await reload(page, scripted, '/proc_profile?node=1', () => job.locator('a.view').count());
});

both('a node that fails has its reason on every page', async (page) => {
  await eventually('the node does not fail', async () => {
    await go(page, '/');
    return await page.locator('.nodes-table .bad').count() > 0;
  });
  await go(page, '/proc_profile?node=far');
  assert.match(await page.locator('.notice.bad').innerText(), /Contention fails: .*127\.0\.0\.1:1/);
  await leads(page, '.errors a:has-text("All errors")', /^\/proc_profile\/errors/);
  assert.ok(await page.locator('.errors li').count() > 0);
  await leads(page, '.crumbs a', /^\/proc_profile\?node=/);
  await leads(page, 'nav.tabs a:has-text("procprof")', /node=1$/);
});

both('the program\'s function is listed with the library\'s that it calls beside it', async (page) => {
  const id = await server.push('cpu', pprof(CPU, [sample(['main', 'poll_loop', 'nanosleep'], 9)], FIRST + 20 * 86_400));
  await go(page, '/proc_profile?node=1');
  const row = page.locator('.profiles-table tbody tr').filter({ has: page.locator(`a[href="/p/${id}"]`) });
  assert.equal(await row.locator('.function strong').innerText(), 'poll_loop');
  assert.equal(await row.locator('.function .leaf').innerText(), 'nanosleep');
  await row.locator('details.menu > summary').click();
  await row.locator('details.sure summary').click();
  await row.locator('button.danger').click();
  await row.waitFor({ state: 'detached' });
});

both('an address that cannot be read says so, and leads on', async (page) => {
  await go(page, '/merge?node=1&type=cpu&from=yesterday&to=today');
  assert.match(await page.locator('.problem').innerText(), /from: expected a time such as/);
  assert.equal(await page.inputValue('main form [name=from]'), 'yesterday', 'the form has what was asked');
  await page.fill('main form [name=from]', at(FIRST - 60));
  await page.fill('main form [name=to]', at(FIRST + 3600));
  await leads(page, 'main form button', /^\/merge\?.*from=/);
  assert.equal(await page.locator('.problem').count(), 0);
  await go(page, '/proc_profile?node=1&colour=red');
  assert.match(await page.locator('.problem').innerText(), /unknown parameter "colour"/);
  await leads(page, '.problem a:has-text("Open the page without parameters")', /^\/proc_profile$/);
  for (const [name, pattern] of [['Profiles', /^\/proc_profile$/], ['All nodes', /^\/$/], ['Help', /^\/help$/]]) {
    await go(page, '/proc_profile?node=nowhere');
    await leads(page, `.problem a:has-text("${name}")`, pattern);
  }
  page.complaints = page.complaints.filter((complaint) => !PROBLEMS.test(complaint));
});

both('ranges are merged and compared by a form', async (page) => {
  await go(page, '/merge');
  await page.selectOption('select[name=node]', '1');
  await page.selectOption('select[name=type]', 'cpu');
  await page.fill('input[name=from]', at(FIRST));
  await page.fill('input[name=to]', at(FIRST + 600));
  await leads(page, 'main form button', /^\/merge\?node=1&type=cpu/);
  assert.match(await page.locator('h1').innerText(), /of \d+ profiles/);
  await leads(page, 'a:has-text("Compare with the 10 minutes before")', /base_from=/);
  await page.locator('.empty').waitFor();
  await leads(page, 'a:has-text("Without the comparison")', /[?&]to=[^&]*(&plain=true)?$/);
  await leads(page, 'a:has-text("Compare with the day before")', /base_from=/);
  for (const last of ['1h', '6h', '1d', '7d']) {
    await go(page, '/merge');
    await leads(page, `main form button[value="${last}"]`, /^\/merge\?(?!.*last=).*from=.*to=/);
  }
  await leads(page, 'a:has-text("Compare with the 7 days before")', /base_from=/);
  await leads(page, '.crumbs a:has-text("far")', /^\/proc_profile\?node=\d+$/);
  await go(page, `/merge?${merged}`);
  await page.click('details.wider summary');
  assert.equal(await page.inputValue('details.wider select[name=type]'), 'cpu');
  await leads(page, '.filters a:has-text("List")', /^\/proc_profile\?/);
  await go(page, '/merge?node=1&type=cpu&from=2030-01-01T00:00:00Z&to=2030-01-02T00:00:00Z');
  assert.match(await page.locator('.empty').innerText(), /No profiles in this range/);
});

both('the heap page shows its state, dumps and growth', async (page, scripted) => {
  await go(page, '/heap?node=1');
  if (scripted) await page.waitForSelector('#heap[data-fetched]');
  else await leads(page, 'a:has-text("Show its state")', /state=yes/);
  const card = await page.locator('#heap').innerText();
  assert.match(card, /On|Off|prof/, card);
  assert.equal(await page.locator('input[name=from]').count(), await page.locator('input[name=to]').count());
  // The oldest is chosen already.
  await page.check(`input[name=from][value="${heap[1]}"]`);
  await page.check(`input[name=from][value="${heap[0]}"]`);
  await page.check(`input[name=to][value="${heap[1]}"]`);
  await leads(page, '#growth button', new RegExp(`/p/${heap[1]}\\?base=${heap[0]}`));
  await go(page, '/heap?node=1');
  await page.click('details.commands summary');
  assert.match(await page.locator('details.commands').innerText(), /enable_prof/);
  await leads(page, 'a:has-text("All heap profiles")', /type=heap/);
  await go(page, '/heap?node=far');
  assert.match(await page.locator('#heap').innerText(), scripted ? /no switch|Show its state/ : /Show its state/);
});

both('profiles are searched by function', async (page) => {
  await go(page, '/search');
  await page.fill('input[name=function]', 'hot');
  await page.fill('input[name=percent]', '95');
  await leads(page, 'main form button', /function=hot/);
  assert.match(await page.locator('[role=status]').innerText(), /^1 profile of \d+ searched/);
  assert.equal(await rows(page), 1);
  await page.fill('input[name=function]', 'main');
  await page.selectOption('select[name=of]', 'total');
  await page.selectOption('select[name=node]', '1');
  await page.selectOption('select[name=type]', 'heap');
  await page.fill('input[name=to]', at(FIRST + 3600));
  await leads(page, 'main form button', /of=total/);
  assert.equal(await rows(page), 2);
  assert.match(await page.locator('[role=status]').innerText(), /^2 profiles of 2 searched.*all there are/);
  assert.equal(await page.inputValue('select[name=of]'), 'total');
  assert.match(await page.locator('.matches').innerText(), /main in 2 profiles/);
});

both('settings, symbols and help are complete', async (page) => {
  await go(page, '/settings');
  assert.match(await page.locator('main').innerText(), /proc_profile_file_retained_days[^]*36500[^]*changed/);
  await go(page, '/symbols');
  assert.match(await page.locator('main').innerText(), /No symbols yet/);
  await go(page, '/help');
  const links = await page.locator('.help dt a').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  for (const link of links) assert.equal((await page.request.get(server.base + link)).status(), 200, link);
});

check('commands and links are copied', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.base });
  await go(page, '/help');
  assert.match(await copy(page, page.locator('pre.command button').first()), /^curl -X POST/);
  await go(page, '/proc_profile?node=1');
  await page.locator('.profiles-table .menu > summary').first().click();
  assert.match(await copy(page, page.locator('a.copy-link').first()), /\/p\//);
});

check('the keyboard reaches what the mouse does', async (page) => {
  await go(page, '/proc_profile?node=1');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('name')), 'text');
  await page.keyboard.type('hot');
  await page.keyboard.press('Enter');
  await arrive(page, /text=hot/);
  await page.locator('.profiles-table input[type=checkbox]').first().focus();
  await page.keyboard.press('Space');
  await until(page, () => document.querySelector('#selection .count').textContent === '1 selected');
  await page.locator('#selection button[value=view]').focus();
  await page.keyboard.press('Enter');
  await arrive(page, /\/p\//);
  await go(page, '/proc_profile?node=1');
  const menu = page.locator('.profiles-table .menu').first();
  await menu.locator('summary').first().focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Download');
  await page.keyboard.press('Escape');
  assert.equal(await menu.getAttribute('open'), null);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'SUMMARY');
  // Every control has a place in the order of tabs, and a mark while it is focused.
  await go(page, '/');
  const wanted = await page.locator('a[href], button, input:not([type=hidden]), select, summary').count();
  const seen = new Set();
  for (let step = 0; step < wanted + 5; step++) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === document.body) return null;
      element.dataset.seen ??= String(Math.random());
      return [element.dataset.seen, getComputedStyle(element).outlineStyle];
    });
    if (!focused) continue;
    assert.notEqual(focused[1], 'none', 'a focused control is marked');
    seen.add(focused[0]);
  }
  assert.ok(seen.size >= await page.locator('[data-seen]').count() && seen.size > 10, String(seen.size));
  await go(page, '/settings');
  await page.keyboard.press('?');
  await arrive(page, /\/help$/);
});

for (const [language, title, words] of [['ja', 'ノード', /フレームグラフ|プロファイル/], ['zh-CN', '节点', /火焰图|性能剖析/]]) {
  check(`pages are in the language that the browser prefers: ${language}`, async (page) => {
    await go(page, '/');
    assert.equal(await page.locator('html').getAttribute('lang'), language);
    assert.equal(await page.locator('h1').innerText(), title);
    await go(page, '/proc_profile?node=1');
    assert.match(await page.locator('main').innerText(), words);
    // The script has the same language.
    await page.locator('.profiles-table input[type=checkbox]').first().check();
    assert.match(await page.locator('#selection .count').innerText(), /1/);
    assert.doesNotMatch(await page.locator('#selection').innerText(), /selected|View/);
    // What forms send is the same in every language.
    const id = await pushed();
    await go(page, `/proc_profile?node=1&from=${at(FIRST + 80_000)}&to=${at(FIRST + 100_000)}`);
    const row = page.locator('tr', { has: page.locator(`a[href="/p/${id}"]`) });
    await row.locator('details.menu > summary').click();
    await row.locator('button[name=pinned]').click();
    await row.locator('.tag.pin').waitFor();
  }, { viewport: NARROW, locale: language });
}

both('another language is chosen and kept', async (page) => {
  await go(page, '/settings');
  assert.equal(await page.locator('html').getAttribute('lang'), 'en');
  await page.click('.languages a[lang=ja]');
  await arrive(page, /\/settings$/);
  await page.locator('html[lang=ja]').waitFor();
  await go(page, '/search?function=hot&percent=1');
  assert.equal(await page.locator('html').getAttribute('lang'), 'ja');
  await page.click('.languages a[lang=en]');
  await arrive(page, /function=hot&percent=1$/);
  await page.locator('html[lang=en]').waitFor();
});

check('times are in the zone of the reader, and in UTC on hover', async (page) => {
  await go(page, `/proc_profile?node=1&from=${at(FIRST)}&to=${at(FIRST + 30)}`);
  const time = page.locator('td.when time').first();
  assert.equal(await time.innerText(), '2023-11-15 07:13:21');
  assert.equal(await time.getAttribute('title'), '2023-11-14 22:13:21 UTC');
}, { timezoneId: 'Asia/Tokyo' });

both('hostile names are text', async (page) => {
  for (const [number, name] of HOSTILE.entries()) {
    await server.push('cpu', pprof(CPU, [sample(['main', name], 10)], FIRST + 200_000 + 60 * number));
  }
  const range = `from=${at(FIRST + 199_000)}&to=${at(FIRST + 202_000)}`;
  const paths = [`/proc_profile?node=1&${range}`, `/merge?node=1&type=cpu&${range}`, `/search?function=&${range}`,
    ...HOSTILE.map((name) => `/search?percent=0&function=${encodeURIComponent(name.slice(0, 60))}&${range}`),
    ...HOSTILE.map((name) => `/?q=${encodeURIComponent(name.slice(0, 60))}`),
    ...HOSTILE.map((name) => `/proc_profile?node=1&text=${encodeURIComponent(name.slice(0, 60))}`)];
  for (const path of paths) {
    await go(page, path);
    assert.equal(await page.locator('html[data-pwned]').count(), 0, path);
    assert.equal(await page.locator('main script:not([src], [type="application/json"]), main img').count(), 0, path);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wide, 0, path);
  }
});

check('every link leads on', async (page) => {
  // The overview has what was taken within a day.
  const now = Math.floor(Date.now() / 1000);
  await server.push('cpu', pprof(CPU, [sample(['main', 'hot'], 100)], now - 60));
  await server.push('heap', pprof(HEAP, [sample(['main', 'kept'], 100)], now - 60));
  const list = `/proc_profile?node=1&to=${at(FIRST + 4000)}`;
  const links = [
    ['/settings', 'a.brand', /^\/$/], ['/settings', '.languages a[lang=en]', /^\/settings$/], ['/settings', '.languages a[lang=zh-CN]', /^\/settings$/],
    ['/settings', '.languages a[lang=en]', /^\/settings$/],
    ['/', '.more a[href="/settings"]', /^\/settings$/], ['/', '.more a[href="/archive"]', /^\/archive$/],
    ['/', '.newest a.type.cpu', /^\/p\//], ['/', '.newest a.type.heap', /^\/p\//], ['/', 'td.load a', /last=1h$/],
    [list, 'a.skip', /#profiles$/], [list, '.profiles-table a.view', /^\/p\//], [list, '.profiles-table a.type.cpu', /^\/p\//],
    [`${list}&type=heap`, '.profiles-table a.type.heap', /^\/p\//], [list, '.profiles-table a.thumbnail', /^\/p\//],
    [list, '.lane-name a.type.cpu', /type=cpu/], [list, 'svg.bars.cpu a', /^\/p\//], [list, 'svg.bars.heap a', /^\/p\//],
    [list, '.card a:text-is("Settings")', /^\/settings$/], [list, '.more a', /^\/heap\?node=1$/],
    ['/proc_profile?node=far', '.notice.bad a', /#errors$/], ['/heap?node=1', '#dumps a.view', /^\/p\//],
    [`/merge?${merged}`, '.profiles-table a[href*=node]', /node=1/],
    [`/merge?node=1&type=cpu&from=${at(FIRST)}&to=${at(FIRST + 43_200)}`, 'p.filters a:has-text("hours before")', /base_from=/],
  ];
  for (const [from, selector, pattern] of links) {
    await go(page, from);
    const link = page.locator(selector).first();
    // What is seen only while it is focused is used by the keyboard.
    await (selector === 'a.skip' ? link.press('Enter') : link.click());
    await page.waitForURL((url) => pattern.test(url.pathname + url.search + url.hash)).catch((error) => {
      throw new Error(`${selector} of ${from} leads to ${page.url()}`, { cause: error });
    });
  }
  const ofNode = [['Merge and compare', /^\/merge\?node=/], ['Search its functions', /^\/search\?node=/], ['Heap', /^\/heap\?node=/],
    ['All errors', /^\/proc_profile\/errors\?node=/]];
  for (const node of ['1', 'far']) {
    // Only the first node has heap profiles.
    for (const [name, pattern] of ofNode.filter(([name]) => node === '1' || name !== 'Heap')) {
      await go(page, `/proc_profile?node=${node}`);
      await page.click('.of-node .menu > summary');
      await leads(page, `.of-node .menu a:text-is("${name}")`, pattern);
    }
  }
  await go(page, list);
  await page.click('details.capture > summary');
  await leads(page, 'details.capture a:text-is("Several nodes at once")', /^\/$/);
  await go(page, '/help');
  for (const name of await page.locator('.help a').allInnerTexts()) {
    await leads(page, `.help a:text-is("${name}")`, /^\/[^h]|^\/$|^\/heap/);
    await go(page, '/help');
  }
});

check('every report opens in a window of its own', async (page) => {
  const blank = async (link, pattern = /format=top/) => {
    const [opened] = await Promise.all([page.waitForEvent('popup'), link.click()]);
    await opened.waitForURL(pattern);
    await opened.close();
  };
  await go(page, '/heap?node=1');
  await blank(page.locator('#dumps td.wide a').first(), /\/p\/.*format=svg/);
  await go(page, `/p/${cpu[0]}`);
  await page.click('details.save summary');
  await blank(page.locator('details.save a:text-is("top")'));
  await go(page, `/merge?${merged}`);
  await blank(page.locator('.filters a:text-is("Functions")'));
});

check('forms take what their fields say', async (page) => {
  await go(page, '/search');
  await page.fill('main form input[name=function]', 'hot');
  await page.fill('main form input[name=from]', at(FIRST));
  await page.fill('main form input[name=to]', at(FIRST + 100));
  await leads(page, 'main form button', /function=hot/);
  assert.equal(await rows(page), 2);
  await go(page, '/merge');
  const range = { from: at(FIRST + 600), to: at(FIRST + 1200), base_from: at(FIRST), base_to: at(FIRST + 600) };
  await page.selectOption('main form select[name=node]', '1');
  await page.selectOption('main form select[name=type]', 'cpu');
  for (const [name, value] of Object.entries(range)) await page.fill(`main form input[name=${name}]`, value);
  await leads(page, 'main form button', /base_from=/);
  assert.match(await page.locator('.about').innerText(), /10 profiles[^]*compared with[^]*10 profiles/);
  // A capture of no type is refused.
  await go(page, '/');
  await page.check('input[name=node][value="1"]');
  for (const kind of await page.locator('#capture input[name=type]').all()) await kind.uncheck();
  await leads(page, '#capture button', /^\/captures$/);
  assert.match(await page.locator('.problem').innerText(), /type/);
  page.complaints = page.complaints.filter((complaint) => !PROBLEMS.test(complaint));
});

test('no control is unused', () => {
  // The test of the heap without a script follows this link; with one, the state takes its place.
  const byHand = 'page section.card.heap a Show its state';
  // Whether names are missing depends on the code in which samples of this server fell.
  const ofSamples = /^page (details\.card\.wanted |p\.more a Symbols )/;
  // Whether an hour is archived depends on the minute.
  const ofArchive = /^page td\.archived /;
  const isChance = (name) => ofSamples.test(name) || ofArchive.test(name);
  assert.equal(controls.unused('page').filter((name) => name !== byHand && !isChance(name)).join('\n'), '');
});
