// SPDX-License-Identifier: LGPL-2.1-or-later
// Reads the bytes that client/flame/flame-data.h describes.

class Bytes {
  constructor(buffer) {
    this.view = new DataView(buffer);
    this.bytes = new Uint8Array(buffer);
    this.at = 0;
    this.utf8 = new TextDecoder();
  }

  // LEB128. Sums, not shifts: times have more than 32 bits.
  number() {
    let value = 0;
    for (let factor = 1;; factor *= 128) {
      const byte = this.bytes[this.at++];
      if (byte < 128)
        return value + byte * factor;
      value += (byte - 128) * factor;
    }
  }

  signed() {
    const value = this.number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }

  text() {
    const length = this.number();
    this.at += length;
    return this.utf8.decode(this.bytes.subarray(this.at - length, this.at));
  }

  double() {
    this.at += 8;
    return this.view.getFloat64(this.at - 8, true);
  }

  list(read) {
    return Array.from({length: this.number()}, read);
  }

  column(length, Kind = Uint32Array) {
    const column = new Kind(length);
    for (let i = 0; i < length; i++)
      column[i] = this.number();
    return column;
  }

  // Values that were stored as signed differences.
  runningColumn(length) {
    const column = new Uint32Array(length);
    for (let i = 0, value = 0; i < length; i++)
      column[i] = value += this.signed();
    return column;
  }
}

function readNodes(bytes, isCompared) {
  const length = bytes.number();
  const depth = bytes.runningColumn(length);
  const fn = bytes.column(length);
  return {length, depth, fn, otherSelf: isCompared ? bytes.column(length) : null};
}

// Samples of each thread along the time, for drawing.
function readLanes(bytes, threads) {
  const bucketNs = bytes.number();
  const length = bytes.number();
  for (const thread of threads) {
    thread.counts = new Float64Array(length);
    for (let n = bytes.number(), bucket = -1; n > 0; n--) {
      bucket += bytes.number();
      thread.counts[bucket] = bytes.number();
    }
    thread.total = thread.counts.reduce((sum, count) => sum + count, 0);
  }
  return {bucketNs, length};
}

// Samples of each stack along the time: series s has the points from start[s] to start[s + 1].
function readStacks(bytes) {
  const bucketNs = bytes.number();
  const nBuckets = bytes.number();
  const length = bytes.number();
  const thread = bytes.column(length);
  for (let i = 1; i < length; i++)
    thread[i] += thread[i - 1];
  const node = bytes.runningColumn(length);
  const start = new Uint32Array(length + 1);
  for (let i = 0; i < length; i++)
    start[i + 1] = start[i] + bytes.number();
  const bucket = bytes.column(start[length]);
  for (let i = 0; i < length; i++) {
    bucket[start[i]]--;
    for (let p = start[i] + 1; p < start[i + 1]; p++)
      bucket[p] += bucket[p - 1];
  }
  return {bucketNs, nBuckets, length, thread, node, start, bucket, count: bytes.column(start[length], Float64Array)};
}

function readCounter(bytes) {
  const counter = {category: bytes.text(), name: bytes.text(), description: bytes.text()};
  let bucket = -1;
  counter.points = bytes.list(() =>
    ({bucket: bucket += bytes.number(), offsetNs: bytes.number(), low: bytes.double(), high: bytes.double()}));
  return counter;
}

// By node: its calls by how long they took.
function readSpreads(bytes) {
  const spreads = new Map();
  for (let n = bytes.number(), node = -1; n > 0; n--) {
    node += bytes.number();
    let bucket = -1;
    spreads.set(node, bytes.list(() => ({bucket: bucket += bytes.number(), n: bytes.number()})));
  }
  return spreads;
}

// Stacks in the order of time: those of thread t are first[t] … first[t + 1] - 1.
function readRuns(bytes, nThreads) {
  const length = bytes.number();
  const tickNs = bytes.number();
  const isMerged = bytes.number() === 1;
  const first = new Uint32Array(nThreads + 1);
  for (let i = 0; length && i < nThreads; i++)
    first[i + 1] = first[i] + bytes.number();
  const start = bytes.column(length, Float64Array);
  const runs = {n: length, tickNs, isMerged, first, start, length: bytes.column(length, Float64Array), node: bytes.runningColumn(length)};
  for (let t = 0; t < nThreads; t++)
    for (let i = first[t], end = 0; i < first[t + 1]; i++) {
      start[i] += end;
      end = start[i] + runs.length[i];
    }
  return runs;
}

function readMark(bytes) {
  return {pid: bytes.signed(), group: bytes.text(), name: bytes.text(), message: bytes.text(),
    startNs: bytes.number(), durationNs: bytes.number()};
}

function readData(buffer) {
  const bytes = new Bytes(buffer);
  const format = bytes.number();
  if (format !== 3)
    throw new Error(`data of format ${format}`);

  const data = {};
  for (const name of ['title', 'subject', 'event', 'start', 'losses', 'otherTitle', 'unit'])
    data[name] = bytes.text();
  for (const name of ['durationNs', 'nSamples', 'nOther', 'threshold'])
    data[name] = bytes.number();
  data.isCompared = data.otherTitle !== '';
  data.functions = bytes.list(() =>
    ({kind: bytes.number(), name: bytes.text(), shown: bytes.text(), module: bytes.text(), source: bytes.text()}));
  for (const fn of data.functions)
    fn.shown = fn.shown || fn.name;
  data.nodes = readNodes(bytes, data.isCompared);
  data.processes = bytes.list(() => ({name: bytes.text(), pid: bytes.signed()}));
  data.threads = bytes.list(() => ({process: bytes.number(), tid: bytes.signed(), name: bytes.text()}));
  data.lanes = readLanes(bytes, data.threads);
  data.stacks = readStacks(bytes);
  data.counters = bytes.list(() => readCounter(bytes));
  const nMarks = bytes.number();
  data.nMarksLeftOut = bytes.number();
  data.marks = Array.from({length: nMarks}, () => readMark(bytes));
  data.spreads = readSpreads(bytes);
  data.runs = readRuns(bytes, data.threads.length);
  return data;
}

// The page's data element: base64 of gzip.
async function loadData(element) {
  const text = atob(element.textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++)
    packed[i] = text.charCodeAt(i);
  element.textContent = '';
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return readData(await new Response(stream).arrayBuffer());
}
