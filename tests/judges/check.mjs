// SPDX-License-Identifier: LGPL-2.1-or-later
// Reads an export with what others wrote: check.mjs FORMAT FILE; prints what it found as JSON.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import zlib from 'node:zlib';

// Where the packages are is the caller's business.
const require = createRequire(path.join(process.cwd(), 'package.json'));
const [format, file] = process.argv.slice(2);

function checkSpeedscope(bytes) {
  const Ajv = require('ajv');
  const folder = path.dirname(require.resolve('speedscope/package.json'));
  const schema = JSON.parse(fs.readFileSync(path.join(folder, 'dist/release/file-format-schema.json')));
  const validate = new Ajv({ strict: false }).compile(schema);
  const document = JSON.parse(bytes);
  if (!validate(document)) {
    throw new Error(JSON.stringify(validate.errors));
  }
  const nFrames = document.shared.frames.length;
  const totals = {};
  for (const profile of document.profiles) {
    for (const stack of profile.samples) {
      if (stack.some((frame) => frame >= nFrames)) {
        throw new Error(`no such frame: ${stack}`);
      }
    }
    totals[profile.unit] = profile.weights.reduce((sum, weight) => sum + weight, totals[profile.unit] ?? 0);
  }
  return { total: totals.none ?? totals.nanoseconds / 1e6, names: document.shared.frames.map((frame) => frame.name) };
}

function checkPprof(bytes) {
  const { Profile } = require('pprof-format');
  const profile = Profile.decode(zlib.gunzipSync(bytes));
  const text = (index) => profile.stringTable.strings[Number(index)];
  const functions = new Map(profile.function.map((entry) => [Number(entry.id), text(entry.name)]));
  const files = new Map(profile.function.map((entry) => [Number(entry.id), text(entry.filename)]));
  const locations = new Map(profile.location.map((entry) => [Number(entry.id), entry]));
  const mappings = new Map(profile.mapping.map((entry) => [Number(entry.id), entry]));
  const places = { inlined: 0, lined: 0 };
  for (const location of profile.location) {
    const mapping = mappings.get(Number(location.mappingId));
    if (Number(location.mappingId) !== 0 && !mapping) {
      throw new Error(`no mapping ${location.mappingId}`);
    }
    if (mapping && Number(mapping.memoryLimit) > 0
        && !(location.address >= mapping.memoryStart && location.address < mapping.memoryLimit)) {
      throw new Error(`location ${location.id} is outside of its mapping`);
    }
    places.inlined += location.line.length > 1;
    places.lined += location.line.some((line) => Number(line.line) > 0 && files.get(Number(line.functionId)) !== '');
  }
  const totals = profile.sampleType.map(() => 0);
  for (const sample of profile.sample) {
    for (const id of sample.locationId) {
      if (!locations.get(Number(id))?.line.every((line) => functions.has(Number(line.functionId)))) {
        throw new Error(`no function at location ${id}`);
      }
    }
    sample.value.forEach((value, index) => { totals[index] += Number(value); });
  }
  const types = profile.sampleType.map((type) => text(type.type));
  const main = profile.mapping[0];
  return {
    total: totals[types.indexOf('samples')], types, totals, names: [...functions.values()], places,
    main: main && { file: text(main.filename), buildId: text(main.buildId) },
  };
}

// The rules of src/types/profile.ts at version 61: columns are as long as their table says, and indexes lie within the
// tables that they are of.
function checkTable(name, table, { nullable = [], ranges = {} } = {}) {
  for (const [column, values] of Object.entries(table)) {
    if (column === 'length' || column === 'weightType' || values === null) {
      continue;
    }
    if (values.length !== table.length) {
      throw new Error(`${name}.${column} has ${values.length} values, not ${table.length}`);
    }
    values.forEach((value, row) => {
      if (value === null && !nullable.includes(column)) {
        throw new Error(`${name}.${column}[${row}] is null`);
      }
      if (value !== null && column in ranges && !(value >= -1 && value < ranges[column])) {
        throw new Error(`${name}.${column}[${row}] is ${value}`);
      }
    });
  }
}

function checkFirefox(bytes) {
  const profile = JSON.parse(bytes);
  if (profile.meta.preprocessedProfileVersion !== 61 || !profile.meta.categories.some(({ color }) => color === 'grey')) {
    throw new Error('meta');
  }
  const { stringArray, stackTable, frameTable, funcTable, resourceTable, nativeSymbols, sources } = profile.shared;
  const categories = profile.meta.categories.length;
  const strings = stringArray.length;
  checkTable('stackTable', stackTable, { nullable: ['prefix'], ranges: { frame: frameTable.length } });
  checkTable('frameTable', frameTable, {
    nullable: ['nativeSymbol', 'line', 'column'],
    ranges: { func: funcTable.length, category: categories, nativeSymbol: nativeSymbols.length } });
  checkTable('funcTable', funcTable, {
    nullable: ['source', 'lineNumber', 'columnNumber'],
    ranges: { name: strings, resource: resourceTable.length, source: sources.length } });
  checkTable('resourceTable', resourceTable, { nullable: ['host', 'lib'], ranges: { lib: profile.libs.length, name: strings } });
  checkTable('nativeSymbols', nativeSymbols, { ranges: { libIndex: profile.libs.length, name: strings } });
  checkTable('sources', sources, { nullable: ['id', 'sourceMapURL'], ranges: { filename: strings } });
  stackTable.prefix.forEach((prefix, row) => {
    if (prefix !== null && prefix >= row) {
      throw new Error(`stack ${row} comes before its prefix ${prefix}`);
    }
  });
  frameTable.nativeSymbol.forEach((symbol, row) => {
    const from = symbol === null ? 0 : frameTable.address[row] - nativeSymbols.address[symbol];
    if (from < 0 || (symbol !== null && from >= nativeSymbols.functionSize[symbol])) {
      throw new Error(`frame ${row} is outside of its symbol`);
    }
  });
  const found = { total: 0, cpuMs: 0, markers: 0, retained: 0 };
  for (const thread of profile.threads) {
    checkTable('samples', thread.samples, { nullable: ['stack'], ranges: { stack: stackTable.length } });
    checkTable('markers', thread.markers, { nullable: ['endTime'], ranges: { name: strings, phase: 4, category: categories } });
    thread.samples.time.forEach((time, row) => {
      if (row > 0 && time < thread.samples.time[row - 1]) {
        throw new Error(`sample ${row} goes back in time`);
      }
    });
    if (typeof thread.pid !== 'string') {
      throw new Error('a pid is a string since version 47');
    }
    if (thread.nativeAllocations) {
      checkTable('nativeAllocations', thread.nativeAllocations, { nullable: ['stack'], ranges: { stack: stackTable.length } });
      found.retained += thread.nativeAllocations.weight.reduce((sum, bytes) => sum + bytes, 0);
    }
    found.total += thread.samples.length;
    found.markers += thread.markers.length;
    found.cpuMs += (thread.samples.threadCPUDelta ?? []).reduce((sum, delta) => sum + delta, 0) / 1e6;
  }
  for (const counter of profile.counters) {
    checkTable('counter', counter.samples);
    if (!(counter.mainThreadIndex < profile.threads.length)) {
      throw new Error('a counter of no thread');
    }
  }
  return {
    ...found, meta: profile.meta, libs: profile.libs, names: [...new Set(funcTable.name.map((name) => stringArray[name]))],
    addresses: frameTable.address.filter((address) => address >= 0).length,
    lines: frameTable.line.filter((line) => line > 0).length, inlined: frameTable.inlineDepth.filter((depth) => depth > 0).length,
    files: sources.filename.map((name) => stringArray[name]), symbols: nativeSymbols.length,
    counters: profile.counters.map(({ category, name }) => `${category}/${name}`),
    threads: profile.threads.map(({ name, processName, pid }) => ({ name, processName, pid })),
  };
}

// What Chrome's developer tools make of it: the slices of each thread, as entries that nest.
async function checkChrome(bytes) {
  const { TraceModel } = await import(path.join(process.cwd(), 'node_modules/@paulirish/trace_engine/models/trace/trace.js'));
  const model = TraceModel.Model.createWithAllHandlers();
  await model.parse(JSON.parse(bytes).traceEvents);
  const { data } = model.parsedTrace();
  const threads = [...data.Renderer.processes.values()].flatMap((process) => [...process.threads.values()]);
  const entries = threads.flatMap((thread) => thread.entries);
  return { slices: entries.length, names: [...new Set(entries.map((entry) => entry.name))] };
}

// As Chrome's developer tools open a profile of time; the types of V8's inspector say what a node has.
async function checkCpuprofile(bytes) {
  const { CPUProfileDataModel } = await import(path.join(process.cwd(), 'node_modules/@paulirish/trace_engine/models/cpu_profile/cpu_profile.js'));
  const profile = JSON.parse(bytes);
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const children = profile.nodes.flatMap((node) => node.children);
  if (nodes.size !== profile.nodes.length || children.length !== nodes.size - 1 || new Set(children).size !== children.length
      || !children.every((id) => nodes.has(id)) || !profile.samples.every((id) => nodes.has(id))) {
    throw new Error('nodes are no tree, or samples have no node');
  }
  if (profile.samples.length !== profile.timeDeltas.length || !profile.timeDeltas.every((delta) => delta >= 0)) {
    throw new Error('a sample goes back in time');
  }
  for (const { id, hitCount, positionTicks } of nodes.values()) {
    if (positionTicks.reduce((sum, { ticks }) => sum + ticks, 0) > hitCount) {
      throw new Error(`node ${id} has more samples at lines than at all`);
    }
  }
  const model = new CPUProfileDataModel.CPUProfileDataModel(profile);
  let calls = 0;
  model.forEachFrame(() => { calls++; }, () => {});
  return {
    total: model.totalHitCount, calls, ms: model.profileEndTime - model.profileStartTime,
    idle: profile.samples.filter((id) => id === model.idleNode.id).length,
    lines: profile.nodes.reduce((sum, { positionTicks }) => sum + positionTicks.length, 0),
    files: [...new Set(profile.nodes.map(({ callFrame }) => callFrame.url))],
    names: [...new Set(profile.nodes.map(({ callFrame }) => callFrame.functionName))],
  };
}

// Its types are HeapProfiler.SamplingHeapProfile's; Visual Studio Code and the developer tools walk head alone.
function checkHeapprofile(bytes) {
  const profile = JSON.parse(bytes);
  const sizes = new Map();
  const names = new Set();
  const left = [profile.head];
  while (left.length > 0) {
    const node = left.pop();
    if (sizes.has(node.id) || !Number.isInteger(node.selfSize) || !Number.isInteger(node.callFrame.lineNumber)) {
      throw new Error(`node ${node.id}`);
    }
    sizes.set(node.id, node.selfSize);
    names.add(node.callFrame.functionName);
    left.push(...node.children);
  }
  profile.samples.forEach(({ size, nodeId, ordinal }, index) => {
    if (sizes.get(nodeId) !== size || ordinal !== index + 1) {
      throw new Error(`sample ${index}`);
    }
  });
  return { total: [...sizes.values()].reduce((sum, size) => sum + size, 0), nodes: sizes.size, names: [...names] };
}

const checks = {
  cpuprofile: checkCpuprofile, heapprofile: checkHeapprofile,
  chrome: checkChrome, firefox: checkFirefox, speedscope: checkSpeedscope, pprof: checkPprof,
};
console.log(JSON.stringify(await checks[format](fs.readFileSync(file))));
