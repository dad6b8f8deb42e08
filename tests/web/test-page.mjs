#!/usr/bin/env node
// SPDX-License-Identifier: LGPL-2.1-or-later
// The page of sondectl flamegraph, used as people use it: test-page.mjs SONDECTL MAKE_CAPTURE

import {readFileSync, statSync} from 'node:fs';
import {DEADLINE_MS, axePath, capture, check, draw, equal, launch, main, run} from './browser.mjs';

const ROW = 19; // pixels, as graph.js has it
const MAX_BYTES = 5000000;

const small = capture('small');
const pages = {
  small: draw('small.html', small),
  compared: draw('compared.html', small, '--diff', capture('before')),
  stacks: draw('stacks.html', capture('stacks')),
  counters: draw('counters.html', capture('counters')),
  runs: draw('runs.html', capture('runs')),
  self: draw('self-time.html', capture('calls'), '--unit', 'self'),
  calls: draw('calls.html', capture('calls'), '--unit', 'calls'),
};
const browser = await launch();

// Opens a page without any network; whatever it complains of is a failure.
async function open(name, {scheme = 'light', ...options} = {}) {
  const context = await browser.newContext({viewport: {width: 1200, height: 800}, colorScheme: scheme, offline: true, ...options});
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  page.complaints = [];
  page.requests = [];
  page.on('console', message => message.type() === 'error' && page.complaints.push(message.text()));
  page.on('pageerror', error => page.complaints.push(error.stack));
  page.on('request', request => page.requests.push(request.url()));
  await page.goto(`file://${pages[name]}`);
  await page.waitForFunction(() => performance.getEntriesByName('sonde-drawn').length);
  return page;
}

async function close(page) {
  equal(page.complaints.join('\n'), '', 'what the console says');
  await page.context().close();
}

// Runs a case on a page of its own.
function on(name, test, options) {
  return async () => {
    const page = await open(name, options);
    await test(page);
    await close(page);
  };
}

// The middle of a row of the graph, 0 being "all" at the bottom, at a share of its width.
async function place(page, row, share) {
  const box = await page.locator('#graph').boundingBox();
  return [box.x + box.width * share, box.y + box.height - (row + .5) * ROW];
}

async function readFrame(page, row, share) {
  await page.mouse.move(...await place(page, row, share));
  return (await page.locator('#tip').innerText()).replace(/\s+/g, ' ');
}

async function clickFrame(page, row, share) {
  await page.mouse.click(...await place(page, row, share));
}

async function expectFrame(page, row, share, ...parts) {
  const text = await readFrame(page, row, share);
  for (const part of parts)
    check(text.includes(part), `${JSON.stringify(part)} is not in ${JSON.stringify(text)}`);
}

async function text(page, selector) {
  return page.locator(selector).innerText();
}

async function drag(page, from, to) {
  const box = await page.locator('#plot').boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * (from + to) / 2, box.y + 45);
  await page.mouse.move(box.x + box.width * to, box.y + 45);
  await page.mouse.up();
}

// {name: [self, total]} of the table as it is shown.
async function readTable(page) {
  await page.locator('#tab-table').click();
  const rows = await page.locator('#rows tr').evaluateAll(list => list.map(row => [...row.cells].map(cell => cell.textContent)));
  return new Map(rows.map(cells => [cells[0], cells.slice(2).map(cell => Number(cell.split(/\s/)[0].replace(/,/g, '')))]));
}

// The same of the report, in percent: functions that ran.
function readReport() {
  const lines = run('report', '--flat', '--percent-limit=0', small).matchAll(/^ +([\d.]+)% +([\d.]+)% +(\S.*?)  /gm);
  return new Map([...lines].map(([, self, total, name]) => [name, [Number(self), Number(total)]]));
}

const cases = {
  'the page asks for nothing and is not too large': on('small', async page => {
    equal(page.requests.length, 1, 'the number of requests');
    const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute('content');
    check(policy.startsWith("default-src 'none'; script-src 'sha256-"), policy);
    check(!readFileSync(pages.small, 'utf8').match(/(src|href)="?(https?:)?\/\//), 'it refers to the network');
    for (const path of Object.values(pages))
      check(statSync(path).size <= MAX_BYTES, `${path} has ${statSync(path).size} bytes`);
  }),

  'its policy runs no other script': on('small', async page => {
    await page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'window.intruder = true';
      document.body.append(script);
    });
    equal(await page.evaluate(() => window.intruder), undefined, 'the intruder');
    check(page.complaints.pop().includes('Content Security Policy'), 'the browser did not object');
  }),

  'names of foreign origin stay text': on('small', async page => {
    check((await text(page, '#summary')).includes('/usr/bin/worker <queue> & "more"'), 'the command line is another');
  }),

  'its figures are those of the report': on('small', async page => {
    const report = readReport();
    const table = await readTable(page);
    equal([...table.values()].filter(([self]) => self > 0).length, report.size, 'the number of functions that ran');
    for (const [name, [self, total]] of report) {
      const [pageSelf, pageTotal] = table.get(name);
      equal(pageSelf / 10, self, `self of ${name}`);
      equal(pageTotal / 10, total, `total of ${name}`);
    }
  }),

  'hovering tells a frame': on('small', async page => {
    await expectFrame(page, 0, .5, 'all', '100.0 % 1,000 samples');
    await expectFrame(page, 1, .3, 'worker (pid 200)', 'process', '60.0 %');
    await expectFrame(page, 4, .2, 'sha256_block', 'libcrypto.so.3', 'Total 42.0 % 420 samples', 'Self 42.0 %');
    await expectFrame(page, 5, .61, 'copy_to_user', 'kernel', '4.0 %');
  }),

  'a frame tells its source where it is asked for': async () => {
    pages.lines = draw('lines.html', '--lines', '--inline', capture('self'));
    const page = await open('lines');
    await expectFrame(page, 2, .5, 'write_self', 'make-capture.c:');
    await page.locator('#tab-table').click();
    equal(await page.getByRole('columnheader', {name: 'Source'}).count(), 1, 'the number of columns of sources');
    await close(page);
  },

  'a click zooms, and back': on('small', async page => {
    await clickFrame(page, 1, .8);
    await expectFrame(page, 1, .1, 'server (pid 100)');
    await expectFrame(page, 3, .1, 'parse_request', '28.0 %', 'Of zoomed 70.0 %');
    await clickFrame(page, 0, .5);
    await expectFrame(page, 1, .1, 'worker (pid 200)');
    check(await page.locator('#reset').isDisabled(), 'there is something to reset');
    await clickFrame(page, 4, .2);
    await page.locator('#reset').click();
    await expectFrame(page, 1, .1, 'worker (pid 200)');
  }),

  'search tells how much it matched': on('small', async page => {
    await page.keyboard.press('/');
    await page.keyboard.type('READ_tok');
    equal(await text(page, '#matched'), '28.0 % matched by 1 function', 'what is matched');
    await page.locator('#search').fill('/^(memcpy|sha256_block)$/');
    equal(await text(page, '#matched'), '60.0 % matched by 2 functions', 'what is matched');
    await page.locator('#search').fill('main');
    equal(await text(page, '#matched'), '100.0 % matched by 1 function', 'what is matched');
    await page.locator('#search').fill('/(/');
    equal(await text(page, '#matched'), 'no regular expression', 'what is matched');
    await page.locator('#search').fill('');
    equal(await text(page, '#matched'), '', 'what is matched');
  }),

  'what is sought stands out': on('small', async page => {
    const read = () => page.locator('#graph').evaluate(canvas => {
      const data = canvas.getContext('2d').getImageData(canvas.width / 10, canvas.height - 4.5 * 19, 1, 1).data;
      return [...data].join();
    });
    const before = await read();
    await page.locator('#search').fill('sha256');
    check(await read() !== before, 'the frame has the same colour');
  }),

  'a range of time filters the graph': on('small', async page => {
    await drag(page, .5, .9);
    const [, n] = /^(\d+) samples/.exec(await text(page, '#selected'));
    check(Math.abs(n - 400) < 10, `${n} samples are in 40 % of the time`);
    await expectFrame(page, 1, .99, 'worker (pid 200)', '100.0 %');
    await page.locator('#range-clear').click();
    await expectFrame(page, 1, .99, 'server (pid 100)', '40.0 %');
  }),

  'a range can be typed': on('small', async page => {
    await page.locator('#from').fill('0');
    await page.locator('#to').fill('4');
    await page.locator('#to').press('Tab');
    equal(await text(page, '#selected'), '400 samples, 40.0 %', 'what is selected');
    await expectFrame(page, 1, .01, 'server (pid 100)', '100.0 % 400 samples');
    equal((await readTable(page)).get('blend<…>').join(), '120,120', 'the table');
  }),

  'a range can be moved by keys': on('small', async page => {
    await page.locator('#plot').focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Shift+ArrowRight');
    const from = Number(await page.locator('#from').inputValue());
    const to = Number(await page.locator('#to').inputValue());
    check(from > .1 && from < .3 && to > 1.3 && to < 1.5, `the range is ${from} to ${to}`);
    await page.keyboard.press('Escape');
    equal(await text(page, '#selected'), '', 'what is selected');
  }),

  'processes and threads filter the graph': on('small', async page => {
    await page.getByRole('button', {name: 'Threads of server (pid 100)'}).click();
    await page.getByRole('button', {name: 'thread 101'}).click();
    equal(await text(page, '#selected'), '120 samples, 12.0 %, thread 101', 'what is selected');
    await expectFrame(page, 4, .5, 'blend<std', '100.0 %');
    await page.getByRole('button', {name: /^worker \(pid 200\)/}).click();
    equal(await text(page, '#selected'), '600 samples, 60.0 %, worker (pid 200)', 'what is selected');
    await page.locator('#thread-clear').click();
    equal(await text(page, '#selected'), '', 'what is selected');
  }),

  'marks and counters tell what they are': on('small', async page => {
    const box = await page.locator('#plot').boundingBox();
    const rows = {};
    for (const label of await page.locator('#labels > div').all())
      rows[await label.getAttribute('title')] = (await label.boundingBox()).y + 12;
    await page.mouse.move(box.x + 2, rows.requests);
    check((await text(page, '#tip')).includes('GET /page\ntext of the mark'), 'the mark is another');
    await page.mouse.move(box.x + box.width * .2, rows['Memory: Resident']);
    check((await text(page, '#tip')).includes('Bytes of the server'), 'the counter is another');
    await page.mouse.move(box.x + box.width * .05, rows['CPU: Total']);
    const [, value] = /Value\s+([\d.]+)/.exec(await text(page, '#tip'));
    check(value >= 40 && value < 65, `the value is ${value}`);
  }),

  'groups of counters leave room for processes, and tell rates and units': on('counters', async page => {
    const labels = () => page.locator('#labels > div').evaluateAll(list => list.map(label => label.title).filter(Boolean));
    const read = async (title, share) => {
      const label = await page.locator('#labels > div').filter({hasText: title}).first().boundingBox();
      const box = await page.locator('#plot').boundingBox();
      await page.mouse.move(box.x + box.width * share, label.y + label.height / 2);
      return (await text(page, '#tip')).replace(/\s+/g, ' ');
    };
    equal(await labels(), ['Marks', 'CPU Percent', 'Memory: Used', 'Network', 'server (pid 100)', 'worker (pid 200)'], 'the rows at first');
    check(await page.getByRole('button', {name: /^worker \(pid 200\)/}).isVisible(), 'a process is out of sight');
    equal(await read('Network', .5), 'Network RX Bytes (eth0) 1.0 MiB/s TX Bytes (eth0) 10.0 KiB/s', 'the network');
    check((await read('CPU Percent', .151)).includes('cpu0 15 %'), await read('CPU Percent', .151));
    await page.getByRole('button', {name: 'Network 2'}).focus();
    await page.keyboard.press('Enter');
    equal((await labels()).slice(3, 6), ['Network', 'RX Bytes (eth0)', 'TX Bytes (eth0)'], 'the rows of the network');
    equal(await page.evaluate(() => document.activeElement.getAttribute('aria-expanded')), 'true', 'what the focus is on');
    equal(await read('TX Bytes', .2), 'TX Bytes (eth0) sent since first seen Grows by 0 B/s Highest 10.0 KiB/s', 'what is sent at first');
    equal(await read('Memory: Used', .005), 'Memory: Used bytes: all but what is available Value 512.0 MiB Highest 612.0 MiB', 'memory');
    await page.getByRole('button', {name: 'Marks 3'}).click();
    equal((await labels()).slice(1, 4), ['frames', '<b>input</b>', 'timers'], 'the groups of marks');
  }),

  'inverting begins with what ran': on('small', async page => {
    await page.keyboard.press('i');
    await expectFrame(page, 1, .1, 'sha256_block', '42.0 %');
    await expectFrame(page, 2, .1, 'work_loop', '42.0 %');
    await expectFrame(page, 4, .1, 'worker (pid 200)', '42.0 %');
    await clickFrame(page, 1, .1);
    await expectFrame(page, 3, .9, 'main', '42.0 %');
    await page.locator('#invert').click();
    await expectFrame(page, 1, .1, 'worker (pid 200)', '60.0 %');
  }),

  'an icicle hangs from the top': on('small', async page => {
    await page.locator('#icicle').click();
    const box = await page.locator('#graph').boundingBox();
    await page.mouse.move(box.x + 200, box.y + ROW * 1.5);
    check((await text(page, '#tip')).includes('worker (pid 200)'), 'the second row is another');
    await page.locator('#icicle').press('ArrowLeft');
    equal(await page.locator('#flame').getAttribute('aria-checked'), 'true', 'flame');
    await expectFrame(page, 0, .5, 'all');
  }),

  'the keyboard walks the graph and is heard': on('small', async page => {
    const heard = () => page.locator('#live').textContent();
    await page.locator('#graph').focus();
    await page.keyboard.press('ArrowUp');
    check((await heard()).startsWith('all, Total 100.0 %'), await heard());
    await page.keyboard.press('ArrowUp');
    check((await heard()).startsWith('worker (pid 200), process'), await heard());
    await page.keyboard.press('ArrowRight');
    check((await heard()).startsWith('server (pid 100)'), await heard());
    await page.keyboard.press('Enter');
    await expectFrame(page, 1, .1, 'server (pid 100)');
    await page.locator('#graph').focus();
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    check((await heard()).startsWith('parse_request, server, Total 28.0 % 280 samples'), await heard());
    await page.keyboard.press('ArrowDown');
    check((await heard()).startsWith('main'), await heard());
    await page.keyboard.press('Escape');
    await expectFrame(page, 1, .1, 'worker (pid 200)');
  }),

  'a function stands between its callers and callees': on('small', async page => {
    await page.mouse.click(...await place(page, 3, .2), {button: 'right'});
    equal((await page.locator('#menu').getByRole('menuitem').allInnerTexts())[0].replace(/\s+/g, ' '), 'Callers and callees s', 'the menu');
    await page.getByRole('menuitem', {name: 'Callers and callees'}).click();
    equal(await page.locator('#tab-sandwich').getAttribute('aria-selected'), 'true', 'the tab');
    equal(await text(page, '#sandwich-name'), 'work_loop', 'the function');
    equal(await text(page, '#sandwich-note'), 'worker · total 60.0 %, 600 samples; self 0.0 %', 'its figures');
    const at = async (id, row, share) => {
      const box = await page.locator(`#${id}`).boundingBox();
      await page.mouse.move(box.x + box.width * share, id === 'callers' ? box.y + box.height - (row + .5) * ROW : box.y + (row + .5) * ROW);
      return (await text(page, '#tip')).replace(/\s+/g, ' ');
    };
    for (const [id, row, share, wanted] of [['callers', 0, .5, 'work_loop'], ['callers', 1, .5, 'main'], ['callers', 2, .5, 'worker (pid 200)'],
      ['callees', 0, .5, 'work_loop'], ['callees', 1, .5, 'sha256_block'], ['callees', 1, .9, 'memcpy']]) {
      const tip = await at(id, row, share);
      check(tip.startsWith(wanted), `${wanted} is not in row ${row} of ${id}: ${tip}`);
    }
    check((await at('callees', 1, .5)).includes('Total 42.0 % 420 samples Self 42.0 %'), 'the callee has another weight');
    await page.mouse.down();
    await page.mouse.up();
    check((await at('callees', 1, .95)).startsWith('sha256_block'), 'a click does not zoom');
    await page.keyboard.press('Escape');
    check((await at('callees', 1, .95)).startsWith('memcpy'), 'Escape does not show everything');
  }),

  'sandwiches follow ranges and threads': on('small', async page => {
    await page.keyboard.press('t');
    await page.locator('#rows button').filter({hasText: 'main'}).focus();
    await page.keyboard.press('s');
    equal(await text(page, '#sandwich-note'), 'server · total 100.0 %, 1,000 samples; self 0.0 %', 'figures of main');
    await page.locator('#from').fill('0');
    await page.locator('#to').fill('4');
    await page.locator('#to').press('Tab');
    equal(await text(page, '#sandwich-note'), 'server · total 100.0 %, 400 samples; self 0.0 %', 'figures of the range');
    await page.keyboard.press('t');
    await page.locator('#rows button').filter({hasText: 'blend'}).focus();
    await page.keyboard.press('s');
    await page.getByRole('button', {name: /^worker \(pid 200\)/}).click();
    equal(await text(page, '#sandwich-note'), 'libpaint.so.2 · nothing of it is selected', 'figures of nothing');
    check(await page.locator('#callers').isHidden(), 'there is a picture of nothing');
  }),

  'the menu of a function is opened, walked and left by keys': on('small', async page => {
    await page.locator('#graph').focus();
    for (const key of ['ArrowUp', 'ArrowUp', 'ArrowUp', 'Shift+F10'])
      await page.keyboard.press(key);
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
    check((await focused()).startsWith('Callers and callees'), await focused());
    equal(await page.locator('#menu').getAttribute('aria-label'), 'main', 'whose menu it is');
    await page.keyboard.press('Escape');
    equal(await focused(), 'graph', 'the focus');
    check(await page.locator('#menu').isHidden(), 'the menu is there');
    await page.locator('#deeds').focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('s');
    equal(await text(page, '#sandwich-name'), 'main', 'the function');
    await page.locator('#callees').focus();
    for (const key of ['ArrowUp', 'ArrowDown', 'Enter', 's'])
      await page.keyboard.press(key);
    equal(await text(page, '#sandwich-name'), 'work_loop', 'the callee');
  }),

  'the call tree opens, sorts and is walked by keys': on('small', async page => {
    const rows = () => page.getByRole('treeitem').evaluateAll(list => list.map(row =>
      `${row.getAttribute('aria-level')} ${row.querySelector('b').textContent} ${row.children[0].textContent} ${row.children[1].textContent}`));
    const current = async () => page.locator(`#${await page.locator('#tree').getAttribute('aria-activedescendant')}`).locator('b').innerText();
    await page.locator('#tab-tree').click();
    equal(await rows(), ['1 worker (pid 200) 60.0 % 0.0 %', '2 main 60.0 % 0.0 %', '3 work_loop 60.0 % 0.0 %', '4 sha256_block 42.0 % 42.0 %',
      '4 memcpy 18.0 % 18.0 %', '1 server (pid 100) 40.0 % 0.0 %'], 'what is open at first');
    await page.locator('#tree').focus();
    await page.keyboard.press('End');
    equal(await current(), 'server (pid 100)', 'the last');
    equal(await page.getByRole('treeitem', {expanded: false}).count(), 1, 'the number of closed ones');
    await page.keyboard.press('ArrowRight');
    equal((await rows()).slice(5), ['1 server (pid 100) 40.0 % 0.0 %', '2 main 40.0 % 0.0 %', '3 parse_request 28.0 % 0.0 %',
      '3 render_page 12.0 % 0.0 %'], 'what is open then');
    await page.keyboard.press('ArrowRight');
    equal(await current(), 'main', 'the first callee');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    equal((await rows()).slice(7, 9), ['3 parse_request 28.0 % 0.0 %', '4 read_token 28.0 % 24.0 %'], 'what Enter opens');
    await page.keyboard.press('ArrowLeft');
    equal((await rows()).length, 9, 'the number of rows when it is closed');
    await page.keyboard.press('ArrowLeft');
    equal(await current(), 'main', 'the caller');
    await page.getByRole('button', {name: 'Sort by function'}).click();
    equal((await rows())[0], '1 server (pid 100) 40.0 % 0.0 %', 'the first by name');
    await page.getByRole('button', {name: 'Sort by self'}).click();
    await page.keyboard.press('i');
    equal((await rows())[0], '1 sha256_block 42.0 % 42.0 %', 'the first that ran');
    await page.locator('#tree').focus();
    await page.keyboard.press('s');
    equal(await text(page, '#sandwich-name'), 'sha256_block', 'the function of the row');
  }),

  'of a large tree only rows in sight are elements': on('stacks', async page => {
    await page.locator('#tab-tree').click();
    await page.locator('#tree').focus();
    for (let i = 0; i < 400; i++)
      await page.keyboard.press(i % 2 ? 'ArrowDown' : 'ArrowRight');
    const n = await page.getByRole('treeitem').count();
    check(n > 10 && n < 60, `there are ${n} elements`);
    const height = await page.locator('#tree .space').evaluate(space => space.clientHeight);
    check(height > 100 * 24, `the tree is ${height} pixels high`);
    check(await page.locator('#tree [aria-selected="true"]').isVisible(), 'the row at hand is out of sight');
  }),

  'stacks with a function are left out, and told': on('small', async page => {
    await clickFrame(page, 4, .5);
    await page.keyboard.press('h');
    equal(await text(page, '#edits-shown'), '820 of 1,000 samples are shown, 82.0 %', 'what is shown');
    equal(await page.locator('#edits-list li').allInnerTexts(), 'without stacks of memcpy: 180 samples left out', 'what is not');
    await page.keyboard.press('Escape');
    await expectFrame(page, 0, .5, 'all', 'Total 100.0 % 820 samples');
    await expectFrame(page, 1, .1, 'worker (pid 200)', '51.2 % 420 samples');
    await page.locator('#from').fill('4');
    await page.locator('#from').press('Tab');
    equal(await text(page, '#edits-shown'), '420 of 600 samples are shown, 70.0 %', 'what is shown of the range');
    equal(await text(page, '#selected'), '600 samples, 60.0 %', 'what is selected');
  }),

  'stacks are seen from a function on': on('small', async page => {
    await page.mouse.click(...await place(page, 3, .7), {button: 'right'});
    await page.getByRole('menuitem', {name: 'Only stacks with it'}).click();
    await expectFrame(page, 1, .5, 'parse_request', 'Total 100.0 % 280 samples');
    await expectFrame(page, 3, .02, 'copy_to_user', '14.3 % 40 samples');
    equal(await page.locator('#edits-list li').allInnerTexts(), 'only parse_request and what it calls: 720 samples left out', 'what is told');
  }),

  'a function merges into its callers, and edits add up, go back and forth': on('small', async page => {
    await clickFrame(page, 3, .2);
    await page.keyboard.press('m');
    await page.keyboard.press('Escape');
    await expectFrame(page, 2, .1, 'main', '60.0 %');
    await expectFrame(page, 3, .1, 'sha256_block', '42.0 %');
    await clickFrame(page, 3, .1);
    await page.keyboard.press('m'); // what ran counts for its caller then
    await page.keyboard.press('Escape');
    await expectFrame(page, 2, .1, 'main', 'Total 60.0 % 600 samples Self 42.0 %');
    equal(await text(page, '#edits-shown'), 'All 1,000 samples are shown', 'what is shown');
    await clickFrame(page, 3, .1);
    await page.keyboard.press('h');
    equal(await text(page, '#edits-shown'), '820 of 1,000 samples are shown, 82.0 %', 'what is shown');
    equal(await page.locator('#edits-list li').allInnerTexts(), ['work_loop merged into its callers', 'sha256_block merged into its callers',
      'without stacks of memcpy: 180 samples left out'], 'what is told');
    for (let i = 0; i < 4; i++)
      await page.keyboard.press('z');
    equal(await text(page, '#edits-shown'), 'All 1,000 samples are shown', 'what is shown');
    check(await page.locator('#undo').isDisabled(), 'there is something to undo');
    await expectFrame(page, 3, .1, 'work_loop', '60.0 %');
    await page.keyboard.press('Shift+Z');
    await expectFrame(page, 3, .1, 'sha256_block', '42.0 %');
    await page.keyboard.press('Control+z');
    await page.keyboard.press('Control+Shift+Z');
    await page.locator('#redo').click();
    equal(await page.locator('#edits-list li').count(), 2, 'the number of edits');
  }),

  'whatever is left out, the rest adds up': on('small', async page => {
    await page.keyboard.press('t');
    const names = await page.locator('#rows button').allInnerTexts();
    for (const verb of ['h', 'o', 'm'])
      for (const name of names) {
        await page.locator('#rows').getByRole('button', {name, exact: true}).focus();
        const [, total] = (await readTable(page)).get(name);
        await page.locator('#rows').getByRole('button', {name, exact: true}).focus();
        await page.keyboard.press(verb);
        const [, n] = /^(?:All )?([\d,]+) /.exec(await text(page, '#edits-shown'));
        equal(n.replace(',', ''), {h: 1000 - total, o: total, m: 1000}[verb], `what ${verb} ${name} leaves`);
        const self = [...(await readTable(page)).values()].reduce((sum, [of]) => sum + of, 0);
        equal(self, n.replace(',', ''), `the sum of the table after ${verb} ${name}`);
        await page.keyboard.press('z');
      }
  }),

  'what is left out of a comparison is so on both sides': on('compared', async page => {
    await clickFrame(page, 4, .5);
    await page.keyboard.press('h');
    await page.keyboard.press('Escape');
    await expectFrame(page, 4, .2, 'sha256_block', 'Total 51.2 %', 'Before 37.5 % 240 samples', 'Change +13.7 points');
  }),

  'the address is that of what is seen, back and forth, and for who gets the link': on('small', async page => {
    const seen = async () => [await page.locator('[role="tab"][aria-selected="true"]').innerText(), await page.locator('#search').inputValue(),
      await text(page, '#selected'), await page.locator('#edits').isVisible() ? await text(page, '#edits-shown') : '',
      await page.locator('#invert').getAttribute('aria-pressed'), await page.locator('#icicle').getAttribute('aria-checked'),
      await page.locator('#reset').isDisabled(), await page.locator('#graph').getAttribute('aria-label'), await page.locator('#sandwich-name').isVisible() ? await text(page, '#sandwich-name') : ''].join('; ');
    const steps = [
      () => clickFrame(page, 3, .8),
      async () => {
        await page.locator('#to').fill('6');
        await page.locator('#to').press('Tab');
      },
      () => page.getByRole('button', {name: /^server \(pid 100\)/}).click(),
      async () => {
        await clickFrame(page, 5, .1);
        await page.keyboard.press('h');
      },
      () => page.keyboard.press('i'),
      () => page.keyboard.press('f'),
      async () => {
        await page.keyboard.press('5');
        await page.locator('#chart-in').click();
      },
      () => page.keyboard.press('t'),
      async () => {
        await page.locator('#rows button').first().focus();
        await page.keyboard.press('s');
      },
    ];
    const views = [await seen()];
    const addresses = [page.url()];
    for (const step of steps) {
      await step();
      views.push(await seen());
      addresses.push(page.url());
    }
    equal(new Set(addresses).size, steps.length + 1, 'the number of addresses');
    equal(addresses.at(-1).replace(/.*#/, '').replace(/time=0-5\.99\d+/, 'time=0-6'), 'view=sandwich&of=server%21read_token%28char+const*%2C+unsigned+long%29'
      + '&invert=1&icicle=1&time=0-6&lane=p0&hide=%5Bkernel%5D%21copy_to_user', 'the last address');
    for (let i = views.length - 2; i >= 0; i--) {
      await page.goBack();
      if (i === 3 || i === 6) // the frame was zoomed into before it was hidden, the chart seen before it was zoomed
        await page.goBack();
      equal(page.url(), addresses[i], `the address ${i}`);
      equal(await seen(), views[i], `what is seen at ${i}`);
    }
    await page.goForward();
    equal(await seen(), views[1], 'what is seen forward');
    for (const [i, address] of addresses.entries()) {
      const other = await page.context().newPage();
      await other.goto(address);
      await other.waitForFunction(() => performance.getEntriesByName('sonde-drawn').length);
      const there = page;
      page = other;
      equal(await seen(), views[i], `what the link ${i} opens`);
      page = there;
      await other.close();
    }
  }),

  'what a search finds is in the address, and is no step back': on('small', async page => {
    await page.keyboard.press('f');
    await page.keyboard.press('/');
    await page.keyboard.type('read <b>&');
    check(page.url().endsWith('#icicle=1&search=read+%3Cb%3E%26'), page.url());
    await page.goBack();
    equal(await page.locator('#search').inputValue(), '', 'what is sought');
    equal(await page.locator('#flame').getAttribute('aria-checked'), 'true', 'flame');
  }),

  'a link that knows nothing of the page opens it': on('small', async page => {
    for (const fragment of ['graph', 'view=nothing&of=nobody&hide=x&focus=&time=9-a&lane=p77&at=z.z&lane=constructor', 'time=8-2&lane=t99999999', '%%%&=&toString=1&view=__proto__']) {
      await page.goto(`${page.url().replace(/#.*/, '')}#${fragment}`);
      await expectFrame(page, 1, .3, 'worker (pid 200)');
      check(await page.locator('#edits').isHidden(), 'something is edited');
    }
  }),

  'a stack is copied as the report prints it': async () => {
    const page = await open('small');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const report = run('report', '--percent-limit=0', small).split('\n').map(line => line.replace(/[├└│─╶]+ */g, '').trimEnd());
    const copied = async () => {
      const [, n] = /^Stack of (\d+) frames copied$/.exec(await page.locator('#notice').textContent());
      const lines = (await page.evaluate(() => navigator.clipboard.readText())).split('\n').slice(0, -1);
      equal(lines.length, Number(n) + 1, 'the number of lines');
      for (const line of lines)
        check(report.includes(line.trimEnd()), `${JSON.stringify(line)} is not in the report`);
      return lines.slice(1).map(line => line.slice(17));
    };
    await page.mouse.click(...await place(page, 4, .7), {button: 'right'});
    await page.getByRole('menuitem', {name: 'Copy the stack'}).click();
    await page.locator('#notice').waitFor();
    equal(await copied(), 'server (pid 100),main,parse_request,read_token', 'the stack of the frame');
    await page.keyboard.press('t');
    await page.locator('#rows button').filter({hasText: 'memcpy'}).focus();
    await page.keyboard.press('c');
    await page.waitForFunction(() => navigator.clipboard.readText().then(text => text.includes('memcpy')));
    equal(await copied(), 'worker (pid 200),main,work_loop,memcpy', 'the heaviest stack of the function');
    await close(page);
  },

  'stacks are seen in the order of time': on('small', async page => {
    const read = async (row, share) => {
      const box = await page.locator('#chart').boundingBox();
      await page.mouse.move(box.x + box.width * share, box.y + (row + .5) * ROW);
      return await page.locator('#tip').isVisible() ? (await text(page, '#tip')).replace(/\s+/g, ' ') : '';
    };
    const note = () => text(page, '#chart-note');
    const heard = () => page.locator('#live').textContent();
    await page.goto(`${page.url()}#view=chart&seen=5-5.1`);
    equal(await note(), '5.00 s to 5.10 s', 'what is seen');
    equal(await page.locator('#chart-thread option').allInnerTexts(), ['worker (tid 200)', 'server (tid 100)', 'server (pid 100, tid 101)'], 'the threads');
    equal(await read(3, .3), 'sha256_block libcrypto.so.3 At 5.00 s Lasts 70.0 ms Total 42.0 % 420 samples Self 42.0 % 420 samples', 'the first run');
    check((await read(3, .8)).startsWith('memcpy libc.so.6 At 5.07 s Lasts 30.0 ms'), await read(3, .8));
    check((await read(1, .3)).startsWith('main server At 5.00 s Lasts 100 ms'), await read(1, .3));
    await page.locator('#chart').focus();
    for (let i = 0; i < 4; i++)
      await page.keyboard.press('ArrowDown');
    check((await heard()).startsWith('sha256_block, libcrypto.so.3, At 5.00 s, Lasts 70.0 ms'), await heard());
    await page.keyboard.press('ArrowRight');
    check((await heard()).startsWith('memcpy, libc.so.6, At 5.07 s'), await heard());
    await page.keyboard.press('Enter');
    equal(await note(), '5.07 s to 5.10 s', 'what a run that is entered shows');
    await page.keyboard.press('-');
    await page.keyboard.press('Shift+ArrowRight');
    equal(await note(), '5.07 s to 5.13 s', 'what is seen wider, and later');
    await page.goBack();
    await page.goBack();
    equal(await note(), '5.07 s to 5.10 s', 'what is seen again');
    await page.keyboard.press('Escape');
    equal(await note(), '0 s to 9.99 s', 'the whole time');
    await page.locator('#chart-thread').press('s'); // chooses by letter, as lists do
    equal(await page.locator('#chart-panel').isVisible(), true, 'the chart');
    await page.locator('#chart-thread').selectOption({label: 'server (pid 100, tid 101)'});
    check((await read(3, .0285)).startsWith('blend<'), await read(3, .0285));
    equal(await read(3, .5), '', 'where the thread has no samples');
  }),

  'the chart follows time, threads and what is left out': on('small', async page => {
    await page.keyboard.press('5');
    await page.locator('#from').fill('5');
    await page.locator('#to').fill('6');
    await page.locator('#to').press('Tab');
    check((await text(page, '#chart-note')).startsWith('5.00 s to 6.00 s'), await text(page, '#chart-note'));
    const box = await page.locator('#chart').boundingBox();
    const at = [box.x + box.width * .08, box.y + 3.5 * ROW];
    await page.mouse.click(...at, {button: 'right'});
    equal(await page.locator('#menu').getAttribute('aria-label'), 'memcpy', 'whose menu it is');
    await page.keyboard.press('h');
    const left = await page.locator('#chart').boundingBox();
    await page.mouse.move(left.x + left.width * .04, left.y + 3.5 * ROW);
    check((await text(page, '#tip')).startsWith('sha256_block'), await text(page, '#tip'));
    await page.mouse.move(left.x + left.width * .08, left.y + 3.5 * ROW);
    check(await page.locator('#tip').isHidden(), 'what is left out is there');
    await page.locator('#range-clear').click();
    await page.getByRole('button', {name: /^server \(pid 100\)/}).click();
    equal(await page.locator('#chart-thread option').allInnerTexts(), ['server (tid 100)', 'server (pid 100, tid 101)'], 'the threads');
  }),

  'runs that are merged say so': async () => {
    for (const [name, wanted] of [['runs', /merged: each [\d.]+ (µs|ms) has the stack with most samples/], ['stacks', /[\d,]+ runs narrower than a pixel merged: zoom in$/]]) {
      const page = await open(name);
      await page.keyboard.press('5');
      check(wanted.test(await text(page, '#chart-note')), await text(page, '#chart-note'));
      await close(page);
    }
    const page = await open('calls');
    check(await page.locator('#tab-chart').isHidden(), 'calls, which have no times, have a chart');
    await page.keyboard.press('5');
    equal(await page.locator('#tab-graph').getAttribute('aria-selected'), 'true', 'the graph');
    await close(page);
  },

  'the table sorts, filters and leads back to the graph': on('small', async page => {
    await page.keyboard.press('t');
    const first = () => page.locator('#rows tr td').first().innerText();
    equal(await first(), 'sha256_block', 'the heaviest');
    await page.getByRole('columnheader', {name: 'Total'}).getByRole('button').click();
    equal(await first(), 'main', 'the first by total');
    equal(await page.getByRole('columnheader', {name: 'Total'}).getAttribute('aria-sort'), 'descending', 'the order');
    await page.locator('#search').fill('libcrypto');
    equal(await page.locator('#rows tr').count(), 1, 'the number of rows');
    await page.locator('#rows button').first().click();
    check(await page.locator('#graph').isVisible(), 'the graph is hidden');
    equal(await text(page, '#matched'), '42.0 % matched by 1 function', 'what is matched');
  }),

  'the graph is drawn as soon as it is shown again': on('small', async page => {
    const [height, frames] = await page.evaluate(async () => {
      const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
      const graph = document.getElementById('graph');
      document.getElementById('tab-table').click();
      await drawn(); // the browser has told that the graph is hidden
      graph.dataset.frames = 0;
      document.getElementById('tab-graph').click();
      return [graph.getBoundingClientRect().height, Number(graph.dataset.frames)];
    });
    check(height > ROW, `it is ${height} pixels high`);
    check(frames > 1, `it has ${frames} frames`);
  }),

  'colours follow the system and the switch': on('small', async page => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    await page.locator('#theme').click();
    const light = await ground();
    check(dark !== light, 'the switch does nothing');
    // Pages hear of a change when they are drawn next.
    const drawn = () => page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
    await page.emulateMedia({colorScheme: 'light'});
    await drawn();
    await page.emulateMedia({colorScheme: 'dark'});
    await page.waitForFunction(color => getComputedStyle(document.body).backgroundColor === color, dark);
    equal(await page.locator('#theme').getAttribute('aria-pressed'), 'true', 'the switch');
  }, {scheme: 'dark'}),

  'a comparison tells what became more': on('compared', async page => {
    await expectFrame(page, 4, .2, 'sha256_block', 'Total 42.0 %', 'Before 24.0 % 240 samples', 'Change +18.0 points');
    await expectFrame(page, 4, .5, 'memcpy', 'Change −18.0 points');
    await expectFrame(page, 4, .7, 'read_token', 'Change ±0.0 points');
    const color = share => page.locator('#graph').evaluate((canvas, x) => {
      const [red, , blue] = canvas.getContext('2d').getImageData(canvas.width * x, canvas.height - 4 * 19 - 3, 1, 1).data;
      return red - blue;
    }, share);
    check(await color(.3) > 20, 'more is not red');
    check(await color(.58) < -20, 'less is not blue');
    await page.keyboard.press('t');
    await page.getByRole('columnheader', {name: 'Change'}).getByRole('button').click();
    equal(await page.locator('#rows tr td').first().innerText(), 'sha256_block', 'the first by change');
  }),

  'axe finds nothing wrong for those who cannot see or use a mouse': async () => {
    const axe = readFileSync(axePath, 'utf8');
    const look = async (name, scheme, keys) => {
      const page = await open(name, {scheme});
      for (const key of keys)
        await (key === 'menu' ? page.locator('#deeds').click() : page.keyboard.press(key));
      await page.evaluate(axe);
      const {violations} = await page.evaluate(() => window.axe.run());
      equal(violations.map(({id, nodes}) => `${id}: ${nodes.map(node => node.html).join(' ')}`).join('\n'), '', `${name} ${scheme} ${keys}`);
      await close(page);
    };
    for (const scheme of ['light', 'dark']) {
      await look('counters', scheme, []);
      for (const keys of [[], ['t'], ['3'], ['4'], ['4', 'menu'], ['4', 's', 'h'], ['5'], ['?']])
        await look('compared', scheme, keys);
    }
  },

  'everything is reached by Tab': on('small', async page => {
    const reached = new Set();
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      reached.add(await page.evaluate(() => document.activeElement.id));
    }
    for (const id of ['search', 'theme', 'help-open', 'from', 'to', 'fold', 'plot', 'tab-graph', 'flame', 'invert', 'deeds', 'graph'])
      check(reached.has(id), `#${id} is not reached`);
  }),

  'of 100,000 stacks only what can be seen is drawn': on('stacks', async page => {
    const n = Number(await page.locator('#graph').getAttribute('data-frames'));
    check(n > 1000 && n < 1200 * 31, `${n} frames are drawn`);
    check(await page.evaluate(() => document.querySelectorAll('*').length) < 1000, 'there are too many elements');
    await clickFrame(page, 9, .3);
    await page.keyboard.press('i');
    await page.keyboard.press('Escape');
    check(Number(await page.locator('#graph').getAttribute('data-frames')) < 1200 * 31, 'inverted, too many frames are drawn');
    equal((await text(page, '#summary')).includes('200,000 samples'), true, 'the number of samples');
  }),

  'a narrow window keeps everything in reach': on('small', async page => {
    await page.setViewportSize({width: 420, height: 700});
    // It lays itself out anew when it hears of it.
    await page.waitForFunction(() => innerWidth === 420 && document.documentElement.scrollWidth <= innerWidth);
    await expectFrame(page, 0, .5, 'all');
  }),

  'the outermost functions stay in sight when the window changes': on('stacks', async page => {
    await expectFrame(page, 0, .5, 'all');
    for (const height of [480, 900, 600]) {
      await page.setViewportSize({width: 420, height});
      // The window is told of its size when it is drawn next.
      const deadline = Date.now() + DEADLINE_MS;
      for (let share = .4, text = ''; !text.startsWith('all'); share = .9 - share) {
        text = await readFrame(page, 0, share);
        check(Date.now() < deadline, `at the height ${height} the outermost is ${text}`);
      }
    }
  }),

  'calls are drawn by their own time, with how long each took': on('self', async page => {
    check((await text(page, '#summary')).includes('100 µs · 1.00 s · own time of calls'), await text(page, '#summary'));
    check(await page.locator('#timeline').isHidden(), 'there is a time line');
    await expectFrame(page, 2, .9, 'main');
    const tip = await readFrame(page, 3, .1);
    check(tip.startsWith('parse_request') && tip.includes('Self 32.2 % 32.2 µs'), tip);
    check(/Each took █[ ▁]*▁ 128 ns to 2\.18 µs p50, p99 132 ns 2\.16 µs/.test(tip), tip);
  }),

  'calls are drawn by how many there were': on('calls', async page => {
    const tip = await readFrame(page, 3, .1);
    check(tip.includes('Total 99.0 % 100 calls'), tip);
    equal(await page.locator('#graph').getAttribute('aria-label'), 'Call tree of 101 calls', 'the label');
  }),

  'the still picture is SVG with the same shares and no script': async () => {
    const path = draw('small.svg', '--svg', small);
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`file://${path}`);
    const titles = await page.evaluate(() => [...document.querySelectorAll('g > title')].map(title => title.textContent));
    check(titles.includes('sha256_block (libcrypto.so.3), 420 samples, 42.00%'), titles.join('\n'));
    const ofCalls = readFileSync(draw('calls.svg', '--svg', '--unit', 'calls', capture('calls')), 'utf8');
    check(ofCalls.includes('parse_request (server), 100 calls, 99.01%'), ofCalls);
    equal(await page.evaluate(() => document.querySelectorAll('script, a, image, foreignObject').length), 0, 'the number of other things');
    await context.close();
  },
};

await main(cases);
await browser.close();
