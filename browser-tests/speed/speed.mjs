// Measures flame graph viewers in Chromium on the inputs of a plan: `cargo xtask bench viewer` writes the plan and runs this.
// Each opening has a browser context of its own. Prints tables in Markdown, medians of the runs.

import { spawn } from 'node:child_process';
import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const plan = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const RUNS = Number(process.env.RUNS ?? 30);
const PEER_RUNS = Number(process.env.PEER_RUNS ?? 5);
/** Viewers to measure; all unless given. */
const VIEWERS = process.env.VIEWERS?.split(',');
const isWanted = (viewer) => !VIEWERS || VIEWERS.includes(viewer);
const PATIENCE = 120_000;
const HERE = new URL('.', import.meta.url).pathname;
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

/** Files of the peers, and the inputs for them. */
async function serveFiles() {
  const nested = new Map();
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://x');
    try {
      if (pathname === '/d3.html') return send(response, 'text/html', D3_PAGE);
      const tree = /^\/d3\/(\w+)\.json$/.exec(pathname);
      if (tree) {
        const input = plan.find(({ name }) => name === tree[1]);
        if (!nested.has(input.name)) nested.set(input.name, await nestedTree(input.collapsed));
        return send(response, 'application/json', nested.get(input.name));
      }
      const profile = /^\/profiles\/(\w+)\.pb\.gz$/.exec(pathname);
      const file = profile ? plan.find(({ name }) => name === profile[1]).file : join(HERE, 'node_modules', pathname.replaceAll('..', ''));
      response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-length': statSync(file).size });
      createReadStream(file).pipe(response);
    } catch (error) {
      response.writeHead(404).end(String(error));
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return server;
}

function send(response, type, text) {
  response.writeHead(200, { 'content-type': type }).end(text);
}

const D3_PAGE = `<!doctype html><link rel="stylesheet" href="/d3-flame-graph/dist/d3-flamegraph.css"><div id="chart"></div>
<script src="/d3/dist/d3.min.js"></script><script src="/d3-flame-graph/dist/d3-flamegraph.umd.min.js"></script><script>
fetch('/d3/' + location.hash.slice(1) + '.json').then((answer) => answer.json()).then((tree) => {
  window.chart = flamegraph.default().width(1580).minFrameSize(1).transitionDuration(0);
  d3.select('#chart').datum(tree).call(window.chart);
});</script>`;

/** Collapsed stacks as the nested objects that d3-flame-graph reads. */
async function nestedTree(file) {
  const root = { name: 'root', value: 0, children: new Map() };
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const space = line.lastIndexOf(' ');
    const value = Number(line.slice(space + 1));
    root.value += value;
    let at = root;
    for (const name of line.slice(0, space).split(';')) {
      let child = at.children.get(name);
      if (!child) at.children.set(name, child = { name, value: 0, children: new Map() });
      child.value += value;
      at = child;
    }
  }
  const parts = [];
  const write = (node) => {
    parts.push(`{"name":${JSON.stringify(node.name)},"value":${node.value},"children":[`);
    let first = true;
    for (const child of node.children.values()) {
      if (!first) parts.push(',');
      first = false;
      write(child);
    }
    parts.push(']}');
  };
  write(root);
  return parts.join('');
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const millis = (values) => values.length ? `${median(values).toFixed(values.some((v) => v < 10) ? 1 : 0)} ms` : '-';

/**
 * Opens an address and waits until `isReady`, a function of the page, holds when a frame has been drawn.
 * Returns the page, the time to that frame since the start of navigation, and the bytes until then.
 */
async function open(address, isReady) {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, bypassCSP: true });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.addInitScript(`(() => {
    const isReady = ${isReady};
    const look = () => {
      let ready = false;
      try { ready = isReady(); } catch {}
      if (ready) requestAnimationFrame(() => { window.paintedAt = performance.now(); });
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  })();`);
  await page.goto(address, { waitUntil: 'commit' });
  await page.waitForFunction('window.paintedAt', undefined, { timeout: PATIENCE, polling: 20 });
  const bytes = await page.evaluate(() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .filter(({ responseEnd }) => responseEnd && responseEnd <= window.paintedAt).reduce((sum, { transferSize }) => sum + transferSize, 0));
  return { context, page, paint: await page.evaluate('window.paintedAt'), bytes };
}

/** The time at which all that the screen can show has been drawn, not only what is in sight first. */
const OURS_WHOLE = `(async () => {
  const { root } = window.procprofViewer;
  if (root.count < root.head.whole.nodes && !root.wide) {
    while (!window.procprofViewer.root.wide) {
      if (performance.now() > ${PATIENCE}) throw new Error('the rest of the tree did not arrive');
      await new Promise((done) => requestAnimationFrame(done));
    }
    await new Promise((done) => requestAnimationFrame(done));
    return performance.now();
  }
  return window.paintedAt;
})()`;

const OURS_READY = `() => document.querySelector('#viewer[data-ready] canvas')`;

/** The times of zooming into ten boxes of about a twentieth of the width: compute and draw, to the screen, to full detail. */
const OURS_ZOOM = `(async () => {
  const app = window.procprofViewer;
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const slice = app.root;
  const wanted = [];
  for (let i = 1; i < slice.width.length && wanted.length < 10; i++) {
    const share = slice.width[i] / slice.width[0];
    if (share > 0.002 && share < 0.2 && slice.depth[i] > 3 && !wanted.some((other) => slice.end[other] > i)) wanted.push(i);
  }
  const times = { spent: [], screen: [], detail: [] };
  for (const node of wanted) {
    const began = performance.now();
    const detailed = app.zoomTo(slice.number[node]);
    times.spent.push(app.picture.spent);
    await frame();
    times.screen.push(performance.now() - began);
    await detailed;
    await frame();
    times.detail.push(performance.now() - began);
    await app.zoomTo(0);
    await frame();
  }
  return times;
})()`;

const OURS_SEARCH = `(async () => {
  const app = window.procprofViewer;
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const times = { found: [], screen: [] };
  for (let digit = 0; digit < 10; digit++) {
    const began = performance.now();
    await app.setSearch('step_1.*' + digit + '$');
    app.picture.paint();
    times.found.push(performance.now() - began);
    await frame();
    times.screen.push(performance.now() - began);
  }
  return times;
})()`;

const OURS_REDRAW = `(() => {
  const { picture } = window.procprofViewer;
  const times = [];
  for (let run = 0; run < 10; run++) {
    const began = performance.now();
    picture.rearrange();
    times.push(performance.now() - began);
  }
  return { times, boxes: picture.boxes.count };
})()`;

const files = await serveFiles();
const filesAt = `http://127.0.0.1:${files.address().port}`;
const first = [];
const rows = [];
const row = (viewer, input, cells) => rows.push([viewer, input, ...cells]);

for (const input of plan.filter(() => isWanted('procprof'))) {
  const runs = input.name === 'n10m' ? Math.min(RUNS, 5) : RUNS;
  const opened = { paint: [], whole: [], bytes: [], spent: [], screen: [], detail: [], found: [], searched: [], redraw: [] };
  for (let run = 0; run <= runs; run++) {
    const { context, page, paint, bytes } = await open(input.page, OURS_READY);
    // The first opening makes the tree; the others find it in the server.
    if (run === 0) first.push([input.name, `${paint.toFixed(0)} ms`]);
    else {
      opened.paint.push(paint);
      opened.bytes.push(bytes);
    }
    const whole = await page.evaluate(OURS_WHOLE);
    if (run > 0) opened.whole.push(whole);
    if (run === runs) {
      const zoom = await page.evaluate(OURS_ZOOM);
      const search = await page.evaluate(OURS_SEARCH);
      const redraw = await page.evaluate(OURS_REDRAW);
      Object.assign(opened, { spent: zoom.spent, screen: zoom.screen, detail: zoom.detail, found: search.found, searched: search.screen, redraw: redraw.times, boxes: redraw.boxes });
    }
    await context.close();
  }
  row('procprof', input.name, [millis(opened.paint), millis(opened.whole), millis(opened.spent), millis(opened.screen), millis(opened.detail), millis(opened.found), millis(opened.searched),
    `${millis(opened.redraw)} (${opened.boxes} boxes)`, `${(median(opened.bytes) / 1000).toFixed(0)} KB`]);
}

/** @param {string} viewer @param {(input: any) => string | Promise<string>} address @param {string} isReady */
async function peer(viewer, address, isReady, zoom, search) {
  if (!isWanted(viewer)) return;
  for (const input of plan.filter(({ name }) => name !== 'n10m')) {
    const opened = { paint: [], bytes: [], zoom: [], search: [] };
    let failure = '';
    try {
      const at = await address(input);
      for (let run = 0; run < PEER_RUNS; run++) {
        const { context, page, paint, bytes } = await open(at, isReady);
        opened.paint.push(paint);
        opened.bytes.push(bytes);
        if (run === PEER_RUNS - 1 && zoom) opened.zoom = await page.evaluate(zoom);
        if (run === PEER_RUNS - 1 && search) opened.search = await page.evaluate(search);
        await context.close();
      }
    } catch (error) {
      failure = String(error.message ?? error).split('\n')[0].slice(0, 60);
    }
    const paint = opened.paint.length ? millis(opened.paint) : failure;
    row(viewer, input.name, [paint, '-', '-', millis(opened.zoom), '-', '-', millis(opened.search), '-', opened.bytes.length ? `${(median(opened.bytes) / 1000).toFixed(0)} KB` : '-']);
  }
}

const D3_ZOOM = `(async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const boxes = [...document.querySelectorAll('.d3-flame-graph g')].filter((box) => box.getBoundingClientRect().width > 30).slice(5, 15);
  const times = [];
  for (const box of boxes) {
    const began = performance.now();
    window.chart.zoomTo(box.__data__);
    await frame();
    times.push(performance.now() - began);
    window.chart.resetZoom();
    await frame();
  }
  return times;
})()`;
const D3_SEARCH = `(async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const times = [];
  for (let digit = 0; digit < 5; digit++) {
    const began = performance.now();
    window.chart.search('step_1.*' + digit + '$');
    await frame();
    times.push(performance.now() - began);
  }
  return times;
})()`;

const servers = [];
async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}
async function pprofAt(input) {
  const port = await freePort();
  const child = spawn('go', ['tool', 'pprof', '-no_browser', `-http=127.0.0.1:${port}`, input.file], { stdio: ['ignore', 'ignore', 'pipe'] });
  servers.push(child);
  for await (const line of createInterface({ input: child.stderr })) {
    const found = /http:\/\/[\w.:]+/.exec(line);
    if (found) return `${found[0]}/ui/flamegraph`;
  }
  throw new Error('go tool pprof did not start');
}

await peer('google/pprof', pprofAt, `() => document.querySelectorAll('.boxbg').length > 20`);
await peer('speedscope', ({ name }) => `${filesAt}/speedscope/dist/release/index.html#profileURL=${encodeURIComponent(`${filesAt}/profiles/${name}.pb.gz`)}`,
  `() => document.querySelectorAll('canvas').length > 1`);
await peer('d3-flame-graph', ({ name }) => `${filesAt}/d3.html#${name}`, `() => document.querySelectorAll('.d3-flame-graph rect').length > 20`, D3_ZOOM, D3_SEARCH);

function table(heading, columns, lines) {
  console.log(`\n## ${heading}\n\n| ${columns.join(' | ')} |\n|${columns.map(() => '---').join('|')}|`);
  for (const line of lines) console.log(`| ${line.join(' | ')} |`);
}
table('First opening, profile stored on disk', ['input', 'first paint'], first);
table(`Viewers, medians of ${RUNS} openings (peers ${PEER_RUNS}), tree cached in the server`,
  ['viewer', 'input', 'first paint', 'all that the screen shows', 'zoom: compute and draw', 'zoom: to the screen', 'zoom: all detail', 'search: found and drawn', 'search: to the screen', 'redraw', 'bytes'], rows);

for (const child of servers) child.kill();
files.close();
await browser.close();
process.exit(0);
