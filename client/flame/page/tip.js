// SPDX-License-Identifier: LGPL-2.1-or-later
// Numbers as people read them, and the box beside the pointer.

const GROUPED = new Intl.NumberFormat('en');

function count(n, singular = 'sample') {
  return `${GROUPED.format(n)} ${singular}${n === 1 ? '' : 's'}`;
}

// A weight of a capture's unit: samples, calls, or ns.
function weigh(n, unit) {
  return unit === 'ns' ? duration(n) : count(n, unit);
}

function percent(part, whole) {
  const value = whole > 0 ? part / whole * 100 : 0;
  return `${value.toFixed(value > 0 && value < .095 ? 2 : 1)} %`;
}

// The difference of two shares, in points.
function points(part, whole, otherPart, otherWhole) {
  const value = (whole > 0 ? part / whole : 0) * 100 - (otherWhole > 0 ? otherPart / otherWhole : 0) * 100;
  return `${value > 0 ? '+' : value < 0 ? '−' : '±'}${Math.abs(value).toFixed(1)}`;
}

function duration(ns) {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]])
    if (ns >= size)
      return `${(ns / size).toFixed(ns >= 100 * size ? 0 : ns >= 10 * size ? 1 : 2)} ${unit}`;
  return `${ns} ns`;
}

function figure(value) {
  const size = Math.abs(value);
  if (size >= 1e4)
    return new Intl.NumberFormat('en', {notation: 'compact', maximumFractionDigits: 1}).format(value);
  return GROUPED.format(Number(value.toPrecision(4)));
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className)
    element.className = className;
  if (text !== undefined)
    element.textContent = text;
  return element;
}

// Of calls by how long they took, bucket by bucket: the first of protocol/calls.h are one ns wide, the others a
// sixteenth of an octave.
function bucketBegin(bucket) {
  const octave = Math.floor(bucket / 16);
  return octave <= 1 ? bucket : (16 + bucket % 16) * 2 ** (octave - 1);
}

// What a part of them took at most.
function quantile(spread, part) {
  let left = part * spread.reduce((sum, {n}) => sum + n, 0);
  for (const {bucket, n} of spread) {
    if (n >= left)
      return bucketBegin(bucket) + (bucketBegin(bucket + 1) - bucketBegin(bucket)) * left / n;
    left -= n;
  }
  return bucketBegin(spread[spread.length - 1].bucket + 1);
}

// A letter for each quarter of an octave, or where there are many for each octave, as high as it has calls.
function histogram(spread) {
  const first = spread[0].bucket;
  const last = spread[spread.length - 1].bucket;
  const step = last - first < 96 ? 4 : 16;
  const from = Math.floor(first / step);
  const bars = new Array(Math.floor(last / step) - from + 1).fill(0);
  for (const {bucket, n} of spread)
    bars[Math.floor(bucket / step) - from] += n;
  const most = Math.max(...bars);
  return bars.map(n => n ? '▁▂▃▄▅▆▇█'[Math.min(7, Math.floor(n / most * 8))] : ' ').join('');
}

class Tip {
  constructor(element) {
    this.element = element;
  }

  // lines: of [label, value…]
  show(x, y, {title, place, lines}) {
    const rows = lines.map(([label, ...values]) => {
      const row = make('tr');
      row.append(make('th', '', label), ...values.map(value => make('td', 'number', value)));
      return row;
    });
    const table = make('table');
    table.append(...rows);
    this.element.replaceChildren(make('b', '', title));
    if (place)
      this.element.append(make('div', 'place', place));
    this.element.append(table);
    this.element.hidden = false;
    const {width, height} = this.element.getBoundingClientRect();
    const left = x + 14 + width > innerWidth - 8 ? x - 14 - width : x + 14;
    const top = y + 18 + height > innerHeight - 8 ? y - 12 - height : y + 18;
    this.element.style.left = `${Math.max(8, left)}px`;
    this.element.style.top = `${Math.max(8, top)}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}
