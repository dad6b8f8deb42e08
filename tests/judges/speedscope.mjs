// SPDX-License-Identifier: LGPL-2.1-or-later
// Opens profiles in speedscope's own page: speedscope.mjs FILE…; prints what it read and showed of each, as JSON.
import fs from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

// Where the packages are is the caller's business.
const require = createRequire(path.join(process.cwd(), 'package.json'));
const {chromium} = require('playwright-core');
const PAGE = path.join(path.dirname(require.resolve('speedscope/package.json')), 'dist/release/index.html');
const WAIT_MS = 180000;

// As speedscope's own command line does it: the file is text of a script, which the page runs.
async function load(page, file) {
  const script = `${file}.js`;
  const bytes = fs.readFileSync(file).toString('base64');
  fs.writeFileSync(script, `speedscope.loadFileFromBase64(${JSON.stringify(path.basename(file))}, "${bytes}")`);
  await page.goto(`${pathToFileURL(PAGE)}#localProfilePath=${script}`);
  await page.getByText('Sandwich').click({timeout: WAIT_MS});
}

// {profiles: [{name, unit, total}], names, shown}; what it saves is what it understood.
async function read(browser, file) {
  const page = await browser.newPage({viewport: {width: 1200, height: 2000}});
  page.setDefaultTimeout(WAIT_MS);
  const complaints = [];
  page.on('dialog', dialog => complaints.push(dialog.message()) && dialog.dismiss());
  page.on('pageerror', error => complaints.push(error.stack));
  await load(page, file);
  const shown = await page.locator('tr').allInnerTexts();
  const [download] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('Control+s')]);
  const document = JSON.parse(fs.readFileSync(await download.path()));
  await page.close();
  if (complaints.length)
    throw new Error(complaints.join('\n'));
  return {
    profiles: document.profiles.map(({name, unit, startValue, endValue}) => ({name, unit, total: endValue - startValue})),
    names: document.shared.frames.map(frame => frame.name), shown};
}

// root's chromium has no sandbox of its own
const browser = await chromium.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--enable-unsafe-swiftshader']});
try {
  for (const file of process.argv.slice(2))
    console.log(JSON.stringify(await read(browser, file)));
} finally {
  await browser.close();
}
