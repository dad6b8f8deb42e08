// SPDX-License-Identifier: LGPL-2.1-or-later
// The stacks of one thread in the order of time: a graph whose width is time. Of runs within a pixel the longest stands
// for them.

const MAX_LISTED = 100; // threads: the heaviest
const ZOOM_STEP = 2;

class FlameChart extends Graph {
  // on: as of Graph, {zoom}: another part of the time is seen
  constructor(model, colors, tip, on) {
    super(document.getElementById('chart-scroll'), model, colors, tip, on);
    this.isIcicle = true;
    this.runs = model.data.runs;
    this.range = [0, Math.max(model.data.durationNs, 1)]; // ns: of the time line
    this.seen = this.range;                               // ns: a part of it
    this.thread = -1;
    this.select = document.getElementById('chart-thread');
    this.note = document.getElementById('chart-note');
    this.select.addEventListener('change', () => {
      this.thread = Number(this.select.value);
      this.layout();
      this.on.zoom(true);
    });
    document.getElementById('chart-in').addEventListener('click', () => this.scale(1 / ZOOM_STEP));
    document.getElementById('chart-out').addEventListener('click', () => this.scale(ZOOM_STEP));
    this.canvas.addEventListener('wheel', event => this.turn(event), {passive: false});
  }

  // After another selection, or other nodes. Threads: a Set of numbers, or null for all.
  update(rangeNs, threads) {
    const {first} = this.runs;
    const listed = this.model.data.threads.filter(({number}) => first[number + 1] > first[number] && (!threads || threads.has(number)))
      .sort((a, b) => b.total - a.total);
    if (this.range.join() !== rangeNs.join()) {
      this.range = [rangeNs[0], Math.max(rangeNs[1], rangeNs[0] + 1)];
      this.seen = this.range;
    }
    if (!listed.some(({number}) => number === this.thread))
      this.thread = listed.length ? listed[0].number : -1;
    this.select.replaceChildren(...listed.slice(0, MAX_LISTED).map(thread => this.makeOption(thread)));
    if (listed.length > MAX_LISTED) {
      this.select.append(make('option', '', `${listed.length - MAX_LISTED} lighter ones: choose their process above`));
      this.select.lastChild.disabled = true;
    }
    this.select.value = this.thread;
    this.tree = new CallerTree(this.model);
    this.current = null;
    this.hovered = null;
    this.layout();
  }

  makeOption({number, process, tid, name}) {
    const {name: comm, pid} = this.model.data.processes[process];
    const option = make('option', '', `${name || comm} (${pid === tid || pid < 0 ? '' : `pid ${pid}, `}tid ${tid})`);
    option.value = number;
    return option;
  }

  // What an address says. Nobody is told.
  restore(thread, seenNs) {
    const {first} = this.runs;
    if (first[thread + 1] > first[thread])
      this.thread = thread;
    this.seen = this.clip(seenNs || this.range);
  }

  clip([from, to]) {
    const [begin, end] = this.range;
    const length = Math.max(1, Math.min(to - from, end - begin));
    const start = Math.max(begin, Math.min(from, end - length));
    return [start, start + length];
  }

  // The first run of the thread that ends behind a tick.
  findRun(tick) {
    const {first, start, length} = this.runs;
    let low = first[this.thread];
    for (let high = first[this.thread + 1]; low < high;) {
      const middle = (low + high) >> 1;
      if (start[middle] + length[middle] <= tick)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  // Of what is seen, in pixels: {node, from, to}, of runs that share a pixel one.
  * visible(width) {
    const {first, start, length, node, tickNs} = this.runs;
    const [fromNs, toNs] = this.seen;
    const scale = width / (toNs - fromNs);
    const xOf = tick => (tick * tickNs - fromNs) * scale;
    let kept = null;
    let keptLength = 0;
    let column = -1;
    this.nMerged = 0;
    for (let i = this.findRun(fromNs / tickNs); i < first[this.thread + 1]; i++) {
      const from = Math.max(0, xOf(start[i]));
      const to = Math.min(width, xOf(start[i] + length[i]));
      if (from >= width)
        break;
      const isNarrow = to - from < MIN_WIDTH;
      if (kept && (!isNarrow || Math.floor(from) !== column)) {
        yield kept;
        kept = null;
      }
      if (!isNarrow) {
        yield {node: node[i], from, to};
        continue;
      }
      column = Math.floor(from);
      if (kept) {
        this.nMerged++;
        kept.to = Math.max(kept.to, to);
      }
      if (!kept || length[i] > keptLength) {
        keptLength = length[i];
        kept = {node: node[i], from: kept ? kept.from : from, to: kept ? kept.to : to};
      }
    }
    if (kept)
      yield kept;
  }

  layout() {
    const width = this.scroll.clientWidth;
    if (!this.tree || !width && this.width)
      return;
    const [fromNs, toNs] = this.seen;
    const nsAt = x => fromNs + x / width * (toNs - fromNs);
    const open = []; // boxes of the stack at hand
    let last = -1;
    this.rows = [];
    this.zoomRow = 0;
    const close = (depth, x) => {
      while (open.length > depth) {
        const box = open.pop();
        box.width = x - box.x;
        box.toNs = nsAt(x);
      }
    };
    for (const {node, from, to} of this.thread < 0 ? [] : this.visible(width)) {
      const path = [];
      for (let frame = this.model.where[node]; frame >= 0; frame = this.model.parent[frame])
        path.unshift(frame);
      let same = 0;
      if (from <= last + .01)
        while (same < path.length && same < open.length && open[same].frame === path[same])
          same++;
      close(same, Math.min(from, last));
      for (let row = same; row < path.length; row++) {
        const box = {frame: path[row], row, x: from, width: 0, fromNs: nsAt(from), toNs: 0};
        (this.rows[row] || (this.rows[row] = [])).push(box);
        open.push(box);
      }
      last = to;
    }
    close(0, last);
    this.width = width;
    this.shownHeight = this.scroll.clientHeight;
    this.height = Math.max(this.rows.length * ROW + 1, this.shownHeight);
    this.space.style.height = `${this.height}px`;
    this.tellNote();
    this.draw();
  }

  tellNote() {
    const {isMerged, tickNs} = this.runs;
    const [from, to] = this.seen;
    const parts = [`${from ? duration(Math.round(from)) : '0 s'} to ${duration(Math.round(to))}`];
    if (this.thread < 0)
      parts.push('nothing of it is selected');
    if (isMerged)
      parts.push(`merged: each ${duration(tickNs)} has the stack with most samples`);
    if (this.nMerged)
      parts.push(`${count(this.nMerged, 'run')} narrower than a pixel merged: zoom in`);
    this.note.textContent = parts.join(' · ');
    this.canvas.setAttribute('aria-label', `Stacks of ${this.select.selectedOptions[0]?.textContent || 'no thread'} along the time`);
  }

  describe(box) {
    const told = super.describe(box);
    return {...told, lines: [['At', box.fromNs ? duration(Math.round(box.fromNs)) : '0 s'], ['Lasts', duration(Math.round(box.toNs - box.fromNs))], ...told.lines]};
  }

  look(seen) {
    this.seen = this.clip(seen);
    this.hovered = null;
    this.current = null;
    this.tip.hide();
    this.layout();
    this.on.zoom(true);
  }

  enter({fromNs, toNs}) {
    this.look([fromNs, toNs]);
  }

  // Around a moment, else around what the keys are at, else the middle.
  scale(factor, aroundNs) {
    const [from, to] = this.seen;
    const {current} = this;
    const around = aroundNs ?? (current ? (current.fromNs + current.toNs) / 2 : (from + to) / 2);
    this.look([around - (around - from) * factor, around + (to - around) * factor]);
  }

  pan(share) {
    const [from, to] = this.seen;
    const by = (to - from) * share;
    this.look([from + by, to + by]);
  }

  turn(event) {
    if (event.ctrlKey) {
      const x = event.clientX - this.canvas.getBoundingClientRect().left;
      const [from, to] = this.seen;
      this.scale(event.deltaY > 0 ? 1.25 : .8, from + x / this.width * (to - from));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan((event.deltaX || event.deltaY) / this.width);
    } else {
      return;
    }
    event.preventDefault();
  }

  press(event) {
    const acts = {'+': () => this.scale(1 / ZOOM_STEP), '-': () => this.scale(ZOOM_STEP)};
    const step = event.shiftKey && {ArrowLeft: -.2, ArrowRight: .2}[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (acts[event.key])
      acts[event.key]();
    else if (step)
      this.pan(step);
    else {
      super.press(event);
      return;
    }
    event.preventDefault();
  }

  isZoomed() {
    return this.seen.join() !== this.range.join();
  }

  reset() {
    this.look(this.range);
  }
}
