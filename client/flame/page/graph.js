// SPDX-License-Identifier: LGPL-2.1-or-later
// The flame graph itself: what is a pixel wide or more, on a canvas as large as its window. Callees that are narrower
// are one box together.

const ROW = 19;      // pixels, one of them the gap to the next row
const MIN_WIDTH = 1; // pixels: narrower frames are summed up
const MIN_MORE = .05; // pixels of what is summed up
const TEXT_MIN = 26; // pixels
const FONT = '12px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';

class Graph {
  // scroll: the element that it scrolls in, with a canvas and what makes it as high as the graph; on: {zoom (is it
  // the reader who asked), focus (description), menu (place)}
  constructor(scroll, model, colors, tip, on) {
    this.model = model;
    this.colors = colors;
    this.tip = tip;
    this.on = on;
    this.scroll = scroll;
    this.space = scroll.querySelector('.space');
    this.canvas = scroll.querySelector('canvas');
    this.context = this.canvas.getContext('2d');
    this.widths = new Map(); // text → pixels
    this.isIcicle = false;
    this.wanted = null; // what search marked, by function
    this.tree = null;
    this.root = -1; // the frame that takes the whole width
    this.zoomed = -1;
    this.rows = [];
    this.listen();
  }

  listen() {
    this.scroll.addEventListener('scroll', () => {
      if (this.scroll.clientHeight === this.shownHeight) // else the browser moves it, before it is laid out anew
        this.fromEnd = this.height - this.shownHeight - this.scroll.scrollTop;
      this.draw();
    });
    new ResizeObserver(() => this.resize()).observe(this.scroll);
    this.canvas.addEventListener('pointermove', event => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => this.leave());
    this.canvas.addEventListener('click', event => {
      const box = this.find(event);
      if (box)
        this.enter(box);
    });
    this.canvas.addEventListener('contextmenu', event => this.openMenu(event));
    this.canvas.addEventListener('keydown', event => this.press(event));
    this.canvas.addEventListener('focus', () => this.draw());
    this.canvas.addEventListener('blur', () => {
      this.tip.hide();
      this.draw();
    });
  }

  // Another tree. Where its frames are those of the one before, what is zoomed into stays so.
  show(tree, {root = -1, isOther = false} = {}) {
    const names = isOther ? [] : this.names(this.zoomed);
    this.tree = tree;
    this.root = root;
    this.zoomed = this.follow(names);
    this.current = null;
    this.hovered = null;
    this.layout();
    this.scrollToRoot();
    this.on.zoom(false);
  }

  // The functions from below the root to this frame, and back: of another tree, as far as they are there.
  names(frame) {
    const names = [];
    for (; this.tree && frame !== this.root; frame = this.tree.parentOf(frame))
      names.unshift(this.tree.fnOf(frame));
    return names;
  }

  follow(names, nameOf = fn => fn) {
    let frame = this.root;
    for (const name of names) {
      const next = this.tree.childrenOf(frame).find(child => nameOf(this.tree.fnOf(child)) === name);
      if (next === undefined)
        break;
      frame = next;
    }
    return frame;
  }

  // Boxes by row, from left to right. Callers of the zoomed frame take the whole width.
  layout() {
    const width = this.scroll.clientWidth;
    if (!this.tree || !width && this.width) // hidden: it will be told when it is not
      return;
    const whole = this.tree.totalOf(this.zoomed);
    this.rows = [];
    const place = (frame, row, x, boxWidth) => {
      const box = {frame, row, x, width: boxWidth};
      (this.rows[row] || (this.rows[row] = [])).push(box);
      return box;
    };
    const path = [];
    for (let frame = this.zoomed; frame !== this.root; frame = this.tree.parentOf(frame))
      path.unshift(frame);
    place(this.root, 0, 0, width);
    path.forEach((frame, i) => place(frame, i + 1, 0, width));
    this.zoomRow = path.length;
    const open = [this.rows[this.zoomRow][0]];
    while (open.length && whole > 0) {
      const box = open.pop();
      const more = {n: 0, total: 0};
      let x = box.x;
      for (const child of this.tree.childrenOf(box.frame)) {
        const total = this.tree.totalOf(child);
        const childWidth = total / whole * width;
        if (childWidth >= MIN_WIDTH) {
          open.push(place(child, box.row + 1, x, childWidth));
          x += childWidth;
        } else {
          more.n++;
          more.total += total;
        }
      }
      const moreWidth = more.total / whole * width;
      if (moreWidth >= MIN_MORE)
        place(box.frame, box.row + 1, x, moreWidth).more = more; // of the frame that calls them
    }
    for (const row of this.rows)
      row.sort((a, b) => a.x - b.x);
    this.width = width;
    this.shownHeight = this.scroll.clientHeight;
    this.height = Math.max(this.rows.length * ROW + 1, this.shownHeight);
    this.space.style.height = `${this.height}px`;
    this.draw();
  }

  // What was seen at the edge where the outermost functions are stays there.
  resize() {
    const {fromEnd} = this; // before the browser moves it
    if (!this.scroll.clientHeight) // hidden
      return;
    this.layout();
    if (!this.isIcicle && this.shownHeight) {
      this.scroll.scrollTop = this.height - this.shownHeight - fromEnd;
      this.draw();
    }
  }

  scrollToRoot() {
    this.fromEnd = 0;
    this.scroll.scrollTop = this.isIcicle ? 0 : this.height;
  }

  top(row) {
    return this.isIcicle ? row * ROW : this.height - (row + 1) * ROW;
  }

  draw() {
    const height = this.scroll.clientHeight;
    if (!height) // hidden: the picture that was there stays
      return;
    const ratio = devicePixelRatio || 1;
    const offset = Math.max(0, Math.min(this.scroll.scrollTop, this.height - height));
    const context = this.context;
    if (this.canvas.width !== Math.round(this.width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${this.width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.canvas.style.top = `${offset}px`;
    this.offset = offset;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, height);
    context.font = FONT;
    context.textBaseline = 'middle';
    this.nDrawn = 0;
    this.rows.forEach((boxes, row) => {
      const y = this.top(row) - offset;
      if (y > -ROW && y < height)
        for (const box of boxes)
          this.drawBox(box, y);
    });
    this.canvas.dataset.frames = this.nDrawn;
    this.outline(this.hovered, this.colors.text, 1);
    if (document.activeElement === this.canvas)
      this.outline(this.current, this.colors.accent, 2);
  }

  fill(frame) {
    if (frame < 0)
      return this.colors.theme.grey;
    if (!this.colors.isCompared)
      return this.colors.fill(this.tree.fnOf(frame));
    const share = this.tree.totalOf(frame) / this.tree.totalOf(-1);
    const before = this.tree.otherOf(frame) / this.tree.otherOf(-1);
    return this.colors.changeFill((share - before) / Math.max(share, before));
  }

  drawBox({frame, row, x, width, more}, y) {
    const context = this.context;
    const isMatch = !more && this.wanted && frame >= 0 && this.wanted[this.tree.fnOf(frame)];
    const boxWidth = Math.max(width - (width > 3 ? 1 : .25), .75);
    context.fillStyle = isMatch ? this.colors.match : more ? this.colors.theme.grey : this.fill(frame);
    context.globalAlpha = this.wanted && !isMatch ? .4 : 1;
    context.fillRect(x, y, boxWidth, ROW - 1);
    this.nDrawn++;
    if (width >= TEXT_MIN) {
      context.globalAlpha = row < this.zoomRow || this.wanted && !isMatch ? .62 : 1;
      context.fillStyle = isMatch ? '#ffffff' : this.colors.theme.text;
      const text = this.shorten(more ? this.moreLabel(more) : this.label(frame), width - 9);
      if (text)
        context.fillText(text, x + 4, y + ROW / 2);
    }
    context.globalAlpha = 1;
  }

  outline(box, color, lineWidth) {
    if (!box)
      return;
    this.context.strokeStyle = color;
    this.context.lineWidth = lineWidth;
    this.context.strokeRect(box.x + lineWidth / 2, this.top(box.row) - this.offset + lineWidth / 2,
      Math.max(box.width - 1 - lineWidth, 1), ROW - 1 - lineWidth);
  }

  label(frame) {
    return frame < 0 ? 'all' : this.model.data.functions[this.tree.fnOf(frame)].shown;
  }

  moreLabel({n, total}) {
    return `[${count(n)} more, ${percent(total, this.model.whole)}]`;
  }

  measure(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  // As much of a text as fits, by the width of its average letter.
  shorten(text, room) {
    const width = this.measure(text);
    if (width <= room)
      return text;
    const n = Math.floor(text.length * (room - 8) / width);
    return n < 2 ? '' : `${text.slice(0, n)}…`;
  }

  find({clientX, clientY}) {
    const area = this.canvas.getBoundingClientRect();
    const x = clientX - area.left;
    const y = clientY - area.top + this.offset;
    const row = Math.floor(this.isIcicle ? y / ROW : (this.height - y) / ROW);
    const boxes = this.rows[row] || [];
    let low = 0;
    for (let high = boxes.length; low < high;) {
      const middle = (low + high) >> 1;
      if (boxes[middle].x <= x)
        low = middle + 1;
      else
        high = middle;
    }
    const box = boxes[low - 1];
    return box && x < box.x + box.width ? box : null;
  }

  describe({frame, more}) {
    const {data, whole} = this.model;
    if (more)
      return {title: this.moreLabel(more), place: 'too narrow to be drawn one by one: zoom in', lines: [['Total', percent(more.total, whole), count(more.total)]]};
    const fn = frame < 0 ? null : data.functions[this.tree.fnOf(frame)];
    const total = this.tree.totalOf(frame);
    const self = this.tree.selfOf(frame);
    const lines = [['Total', percent(total, whole), weigh(total, data.unit)]];
    if (frame >= 0)
      lines.push(['Self', percent(self, whole), weigh(self, data.unit)]);
    if (this.zoomed !== this.root && frame >= 0 && frame !== this.zoomed)
      lines.push(['Of zoomed', percent(total, this.tree.totalOf(this.zoomed))]);
    if (data.isCompared) {
      const before = this.tree.otherOf(frame);
      lines.push(['Before', percent(before, this.tree.otherOf(-1)), count(before)]);
      lines.push(['Change', `${points(total, whole, before, this.tree.otherOf(-1))} points`]);
    }
    const spread = this.model.spreads.get(this.tree.nodeOf(frame));
    if (spread) {
      lines.push(['Each took', histogram(spread)]);
      lines.push(['', `${duration(bucketBegin(spread[0].bucket))} to ${duration(bucketBegin(spread[spread.length - 1].bucket + 1))}`]);
      lines.push(['p50, p99', duration(Math.round(quantile(spread, .5))), duration(Math.round(quantile(spread, .99)))]);
    }
    const notes = {[KIND.KERNEL]: 'kernel', [KIND.PROCESS]: 'process', [KIND.INCOMPLETE]: 'the stack ends here before its outermost function',
      [KIND.LIGHT]: `frames of less than ${weigh(data.threshold, data.unit)}, summed up`};
    const place = fn ? [fn.module || notes[fn.kind], fn.source].filter(Boolean).join(' · ') : '';
    return {title: fn ? fn.name : this.label(frame), place, lines};
  }

  hover(event) {
    const box = this.find(event);
    if (box)
      this.tip.show(event.clientX, event.clientY, this.describe(box));
    else
      this.tip.hide();
    if (box !== this.hovered) {
      this.hovered = box;
      this.draw();
    }
  }

  leave() {
    this.tip.hide();
    this.hovered = null;
    this.draw();
  }

  enter({frame}) {
    this.zoom(frame);
  }

  zoom(frame) {
    this.zoomed = frame;
    this.hovered = null;
    this.tip.hide();
    this.layout();
    this.current = this.rows.flat().find(box => box.frame === frame) || null;
    this.reveal(this.current);
    this.draw();
    this.on.zoom(true);
  }

  reveal(box) {
    if (!box)
      return;
    const y = this.top(box.row);
    if (y < this.scroll.scrollTop)
      this.scroll.scrollTop = y;
    else if (y + ROW > this.scroll.scrollTop + this.scroll.clientHeight)
      this.scroll.scrollTop = y + ROW - this.scroll.clientHeight;
  }

  // The box that an arrow key leads to.
  neighbour(key) {
    if (!this.current)
      return this.rows[this.zoomRow]?.[0];
    const {row, x, width} = this.current;
    const boxes = this.rows[row];
    const step = {ArrowLeft: -1, ArrowRight: 1}[key];
    if (step)
      return boxes[boxes.indexOf(this.current) + step];
    if (key === 'ArrowUp' === this.isIcicle)
      return (this.rows[row - 1] || []).findLast(box => box.x <= x + .01);
    const inside = (this.rows[row + 1] || []).filter(box => box.x >= x - .01 && box.x + box.width <= x + width + .01);
    return inside.reduce((widest, box) => !widest || box.width > widest.width ? box : widest, undefined);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (event.key === 'Enter' && this.current) {
      this.enter(this.current);
    } else if (event.key.startsWith('Arrow')) {
      this.current = this.neighbour(event.key) || this.current;
      this.reveal(this.current);
      this.draw();
    } else {
      return;
    }
    event.preventDefault();
    if (this.current)
      this.announce();
  }

  announce() {
    const area = this.canvas.getBoundingClientRect();
    const {title, place, lines} = this.describe(this.current);
    const y = area.top + this.top(this.current.row) - this.offset + ROW;
    this.tip.show(area.left + this.current.x, y, {title, place, lines});
    this.on.focus([title, place, ...lines.map(line => line.join(' '))].filter(Boolean).join(', '));
  }

  search(wanted) {
    this.wanted = wanted;
    this.draw();
  }

  setIcicle(isIcicle) {
    this.isIcicle = isIcicle;
    this.draw();
    this.scrollToRoot();
  }

  // The frame that keys and the menu are about: {fn, stack}, where it is one of a function.
  chosen() {
    const {current, tree} = this;
    if (!current || current.more || current.frame < 0)
      return null;
    return {fn: tree.fnOf(current.frame), stack: stackOf(tree, current.frame)};
  }

  // By the pointer, or by a key, which tells no place of its own.
  openMenu(event) {
    const isPointed = event.button === 2;
    if (isPointed) {
      this.current = this.find(event);
      this.tip.hide();
      this.draw();
    }
    if (!this.chosen())
      return;
    const area = this.canvas.getBoundingClientRect();
    const {x, row} = this.current;
    event.preventDefault();
    this.on.menu(isPointed ? {x: event.clientX, y: event.clientY}
      : {x: area.left + x, y: area.top + this.top(row) - this.offset + ROW});
  }

  appear() {
    this.resize(); // what has changed meanwhile is there with it, not a moment later
  }

  isZoomed() {
    return this.zoomed !== this.root;
  }

  reset() {
    this.zoom(this.root);
  }
}
