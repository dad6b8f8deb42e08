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
  return { total: totals.none, names: document.shared.frames.map((frame) => frame.name) };
}

function checkPprof(bytes) {
  const { Profile } = require('pprof-format');
  const profile = Profile.decode(zlib.gunzipSync(bytes));
  const text = (index) => profile.stringTable.strings[Number(index)];
  const functions = new Map(profile.function.map((entry) => [Number(entry.id), text(entry.name)]));
  const locations = new Map(profile.location.map((entry) => [Number(entry.id), Number(entry.line[0].functionId)]));
  const mappings = new Set(profile.mapping.map((entry) => Number(entry.id)));
  for (const location of profile.location) {
    if (Number(location.mappingId) !== 0 && !mappings.has(Number(location.mappingId))) {
      throw new Error(`no mapping ${location.mappingId}`);
    }
  }
  const totals = profile.sampleType.map(() => 0);
  for (const sample of profile.sample) {
    for (const id of sample.locationId) {
      if (!functions.has(locations.get(Number(id)))) {
        throw new Error(`no function at location ${id}`);
      }
    }
    sample.value.forEach((value, index) => { totals[index] += Number(value); });
  }
  const types = profile.sampleType.map((type) => text(type.type));
  return { total: totals[types.indexOf('samples')], types, totals, names: [...functions.values()] };
}

const checks = { speedscope: checkSpeedscope, pprof: checkPprof };
console.log(JSON.stringify(checks[format](fs.readFileSync(file))));
