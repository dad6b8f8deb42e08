// SPDX-License-Identifier: LGPL-2.1-or-later
// What the values of a counter mean: their unit, and whether they are a sum whose growth is what tells.

const SIZES = ['KiB', 'MiB', 'GiB', 'TiB'];

function size(bytes) {
  let value = bytes;
  let unit = 'B';
  for (let i = 0; i < SIZES.length && Math.abs(value) >= 1023.95; i++) {
    value /= 1024;
    unit = SIZES[i];
  }
  return `${unit === 'B' ? figure(value) : value.toFixed(1)} ${unit}`;
}

class Counter {
  // points: of {bucket, offsetNs, low, high}; each bucket has bucketNs
  constructor({category, name, description, points}, bucketNs) {
    const text = `${name} ${description}`;
    this.category = category;
    this.name = name;
    this.description = description;
    this.isBytes = /\bbytes?\b/i.test(text);
    this.suffix = /%|\bpercent\b/i.test(text) ? ' %' : /\b(a|per) second\b/i.test(text) ? ' /s' : '';
    // Only what says so is one: memory may grow all the time, too.
    this.isSum = /\b(since|so far|received|sent|read|written)\b/i.test(text) && points.length > 1
      && points.every(({low}, i) => i === 0 || low >= points[i - 1].high);
    this.points = this.isSum ? this.rates(points, bucketNs) : points;
    this.high = Math.max(...this.points.map(point => point.high));
    this.low = Math.min(0, ...this.points.map(point => point.low));
  }

  // By second, from each value to the next.
  rates(points, bucketNs) {
    return points.slice(1).map((point, i) => {
      const before = points[i];
      const ns = (point.bucket - before.bucket) * bucketNs + point.offsetNs - before.offsetNs;
      const rate = (point.high - before.high) / ns * 1e9;
      return {bucket: before.bucket, low: rate, high: rate};
    });
  }

  format(value) {
    return `${this.isBytes ? size(value) : figure(value) + this.suffix}${this.isSum ? '/s' : ''}`;
  }
}
