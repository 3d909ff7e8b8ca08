/** A server of its own with stored profiles, and Chromium. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { writeFonts } from './fonts.mjs';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const PROGRAM = process.env.PROCPROF_BIN ?? new URL('../target/debug/procprof', import.meta.url).pathname;
const ARGUMENTS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];
/** Longest wait for anything, in milliseconds: long enough for a machine that does many other things. */
export const PATIENCE = 300_000;
/** Longest time of a test. */
const TEST_PATIENCE = 3 * PATIENCE;
export const NARROW = { width: 480, height: 900 };
/** Looks of the pages that are checked for accessibility: a language, its options, and looks that a page can change. */
export const LOOKS = [
  ['English', {}, [['light', {}], ['dark', { colorScheme: 'dark' }], ['narrow', { viewport: NARROW }]]],
  ['Japanese', { locale: 'ja-JP' }, [['narrow', { viewport: NARROW }]]],
  ['Chinese', { locale: 'zh-CN' }, [['narrow, dark', { viewport: NARROW, colorScheme: 'dark' }]]],
];
/** Widths of windows, from a small telephone on. */
const WIDTHS = [360, 390, 480, 600, 700, 768, 800, 900, 1000, 1100, 1280, 1440, 1600];
/** What a page is shown with where a test says nothing else: the same on every machine. */
const DEFAULTS = {
  viewport: { width: 1600, height: 1000 }, locale: 'en-US', timezoneId: 'Asia/Kolkata', acceptDownloads: true,
};

/** The folder of everything that the tests of a file write, Chromium and servers included. */
const FOLDER = mkdtempSync(path.join(tmpdir(), 'procprof-browser-'));
process.env.TMPDIR = FOLDER;
const removeFolder = () => rmSync(FOLDER, { recursive: true, force: true, maxRetries: 10 });
process.on('exit', removeFolder);
// Without these, a signal ends the process before its listeners of the exit.
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/** A new folder that is removed when the tests of a file have ended. */
export const newFolder = () => mkdtempSync(path.join(FOLDER, 'test-'));

/** Asks again and again until the answer is true: for what tells no event of itself. */
export async function eventually(what, check) {
  const end = Date.now() + PATIENCE;
  while (!await check()) {
    assert.ok(Date.now() < end, what);
    await sleep(100);
  }
}

/**
 * Chromium for the tests of a file: one context and page for each set of options. A page is used again by the next
 * test, which saves the start of a process, unless a test has failed in it.
 */
export class Browser {
  /** @type {Promise<import('playwright-core').Browser> | undefined} */
  #chromium;
  #controls;
  /** @type {Map<string, Promise<import('playwright-core').BrowserContext>>} */
  #contexts = new Map();

  /** @param {import('./controls.mjs').Controls} controls */
  constructor(controls) {
    this.#controls = controls;
  }

  async start() {
    if (!existsSync(CHROMIUM)) throw new Error(`missing: ${CHROMIUM}; on Debian: sudo apt-get install chromium`);
    const env = { ...process.env, FONTCONFIG_FILE: writeFonts(FOLDER), HOME: FOLDER, LC_ALL: 'C.UTF-8' };
    this.#chromium = chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS, timeout: PATIENCE, env });
    await this.#chromium;
    // Once more, after the listener that ends Chromium, which writes until then.
    process.on('exit', removeFolder);
  }

  /** Waits for a start that is under way, which would keep this process alive. */
  async close() {
    await (await this.#chromium)?.close();
  }

  #context(options) {
    const key = JSON.stringify(options);
    const made = this.#contexts.get(key) ?? this.#newContext(options);
    this.#contexts.set(key, made);
    return made;
  }

  async #newContext(options) {
    const context = await (await this.#chromium).newContext({ ...DEFAULTS, ...options });
    await this.#controls.follow(context);
    return context;
  }

  /** Adds a test with a page that must not complain. */
  check(name, run, options = {}) {
    test(name, { timeout: TEST_PATIENCE }, async () => {
      const context = await this.#context(options);
      const page = context.pages()[0] ?? await newPage(context);
      page.complaints = [];
      page.isScripted = options.javaScriptEnabled !== false;
      await look(page, options);
      let isPassed = false;
      try {
        await run(page);
        assert.deepEqual(page.complaints, []);
        assert.equal(await page.evaluate(() => document.documentElement.dataset.pwned), undefined);
        isPassed = true;
      } finally {
        for (const opened of context.pages().slice(isPassed ? 1 : 0)) await opened.close();
        if (isPassed) await page.goto('about:blank');
        await context.clearCookies();
      }
    });
  }
}

/** A page that keeps its errors, and what its policy forbids. */
async function newPage(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on('pageerror', (error) => page.complaints.push(String(error.stack)));
  page.on('console', (message) => {
    // Tests read pixels, the viewer does not.
    const isOfTests = message.text().includes('willReadFrequently');
    if (!['error', 'warning'].includes(message.type()) || isOfTests) return;
    page.complaints.push(`${message.text()} ${message.location().url}`);
  });
  return page;
}

/** Shows a page in a look. */
export async function look(page, { viewport = DEFAULTS.viewport, colorScheme = 'light' }) {
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
}

/** Where a page is wider than its window, of all widths of windows. */
export async function tooWide(page) {
  const found = [];
  const { height } = page.viewportSize();
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide !== 0) found.push(`${wide} at ${width}`);
  }
  return found;
}

/** A program of ours that prints where it listens; it ends with this process, however that ends. */
function started(words, pattern) {
  if (!existsSync(PROGRAM)) throw new Error(`missing: ${PROGRAM}; run \`cargo build -p procprof\``);
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', PROGRAM, ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  const ended = new Promise((resolve) => {
    child.once('exit', resolve);
  });
  const address = new Promise((resolve, reject) => {
    child.stderr.on('data', (chunk) => {
      log += chunk;
      const found = pattern.exec(log);
      if (found) resolve(found[1]);
    });
    child.once('error', reject);
    ended.then((code) => reject(new Error(`${PROGRAM} ended with ${code}: ${log}`)));
    setTimeout(() => reject(new Error(`${PROGRAM} did not start: ${log}`)), PATIENCE).unref();
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  return { address, stop };
}

/** A server without schedules; `more` is added to its configuration. */
export async function server(more = '') {
  const folder = newFolder();
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
    stop,
  };
}

/** The web view of one file, with these options. */
export async function fileView(profile, ...options) {
  const file = path.join(newFolder(), 'cpu.pb');
  writeFileSync(file, profile);
  const { address, stop } = started(['report', '-http=127.0.0.1:0', ...options, file], /Serving web UI on (\S+)/);
  return { base: await address, stop };
}

/** Clicks what copies a text, and waits until it has said so, which it does for a moment only. */
export async function copy(page, element) {
  const said = element.evaluate((element) => new Promise((resolve) => {
    new MutationObserver((_, observer) => {
      if (element.textContent !== 'Copied') return;
      observer.disconnect();
      resolve(undefined);
    }).observe(element, { childList: true, characterData: true, subtree: true });
  }));
  await Promise.all([said, element.click()]);
  return page.evaluate(() => navigator.clipboard.readText());
}

/** Opens an address and waits until the viewer has drawn. */
export async function open(page, address) {
  await page.goto(address);
  await ready(page);
}

export async function ready(page) {
  await page.waitForSelector('#viewer[data-ready]');
}

/** Waits until a function of the page returns something true. */
export async function until(page, check, argument) {
  await page.waitForFunction(check, argument);
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
