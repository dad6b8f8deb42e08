// SPDX-License-Identifier: LGPL-2.1-or-later
// What the tests of pages share: TAP, captures, Debian's chromium.

import {execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const CHROMIUM = '/usr/bin/chromium';
export const DEADLINE_MS = 180000; // only so that a hang ends

const require = createRequire(join(process.env.JUDGES_DIR, 'node_modules', 'x.js'));
const {chromium} = require('playwright-core');
export const axePath = require.resolve('axe-core/axe.min.js');

const [, , sondectl, makeCapture] = process.argv;
export const folder = mkdtempSync(join(tmpdir(), 'sonde-web-'));
// However it ends; Meson ends a test whose time is up by SIGTERM.
process.on('exit', () => rmSync(folder, {recursive: true}));
process.on('SIGTERM', () => process.exit(1));

export function run(...args) {
  return execFileSync(sondectl, args, {encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit']});
}

export function capture(kind) {
  const path = join(folder, `${kind}.syscap`);
  execFileSync(makeCapture, [kind, path]);
  return path;
}

// The path of a page, or picture, that sondectl draws.
export function draw(name, ...args) {
  const path = join(folder, name);
  run('flamegraph', ...args, '-o', path);
  return path;
}

export async function launch() {
  // root's chromium has no sandbox of its own
  return chromium.launch({executablePath: CHROMIUM, args: ['--no-sandbox'], timeout: DEADLINE_MS});
}

export function check(isTrue, text) {
  if (!isTrue)
    throw new Error(text);
}

export function equal(found, wanted, what = '') {
  check(String(found) === String(wanted), `${what} is ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
}

// Runs cases, {name: async function}, and prints TAP.
export async function main(cases) {
  let nFailed = 0;
  const names = Object.keys(cases);
  console.log(`1..${names.length}`);
  for (const [i, name] of names.entries())
    try {
      await cases[name]();
      console.log(`ok ${i + 1} - ${name}`);
    } catch (error) {
      nFailed++;
      console.log(`not ok ${i + 1} - ${name}`);
      console.log(String(error.stack).replace(/^/gm, '# '));
    }
  process.exitCode = nFailed ? 1 : 0;
}
