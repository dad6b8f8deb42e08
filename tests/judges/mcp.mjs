// SPDX-License-Identifier: LGPL-2.1-or-later
// Finds what a program wastes by the tools of a server, of which it knows nothing but what the server says:
// mcp.mjs SONDECTL PROGRAM; prints JSON. The SDK checks each answer by the schema that came with the tool.
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

// Where the packages are is the caller's business.
const require = createRequire(path.join(process.cwd(), 'package.json'));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');

const MAX_BYTES = 8192;
const [sondectl, program] = process.argv.slice(2);
const client = new Client({ name: 'judge', version: '1' });
const transport = new StdioClientTransport({ command: sondectl, args: ['mcp'], env: process.env, stderr: 'inherit' });
await client.connect(transport);
const { tools } = await client.listTools();
const result = { server: client.getServerVersion(), instructions: client.getInstructions().length, tools: tools.map((tool) => tool.name) };

// A tool by what it says it does.
function find(word, argument) {
  const found = tools.find((tool) => tool.description.match(word) && argument in tool.inputSchema.properties);
  if (!found) {
    throw new Error(`no tool says ${word}`);
  }
  return found;
}

let nCalls = 0;
let nProgress = 0;
async function call(tool, args) {
  nCalls++;
  const answer = await client.callTool({ name: tool.name, arguments: args }, undefined,
    { onprogress: () => { nProgress++; }, timeout: 200000, resetTimeoutOnProgress: true });
  const [{ text }] = answer.content;
  if (answer.isError) {
    throw new Error(`${tool.name}: ${text}`);
  }
  if (Buffer.byteLength(text) > MAX_BYTES || JSON.stringify(JSON.parse(text)) !== JSON.stringify(answer.structuredContent)) {
    throw new Error(`${tool.name}: ${text.length} bytes, or not its structure`);
  }
  return answer.structuredContent;
}

async function count(search) {
  nCalls = 0;
  return { ...await search(), calls: nCalls };
}

const record = find(/runs a command/i, 'command');
const [, kind] = record.inputSchema.properties.what.description.match(/(\w+): each allocation/);

result.time = await count(async () => {
  const { capture, rows: [hottest] } = await call(record, { command: [program, 'time'], seconds: 3 });
  const { rows: [line] } = await call(find(/source lines/i, 'function'), { capture, function: hottest.name });
  return { function: line.name, source: line.source, percent: hottest['self-percent'] };
});

result.memory = await count(async () => {
  const { capture } = await call(record, { command: [program, 'memory'], what: kind });
  const { rows: [leak] } = await call(find(/never freed/i, 'view'), { capture, view: 'leaks' });
  return { function: leak.name, source: leak.source, bytes: leak.bytes, blocks: leak.blocks };
});

result.threads = await count(async () => {
  const { capture } = await call(record, { command: [program, 'threads'], seconds: 4 });
  const { locks, rows } = await call(find(/locks/i, 'capture'), { capture });
  return { function: locks[0]?.name, lock: locks[0]?.lock, threads: rows.length };
});

// More rows than one answer has: each once, in the order of their weight.
const { capture } = await call(record, { command: ['/usr/bin/python3', '-c', 'import json, re, email, http.client'], what: kind });
const heap = find(/never freed/i, 'view');
const rows = [];
let next;
result.pages = 0;
do {
  const answer = await call(heap, { capture, view: 'allocated', 'percent-limit': 0, ...(next && { cursor: next }) });
  rows.push(...answer.rows);
  next = answer.next;
  result.pages++;
  result.total = answer['total-rows'];
} while (next);
result.rows = rows.length;
result.different = new Set(rows.map(({ name, module, source }) => `${name}\n${module}\n${source}`)).size;
result.sorted = rows.every(({ bytes }, i) => i === 0 || bytes <= rows[i - 1].bytes);

const refused = await client.callTool({ name: heap.name, arguments: { capture: 'c99' } });
result.refused = refused.isError === true && refused.content[0].text;
result.progress = nProgress;
await client.close();
console.log(JSON.stringify(result));
