// SPDX-License-Identifier: LGPL-2.1-or-later
// A tree as text that opens branch by branch. Only rows in sight are elements, so that it may have any number.

const TREE_ROW = 24;  // pixels
const TREE_STEP = 14; // pixels a level
const SPARE_ROWS = 8; // above and below what is in sight

class CallTreeView {
  // on: {focus (description), menu (place)}
  constructor(model, on) {
    const {isCompared} = model;
    this.model = model;
    this.on = on;
    this.columns = [
      {name: 'Total', key: 'total', of: (tree, frame) => tree.totalOf(frame)},
      {name: 'Self', key: 'self', of: (tree, frame) => tree.selfOf(frame)},
      {name: 'Function', key: 'name'},
    ];
    this.sorted = {key: 'total', isDescending: true};
    this.isCompared = isCompared;
    this.opened = new Map(); // function → the same of those below it
    this.rows = [];
    this.at = 0; // the row that keys and the menu are about
    this.wanted = null;
    this.head = document.getElementById('tree-head');
    this.element = document.getElementById('tree');
    this.space = this.element.querySelector('.space');
    this.makeHead();
    this.listen();
  }

  makeHead() {
    this.buttons = this.columns.map(({name, key}) => {
      const button = make('button', key === 'name' ? 'name' : 'number', name);
      button.type = 'button';
      button.addEventListener('click', () => this.sortBy(key));
      return button;
    });
    this.head.replaceChildren(...this.buttons);
    this.head.classList.toggle('compared', this.isCompared);
    this.element.classList.toggle('compared', this.isCompared);
    if (this.isCompared)
      this.buttons[1].after(make('span', 'number', 'Change'));
  }

  listen() {
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.element.addEventListener('scroll', () => this.draw());
    this.element.addEventListener('keydown', event => this.press(event));
    this.element.addEventListener('click', event => {
      const row = this.rowOf(event);
      if (row < 0)
        return;
      this.choose(row);
      if (event.target.closest('.twist') || event.detail === 2)
        this.toggle(row);
    });
    this.element.addEventListener('contextmenu', event => this.openMenu(event));
  }

  rowOf({target}) {
    const item = target.closest('[role="treeitem"]');
    return item ? Number(item.dataset.row) : -1;
  }

  // Another tree. What was open stays so, as far as it is there.
  show(tree, {isOther = false} = {}) {
    const {at} = this;
    this.tree = tree;
    if (isOther)
      this.opened = new Map();
    this.at = isOther ? 0 : at;
    this.isStale = true;
    if (this.element.offsetParent)
      this.appear();
  }

  appear() {
    if (this.isStale)
      this.rebuild();
    this.isStale = false;
    this.draw();
  }

  sortBy(key) {
    const isDescending = this.sorted.key === key ? !this.sorted.isDescending : key !== 'name';
    this.sorted = {key, isDescending};
    this.rebuild();
    this.draw();
  }

  sortedChildren(frame) {
    const {tree, sorted, model} = this;
    const order = sorted.isDescending ? -1 : 1;
    const nameOf = child => model.data.functions[tree.fnOf(child)].shown;
    const column = this.columns.find(({key}) => key === sorted.key);
    const compare = column.of ? (a, b) => column.of(tree, a) - column.of(tree, b) : (a, b) => nameOf(a).localeCompare(nameOf(b));
    return [...tree.childrenOf(frame)].sort((a, b) => order * compare(a, b) || tree.totalOf(b) - tree.totalOf(a));
  }

  // The rows below a frame, with what is open among them.
  rowsBelow(frame, level, opened) {
    const rows = [];
    const below = [{children: this.sortedChildren(frame), next: 0, opened}];
    while (below.length) {
      const last = below[below.length - 1];
      if (last.next === last.children.length) {
        below.pop();
        continue;
      }
      const child = last.children[last.next++];
      const fn = this.tree.fnOf(child);
      const isOpen = last.opened.has(fn);
      rows.push({frame: child, level: level + below.length - 1, place: last.next, size: last.children.length, inside: last.opened, isOpen});
      if (isOpen)
        below.push({children: this.sortedChildren(child), next: 0, opened: last.opened.get(fn)});
    }
    return rows;
  }

  rebuild() {
    this.rows = this.rowsBelow(-1, 1, this.opened);
    if (!this.opened.size && this.rows.length)
      this.open(0);
    this.at = Math.max(0, Math.min(this.at, this.rows.length - 1));
    this.buttons.forEach((button, i) => {
      const {key, name} = this.columns[i];
      const isSorted = this.sorted.key === key;
      button.setAttribute('aria-pressed', String(isSorted));
      button.textContent = isSorted ? `${name} ${this.sorted.isDescending ? '↓' : '↑'}` : name;
      button.setAttribute('aria-label', isSorted ? `${name}, ${this.sorted.isDescending ? 'falling' : 'rising'}` : `Sort by ${name.toLowerCase()}`);
    });
  }

  // A row and, as long as they have one callee only, those below it.
  open(i) {
    let {frame, inside} = this.rows[i];
    let children = this.tree.childrenOf(frame);
    if (!children.length)
      return;
    while (children.length) {
      const fn = this.tree.fnOf(frame);
      if (!inside.has(fn))
        inside.set(fn, new Map());
      inside = inside.get(fn);
      if (children.length > 1)
        break;
      [frame] = children;
      children = this.tree.childrenOf(frame);
    }
    const row = this.rows[i];
    row.isOpen = true;
    const below = this.rowsBelow(row.frame, row.level + 1, row.inside.get(this.tree.fnOf(row.frame)));
    this.rows = this.rows.slice(0, i + 1).concat(below, this.rows.slice(i + 1));
  }

  close(i) {
    const row = this.rows[i];
    let end = i + 1;
    while (end < this.rows.length && this.rows[end].level > row.level)
      end++;
    row.isOpen = false;
    row.inside.delete(this.tree.fnOf(row.frame));
    this.rows = this.rows.slice(0, i + 1).concat(this.rows.slice(end));
  }

  toggle(i) {
    if (this.rows[i].isOpen)
      this.close(i);
    else
      this.open(i);
    this.draw();
  }

  choose(i) {
    const top = i * TREE_ROW;
    const {scrollTop, clientHeight} = this.element;
    this.at = i;
    if (top < scrollTop)
      this.element.scrollTop = top;
    else if (top + TREE_ROW > scrollTop + clientHeight)
      this.element.scrollTop = top + TREE_ROW - clientHeight;
    this.draw();
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !this.rows.length)
      return;
    const {at, rows} = this;
    const row = rows[at];
    const page = Math.max(1, Math.floor(this.element.clientHeight / TREE_ROW) - 1);
    const next = {ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - page, PageDown: at + page, Home: 0, End: rows.length - 1}[event.key];
    if (next !== undefined)
      this.choose(Math.max(0, Math.min(next, rows.length - 1)));
    else if (event.key === 'ArrowRight' && row.isOpen)
      this.choose(at + 1);
    else if (event.key === 'ArrowLeft' && !row.isOpen)
      this.choose(Math.max(0, rows.findLastIndex((other, i) => i < at && other.level < row.level)));
    else if (event.key === 'Enter' || event.key === 'ArrowRight' || event.key === 'ArrowLeft')
      this.toggle(at);
    else
      return;
    event.preventDefault();
  }

  draw() {
    const {element, rows, tree} = this;
    if (!element.offsetParent || !tree)
      return;
    this.space.style.height = `${rows.length * TREE_ROW}px`;
    const first = Math.max(0, Math.floor(element.scrollTop / TREE_ROW) - SPARE_ROWS);
    const last = Math.min(rows.length, Math.ceil((element.scrollTop + element.clientHeight) / TREE_ROW) + SPARE_ROWS);
    const items = [];
    for (let i = first; i < last; i++)
      items.push(this.makeRow(rows[i], i));
    this.space.replaceChildren(...items);
    if (this.at >= first && this.at < last)
      element.setAttribute('aria-activedescendant', `tree-row-${this.at}`);
    else
      element.removeAttribute('aria-activedescendant');
  }

  makeRow({frame, level, place, size, isOpen}, i) {
    const {tree, model} = this;
    const fn = tree.fnOf(frame);
    const {shown, name, module} = model.data.functions[fn];
    const isInner = tree.childrenOf(frame).length > 0;
    const item = make('div', this.wanted && this.wanted[fn] ? 'match' : '');
    item.id = `tree-row-${i}`;
    item.dataset.row = i;
    item.style.top = `${i * TREE_ROW}px`;
    item.title = module ? `${name}\n${module}` : name;
    item.setAttribute('role', 'treeitem');
    item.setAttribute('aria-level', level);
    item.setAttribute('aria-posinset', place);
    item.setAttribute('aria-setsize', size);
    item.setAttribute('aria-selected', String(i === this.at));
    if (isInner)
      item.setAttribute('aria-expanded', String(isOpen));
    const total = tree.totalOf(frame);
    const label = make('span', 'name');
    const twist = make('span', 'twist', isInner ? isOpen ? '▼' : '▶' : '');
    twist.setAttribute('aria-hidden', 'true');
    label.style.paddingLeft = `${(level - 1) * TREE_STEP}px`;
    label.append(twist, make('b', '', shown), make('span', 'module', module));
    item.append(make('span', 'number', percent(total, model.whole)), make('span', 'number', percent(tree.selfOf(frame), model.whole)));
    if (this.isCompared)
      item.append(make('span', 'number', points(total, model.whole, tree.otherOf(frame), tree.otherOf(-1))));
    item.append(label, make('span', 'unseen', weigh(total, model.data.unit)));
    return item;
  }

  search(wanted) {
    this.wanted = wanted;
    this.draw();
  }

  chosen() {
    const row = this.rows[this.at];
    return row ? {fn: this.tree.fnOf(row.frame), stack: stackOf(this.tree, row.frame)} : null;
  }

  openMenu(event) {
    const isPointed = event.button === 2;
    if (isPointed && this.rowOf(event) < 0)
      return;
    if (isPointed)
      this.choose(this.rowOf(event));
    const {left, top} = this.element.getBoundingClientRect();
    event.preventDefault();
    this.on.menu(isPointed ? {x: event.clientX, y: event.clientY}
      : {x: left + 180, y: top + (this.at + 1) * TREE_ROW - this.element.scrollTop});
  }

  isZoomed() {
    return false;
  }

  // As it was at first.
  reset() {
    this.opened = new Map();
    this.at = 0;
    this.element.scrollTop = 0;
    this.rebuild();
    this.draw();
  }
}
