// SPDX-License-Identifier: LGPL-2.1-or-later
// How the rows of the time line are drawn: times, marks, counters, samples.

const AXIS_HEIGHT = 22;
const MARK_HEIGHT = 20;
const COUNTER_HEIGHT = 34;
const GROUP_HEIGHT = 22;
const MAX_LINES = 8; // of a group's tip
const LANE_HEIGHT = 28;
const THREAD_HEIGHT = 22;
const BAR_WIDTH = 3; // pixels

// A step of 1, 2 or 5 times a power of ten, such that about n fit.
function chooseStep(length, n) {
  const rough = length / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find(factor => factor * power >= rough);
}

class AxisTrack {
  constructor() {
    this.height = AXIS_HEIGHT;
  }

  draw(context, {y, width, durationNs, colors}) {
    const step = chooseStep(durationNs, Math.max(2, width / 110));
    context.fillStyle = colors.muted;
    context.strokeStyle = colors.line;
    context.textBaseline = 'middle';
    for (let time = 0; time <= durationNs; time += step) {
      const x = Math.round(time / durationNs * width) + .5;
      context.beginPath();
      context.moveTo(x, y + AXIS_HEIGHT - 5);
      context.lineTo(x, y + AXIS_HEIGHT);
      context.stroke();
      const label = time === 0 ? '0 s' : duration(Number(time.toPrecision(6)));
      if (x + 50 < width)
        context.fillText(label, x + 4, y + AXIS_HEIGHT / 2);
    }
  }
}

class MarkTrack {
  constructor(group, marks, isMember) {
    this.kind = 'mark';
    this.isMember = isMember;
    this.label = group || 'marks';
    this.figure = GROUPED.format(marks.length);
    this.marks = marks;
    this.height = MARK_HEIGHT;
  }

  draw(context, {y, width, durationNs, colors}) {
    let last = -1;
    context.fillStyle = colors.mark;
    for (const mark of this.marks) {
      const x = mark.startNs / durationNs * width;
      const end = Math.min(width, x + Math.max(mark.durationNs / durationNs * width, 2));
      if (end <= last + .5)
        continue;
      context.globalAlpha = .8;
      context.fillRect(x, y + 4, end - x - (end - x > 4 ? 1 : 0), MARK_HEIGHT - 8);
      last = end;
    }
    context.globalAlpha = 1;
  }

  drawThin(context, view) {
    this.draw(context, view);
  }

  describe(x, {width, durationNs}) {
    const slackNs = 3 / width * durationNs;
    const timeNs = x / width * durationNs;
    const near = this.marks.filter(mark =>
      mark.startNs - slackNs <= timeNs && mark.startNs + mark.durationNs + slackNs >= timeNs);
    if (!near.length)
      return null;
    const mark = near.reduce((shortest, other) => other.durationNs < shortest.durationNs ? other : shortest);
    const lines = [['At', duration(mark.startNs)]];
    if (mark.durationNs > 0)
      lines.push(['Lasts', duration(mark.durationNs)]);
    if (near.length > 1)
      lines.push(['Others here', String(near.length - 1)]);
    return {title: mark.name || this.label, place: mark.message, lines};
  }
}

class CounterTrack {
  constructor(counter, length, isMember) {
    this.kind = 'counter';
    this.label = counter.category && !isMember ? `${counter.category}: ${counter.name}` : counter.name;
    this.isMember = isMember;
    this.counter = counter;
    this.length = length;
    this.figure = `max ${counter.format(counter.high)}`;
    this.height = COUNTER_HEIGHT;
  }

  // A value holds until the next one.
  trace(context, {y, width}, height) {
    const {points, low, high} = this.counter;
    const room = height - 8;
    const at = point => point.bucket / this.length * width;
    context.beginPath();
    points.forEach((point, i) => {
      const top = y + 4 + room - (point.high - low) / (high - low || 1) * room;
      if (i === 0)
        context.moveTo(at(point), top);
      context.lineTo(at(point), top);
      context.lineTo(i + 1 < points.length ? at(points[i + 1]) : width, top);
    });
  }

  draw(context, view) {
    const bottom = view.y + COUNTER_HEIGHT - 4;
    this.trace(context, view, COUNTER_HEIGHT);
    context.strokeStyle = view.colors.counter;
    context.stroke();
    context.lineTo(view.width, bottom);
    context.lineTo(this.counter.points[0].bucket / this.length * view.width, bottom);
    context.closePath();
    context.globalAlpha = .22;
    context.fillStyle = view.colors.counter;
    context.fill();
    context.globalAlpha = 1;
  }

  // Among others, of which each has its own scale.
  drawThin(context, view, height) {
    this.trace(context, view, height);
    context.strokeStyle = view.colors.counter;
    context.globalAlpha = .6;
    context.stroke();
    context.globalAlpha = 1;
  }

  valueAt(x, width) {
    const {counter} = this;
    const point = counter.points.findLast(candidate => candidate.bucket <= x / width * this.length);
    if (!point)
      return '';
    return point.low === point.high ? counter.format(point.high) : `${counter.format(point.low)} to ${counter.format(point.high)}`;
  }

  describe(x, {width}) {
    const value = this.valueAt(x, width);
    const {counter} = this;
    return value && {title: this.label, place: counter.description,
      lines: [[counter.isSum ? 'Grows by' : 'Value', value], ['Highest', counter.format(counter.high)]]};
  }
}

// Rows that are one until they are asked for.
class GroupTrack {
  constructor(key, label, members) {
    this.kind = 'group';
    this.key = key;
    this.label = label;
    this.members = members;
    this.figure = GROUPED.format(members.length);
    this.height = GROUP_HEIGHT;
  }

  draw(context, view) {
    for (const member of this.members)
      member.drawThin(context, view, this.height);
  }

  describe(x, view) {
    const [first] = this.members;
    if (!first.valueAt) {
      const found = this.members.map(member => member.describe(x, view)).filter(Boolean);
      return found[0] || null;
    }
    const lines = this.members.slice(0, MAX_LINES).map(member => [member.label, member.valueAt(x, view.width)]);
    const place = this.members.length > MAX_LINES ? `${this.members.length - MAX_LINES} more` : '';
    return {title: this.label, place, lines};
  }
}

class LaneTrack {
  // threads: those that it sums up; scale: {high}, shared by the lanes that are to be compared
  constructor({kind, label, threads, whole, scale}) {
    Object.assign(this, {kind, label, threads, scale});
    this.counts = threads[0].counts.slice();
    for (const thread of threads.slice(1))
      thread.counts.forEach((n, i) => { this.counts[i] += n; });
    this.total = threads.reduce((sum, thread) => sum + thread.total, 0);
    this.figure = percent(this.total, whole);
    this.height = kind === 'thread' ? THREAD_HEIGHT : LANE_HEIGHT;
  }

  // Few samples make few bars, so that chance does not look like a pattern.
  bars(width, nSamples) {
    const n = Math.max(1, Math.floor(Math.min(width / BAR_WIDTH, Math.max(60, nSamples / 4), this.counts.length)));
    const bars = new Float64Array(n);
    this.counts.forEach((samples, i) => {
      const from = i / this.counts.length * n;
      const to = (i + 1) / this.counts.length * n;
      const first = Math.floor(from);
      const share = first + 1 >= to ? 1 : (first + 1 - from) / (to - from);
      bars[first] += samples * share;
      if (share < 1)
        bars[first + 1] += samples * (1 - share);
    });
    return bars;
  }

  draw(context, {y, width, nSamples, colors}) {
    const bars = this.bars(width, nSamples);
    const room = this.height - 6;
    this.scale.high = Math.max(this.scale.high || 0, ...bars);
    context.beginPath();
    context.moveTo(0, y + this.height - 2);
    bars.forEach((value, i) => {
      const top = y + this.height - 2 - (value > 0 ? Math.max(1, value / this.scale.high * room) : 0);
      context.lineTo(i / bars.length * width, top);
      context.lineTo((i + 1) / bars.length * width, top);
    });
    context.lineTo(width, y + this.height - 2);
    context.globalAlpha = this.isIdle ? .3 : 1;
    context.fillStyle = colors.lane;
    context.fill();
    context.globalAlpha = 1;
  }

  describe(x, {width, durationNs, nSamples}) {
    const bars = this.bars(width, nSamples);
    const i = Math.min(bars.length - 1, Math.floor(x / width * bars.length));
    const lines = [[`${duration(i / bars.length * durationNs)}, for ${duration(durationNs / bars.length)}`,
      count(Math.round(bars[i]))]];
    return {title: this.label, place: '', lines};
  }
}
