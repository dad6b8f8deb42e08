// SPDX-License-Identifier: LGPL-2.1-or-later
// The time line: rows of labels, one canvas beside them, and the range and threads that are chosen.

const MAX_LANES = 100; // processes, and threads of one of them: the heaviest; counters of a group, and groups
const MAX_MARKS = 2;   // groups of marks that are shown each

class Timeline {
  // on: {select (isGradual)}, after which range and threads say what is chosen
  constructor(data, colors, tip, on) {
    this.data = data;
    this.colors = colors;
    this.tip = tip;
    this.on = on;
    this.range = null;   // {from, to} in buckets of the stacks
    this.threads = null; // Set of numbers
    this.chosen = null;  // the label's key of these
    this.opened = new Set();
    this.lanes = document.getElementById('lanes');
    this.labels = document.getElementById('labels');
    this.canvas = document.getElementById('plot');
    this.context = this.canvas.getContext('2d');
    data.threads.forEach((thread, number) => { thread.number = number; });
    this.marks = Map.groupBy(data.marks, mark => mark.group);
    this.counters = Map.groupBy(data.counters.map(counter => new Counter(counter, data.lanes.bucketNs)), ({category}) => category);
    this.build();
    this.listen();
  }

  makeTracks() {
    const marks = [...this.marks.keys()];
    const counters = [...this.counters].slice(0, MAX_LANES);
    const tracks = [new AxisTrack()];
    if (marks.length > MAX_MARKS)
      tracks.push(...this.makeGroup('m', 'Marks', marks, (group, isMember) => new MarkTrack(group, this.marks.get(group), isMember)));
    else
      tracks.push(...marks.map(group => new MarkTrack(group, this.marks.get(group), false)));
    for (const [category, members] of counters) {
      const makeTrack = (counter, isMember) => new CounterTrack(counter, this.data.lanes.length, isMember);
      if (members.length > 1)
        tracks.push(...this.makeGroup(`c${category}`, category || 'Counters', members, makeTrack));
      else
        tracks.push(makeTrack(members[0], false));
    }
    return tracks.concat(this.makeLanes());
  }

  // One row, and below it, where it is open, one for each.
  makeGroup(key, label, list, makeTrack) {
    const members = list.slice(0, MAX_LANES).map(each => makeTrack(each, true));
    const group = new GroupTrack(key, list.length > members.length ? `${label} (the first ${MAX_LANES})` : label, members);
    return this.opened.has(key) ? [group, ...members] : [group];
  }

  makeLanes() {
    const {threads, processes, nSamples} = this.data;
    const byProcess = Map.groupBy(threads, thread => thread.process);
    const scale = {};
    const lanes = [];
    const add = (key, kind, label, members) => {
      const lane = new LaneTrack({kind, label, threads: members, whole: nSamples, scale});
      lane.key = key;
      lane.isIdle = this.chosen && !members.some(thread => this.threads.has(thread.number));
      lanes.push(lane);
      return lane;
    };
    const heaviest = list => list.sort((a, b) => b.total - a.total).slice(0, MAX_LANES);
    const ranked = heaviest([...byProcess].map(([process, members]) =>
      ({process, members, total: members.reduce((sum, thread) => sum + thread.total, 0)})));
    for (const {process, members} of ranked) {
      const {name, pid} = processes[process];
      const lane = add(`p${process}`, 'process', pid < 0 ? name : `${name} (pid ${pid})`, members);
      lane.canOpen = members.length > 1;
      if (this.opened.has(lane.key))
        for (const thread of heaviest([...members]))
          add(`t${thread.number}`, 'thread', thread.name ? `${thread.name} (tid ${thread.tid})` : `thread ${thread.tid}`, [thread]);
    }
    this.nHidden = byProcess.size - ranked.length;
    return lanes;
  }

  build() {
    this.tracks = this.makeTracks();
    this.labels.replaceChildren(...this.tracks.map(track => this.makeLabel(track)));
    if (this.nHidden)
      this.labels.append(make('div', 'note', `${this.nHidden} lighter processes are not shown`));
    if (this.counters.size > MAX_LANES)
      this.labels.append(make('div', 'note', `${this.counters.size - MAX_LANES} more groups of counters are not shown`));
    this.draw();
  }

  makeLabel(track) {
    const label = make('div', track.kind || 'axis');
    label.style.height = `${track.height}px`;
    if (track instanceof LaneTrack)
      this.fillLane(label, track);
    else if (track instanceof GroupTrack)
      label.append(this.makeGroupButton(track));
    else if (track.label)
      label.append(make('span', '', track.label), make('span', 'figure', track.figure));
    label.classList.toggle('member', Boolean(track.isMember));
    label.title = track.label || '';
    return label;
  }

  makeGroupButton({key, label, figure: text}) {
    const isOpen = this.opened.has(key);
    const button = make('button', 'twist');
    const sign = make('i', '', isOpen ? '▼' : '▶');
    sign.setAttribute('aria-hidden', 'true');
    button.type = 'button';
    button.setAttribute('aria-expanded', String(isOpen));
    button.append(sign, make('span', '', label), make('span', 'figure', text));
    button.addEventListener('click', () => this.toggle(key));
    return button;
  }

  fillLane(label, track) {
    label.classList.add('lane');
    if (track.kind === 'process') {
      const twist = make('button', 'twist', track.canOpen ? this.opened.has(track.key) ? '▼' : '▶' : '');
      twist.type = 'button';
      twist.disabled = !track.canOpen;
      twist.setAttribute('aria-label', `Threads of ${track.label}`);
      twist.setAttribute('aria-expanded', String(this.opened.has(track.key)));
      twist.addEventListener('click', () => this.toggle(track.key));
      label.append(twist);
    }
    const name = make('button', 'name');
    name.type = 'button';
    name.setAttribute('aria-pressed', String(this.chosen === track.key));
    name.append(make('span', '', track.label), make('span', 'figure', track.figure));
    name.addEventListener('click', () => this.choose(this.chosen === track.key ? null : track));
    label.append(name);
  }

  toggle(key) {
    if (!this.opened.delete(key))
      this.opened.add(key);
    this.rebuildAt(key, '.twist');
  }

  // Labels are made anew; the focus stays where it was.
  rebuildAt(key, selector) {
    const had = this.labels.contains(document.activeElement);
    this.build();
    const i = this.tracks.findIndex(track => track.key === key);
    if (had && i >= 0)
      this.labels.children[i].querySelector(selector).focus();
  }

  choose(track) {
    const key = track ? track.key : this.chosen;
    this.adopt(track);
    this.rebuildAt(key, '.name');
    this.on.select();
  }

  adopt(track) {
    this.chosen = track ? track.key : null;
    this.chosenLabel = track ? track.label : '';
    this.threads = track ? new Set(track.threads.map(thread => thread.number)) : null;
  }

  // Range in ns; it is rounded to what can be told apart.
  setRange(fromNs, toNs, isGradual = false) {
    this.range = this.roundRange(fromNs, toNs);
    this.draw();
    this.on.select(isGradual);
  }

  roundRange(fromNs, toNs) {
    const {bucketNs, nBuckets} = this.data.stacks;
    const from = Math.max(0, Math.min(nBuckets - 1, Math.round(fromNs / bucketNs)));
    const to = Math.max(from + 1, Math.min(nBuckets, Math.round(toNs / bucketNs)));
    return from === 0 && to === nBuckets ? null : {from, to};
  }

  // What an address says: a range in ns, or null, and the key of a lane. Nobody is told.
  restore(rangeNs, lane) {
    const thread = /^t\d+$/.test(lane) && this.data.threads[lane.slice(1)];
    if (thread)
      this.opened.add(`p${thread.process}`);
    this.chosen = null;
    const track = this.makeTracks().find(({key}) => key && key === lane);
    this.range = rangeNs && this.roundRange(...rangeNs);
    this.adopt(track);
    this.build();
  }

  clearRange() {
    this.range = null;
    this.draw();
    this.on.select();
  }

  rangeNs() {
    const {bucketNs} = this.data.stacks;
    const {durationNs} = this.data;
    return this.range
      ? [Math.min(this.range.from * bucketNs, durationNs), Math.min(this.range.to * bucketNs, durationNs)]
      : [0, durationNs];
  }

  view() {
    const {durationNs, nSamples} = this.data;
    return {width: this.width, durationNs: Math.max(durationNs, 1), nSamples, colors: this.colors};
  }

  draw() {
    const height = this.tracks.reduce((sum, track) => sum + track.height, 4);
    const shown = Math.min(height, this.lanes.clientHeight || height);
    const ratio = devicePixelRatio || 1;
    const context = this.context;
    const offset = this.lanes.scrollTop;
    this.width = Math.max(1, this.lanes.clientWidth - this.labels.offsetWidth);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(shown * ratio);
    this.canvas.style.height = `${shown}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT.replace('12px', '11px');
    context.lineWidth = 1;
    let y = -offset;
    for (const track of this.tracks) {
      if (y + track.height > 0 && y < shown) {
        context.fillStyle = this.colors.line;
        context.globalAlpha = .6;
        context.fillRect(0, Math.round(y + track.height) - 1, this.width, 1);
        context.globalAlpha = 1;
        track.draw(context, {...this.view(), y});
      }
      y += track.height;
    }
    this.drawRange(shown);
  }

  drawRange(height) {
    const range = this.dragged || (this.range && this.rangeNs());
    if (!range)
      return;
    const [from, to] = range.map(ns => ns / Math.max(this.data.durationNs, 1) * this.width);
    const context = this.context;
    context.fillStyle = this.colors.shade;
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, this.width - to, height);
    context.fillStyle = this.colors.accent;
    context.fillRect(from - 1, 0, 2, height);
    context.fillRect(to - 1, 0, 2, height);
  }

  timeAt({clientX}) {
    const x = clientX - this.canvas.getBoundingClientRect().left;
    return Math.max(0, Math.min(1, x / this.width)) * this.data.durationNs;
  }

  listen() {
    new ResizeObserver(() => this.draw()).observe(this.lanes);
    this.lanes.addEventListener('scroll', () => this.draw());
    this.canvas.addEventListener('pointerdown', event => {
      this.canvas.setPointerCapture(event.pointerId);
      this.pressedNs = this.timeAt(event);
    });
    this.canvas.addEventListener('pointermove', event => this.move(event));
    this.canvas.addEventListener('pointerup', () => this.release());
    this.canvas.addEventListener('pointercancel', () => this.release());
    this.canvas.addEventListener('pointerleave', () => this.tip.hide());
    this.canvas.addEventListener('dblclick', () => this.clearRange());
    this.canvas.addEventListener('keydown', event => this.press(event));
  }

  move(event) {
    if (this.pressedNs === undefined) {
      this.hover(event);
      return;
    }
    const time = this.timeAt(event);
    this.tip.hide();
    this.dragged = [Math.min(time, this.pressedNs), Math.max(time, this.pressedNs)];
    this.draw();
  }

  // A click without a drag chooses nothing.
  release() {
    const dragged = this.dragged;
    this.dragged = null;
    this.pressedNs = undefined;
    if (dragged && dragged[1] - dragged[0] > 3 / this.width * this.data.durationNs)
      this.setRange(...dragged);
    else
      this.draw();
  }

  hover(event) {
    const area = this.canvas.getBoundingClientRect();
    let y = event.clientY - area.top + this.lanes.scrollTop;
    const track = this.tracks.find(candidate => (y -= candidate.height) < 0);
    const text = track && track.describe && track.describe(event.clientX - area.left, this.view());
    if (text)
      this.tip.show(event.clientX, event.clientY, text);
    else
      this.tip.hide();
  }

  press(event) {
    const {durationNs, stacks} = this.data;
    const step = Math.max(stacks.bucketNs, durationNs / 50) * (event.key === 'ArrowLeft' ? -1 : 1);
    const [from, to] = this.range ? this.rangeNs() : [0, durationNs / 10];
    if (event.key === 'Escape' && this.range)
      this.clearRange();
    else if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight')
      return;
    else if (!this.range)
      this.setRange(from, to, true);
    else if (event.shiftKey)
      this.setRange(from, to + step, true);
    else if (from + step >= 0 && to + step <= durationNs)
      this.setRange(from + step, to + step, true);
    event.preventDefault();
    event.stopPropagation();
  }
}
