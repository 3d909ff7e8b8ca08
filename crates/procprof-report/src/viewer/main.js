/** Starts the viewer in its place on the page. */

import { App } from './app.js';
import { Local } from './local.js';
import { Remote } from './remote.js';
import { decodeSlice } from './slice.js';

/** @param {string} id */
function dataBlock(id) {
  return document.getElementById(id)?.textContent ?? '';
}

/** The slice inside the file: gzip in base64. */
async function embeddedSlice() {
  const packed = Uint8Array.from(atob(dataBlock('viewer-tree').trim()), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return decodeSlice(new Uint8Array(await new Response(unpacked).arrayBuffer()));
}

/** Waits for the style, without which nothing can be measured. */
async function styled() {
  const waiting = [...document.querySelectorAll('link')].filter((link) => link.rel === 'stylesheet' && !link.sheet);
  await Promise.all(waiting.map((link) => new Promise((done) => {
    link.onload = link.onerror = done;
  })));
}

async function start() {
  // The script does not wait for the end of the page.
  if (document.readyState === 'loading' && !dataBlock('viewer-config')) {
    await new Promise((done) => document.addEventListener('DOMContentLoaded', done));
  }
  const host = document.getElementById('viewer');
  if (!host || !dataBlock('viewer-config')) return;
  /** @type {import('./app.js').Config & Record<string, any>} */
  const config = JSON.parse(dataBlock('viewer-config'));
  const source = config.tree ? new Remote(config) : new Local(await embeddedSlice());
  await styled();
  const app = new App(host, config, source);
  /** @type {any} */ (window).procprofViewer = app;
  await app.load([]);
}

void start();
