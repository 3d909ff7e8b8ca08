/** A server of its own with stored profiles, and Chromium. */

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const PROGRAM = process.env.PROCPROF_BIN ?? new URL('../target/debug/procprof', import.meta.url).pathname;
const ARGUMENTS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
/** Longest wait for anything; the machine may be busy. */
export const PATIENCE = 60_000;
const NARROW = { viewport: { width: 480, height: 900 } };
/** Looks of the pages that are checked for accessibility. @type {[string, import('playwright-core').BrowserContextOptions][]} */
export const LOOKS = [['light', { colorScheme: 'light' }], ['dark', { colorScheme: 'dark' }], ['narrow', NARROW],
  ['narrow, Japanese', { ...NARROW, locale: 'ja-JP' }], ['narrow, Chinese, dark', { ...NARROW, locale: 'zh-CN', colorScheme: 'dark' }]];

/** Starts Chromium. */
export async function browser() {
  if (!existsSync(CHROMIUM)) throw new Error(`missing: ${CHROMIUM}; on Debian: sudo apt-get install chromium`);
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS, timeout: PATIENCE });
}

/** A program of ours that prints where it listens. */
function started(words, pattern) {
  if (!existsSync(PROGRAM)) throw new Error(`missing: ${PROGRAM}; run \`cargo build -p procprof\``);
  const child = spawn(PROGRAM, words, { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  const address = new Promise((resolve, reject) => {
    child.stderr.on('data', (chunk) => {
      log += chunk;
      const found = pattern.exec(log);
      if (found) resolve(found[1]);
    });
    child.on('exit', (code) => reject(new Error(`${PROGRAM} ended with ${code}: ${log}`)));
    setTimeout(() => reject(new Error(`${PROGRAM} did not start: ${log}`)), PATIENCE).unref();
  });
  const stop = () => new Promise((resolve) => {
    child.removeAllListeners('exit');
    child.once('exit', resolve);
    child.kill('SIGTERM');
  });
  return { address, stop };
}

/** A server without schedules; `more` is added to its configuration. */
export async function server(more = '') {
  const folder = mkdtempSync(path.join(tmpdir(), 'procprof-browser-'));
  const config = path.join(folder, 'config.toml');
  writeFileSync(config, 'mysql = ""\nproc_profile_cpu_enable = false\nproc_profile_mem_enable = false\nproc_profile_file_retained_days = 36500\n' + more);
  const { address, stop } = started(['serve', '--config', config, '--http', '127.0.0.1:0', '--data', path.join(folder, 'data')],
    /(http:\/\/127\.0\.0\.1:\d+)/);
  const base = await address;
  return {
    base,
    /** Stores a profile; its id. */
    async push(type, profile) {
      const answer = await fetch(`${base}/api/push?node=procprof&type=${type}`, { method: 'POST', body: profile });
      const text = await answer.text();
      if (answer.status !== 201) throw new Error(`push: ${answer.status} ${text}`);
      return JSON.parse(text).id;
    },
    async stop() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The web view of one file, with these options. */
export async function fileView(profile, ...options) {
  const folder = mkdtempSync(path.join(tmpdir(), 'procprof-browser-'));
  const file = path.join(folder, 'cpu.pb');
  writeFileSync(file, profile);
  const { address, stop } = started(['report', '-http=127.0.0.1:0', ...options, file], /Serving web UI on (\S+)/);
  const base = await address;
  return { base, async stop() {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  } };
}

/** A page that fails the test on any error of its own, and on what its policy forbids. */
export async function page(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, acceptDownloads: true, ...options });
  await options.controls?.follow(context);
  const made = await context.newPage();
  made.setDefaultTimeout(PATIENCE);
  /** @type {string[]} */
  made.complaints = [];
  made.on('pageerror', (error) => made.complaints.push(String(error.stack)));
  made.on('console', (message) => {
    // Tests read pixels, the viewer does not.
    if (['error', 'warning'].includes(message.type()) && !message.text().includes('willReadFrequently')) made.complaints.push(`${message.text()} ${message.location().url}`);
  });
  return made;
}

/** Opens an address and waits until the viewer has drawn. */
export async function open(page, address) {
  await page.goto(address);
  await ready(page);
}

export async function ready(page) {
  await page.waitForSelector('#viewer[data-ready]', { timeout: PATIENCE });
}

/** Waits until a function of the page returns something true. */
export async function until(page, check, argument) {
  await page.waitForFunction(check, argument, { timeout: PATIENCE });
}

/** Where the box of a path of names is on the screen, and how wide. */
export async function box(page, names, layer = 0) {
  return page.evaluate(([names, layer]) => {
    const { picture } = window.procprofViewer;
    const { slice } = picture.layers[layer];
    let node = 0;
    for (const name of names) {
      let child = node + 1;
      while (child < slice.end[node] && slice.head.names[slice.frame[child]] !== name) child = slice.end[child];
      if (child >= slice.end[node]) throw new Error(`no ${name} below ${slice.head.names[slice.frame[node]]}`);
      node = child;
    }
    const place = picture.placeOf({ layer, node, hidden: false });
    const canvas = picture.over.getBoundingClientRect();
    return { x: canvas.left + place.x, y: canvas.top + place.y - picture.stage.scrollTop, w: place.w, node };
  }, [names, layer]);
}

/** Clicks the box of a path of names. */
export async function click(page, names, options = {}) {
  const place = await box(page, names);
  await page.mouse.click(place.x + Math.min(8, place.w / 2), place.y + 9, options);
}
