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

async function start() {
  const host = document.getElementById('viewer');
  if (!host || !dataBlock('viewer-config')) return;
  /** @type {import('./app.js').Config & Record<string, any>} */
  const config = JSON.parse(dataBlock('viewer-config'));
  const source = config.tree ? new Remote(config) : new Local(await embeddedSlice());
  const app = new App(host, config, source);
  /** @type {any} */ (window).procprofViewer = app;
  await app.load([]);
}

void start();
