// SPDX-License-Identifier: LGPL-2.1-or-later
// What a reader leaves out of stacks: a list of edits that goes back and forth, and what each makes of a tree.

const TOP = -1;  // instead of a node: the samples have no function left
const GONE = -2; // the samples are left out; less, of a model: by which edit

const VERBS = {
  hide: {label: 'Hide stacks with it', key: 'h', tell: name => `without stacks of ${name}`},
  focus: {label: 'Only stacks with it, from there', key: 'o', tell: name => `only ${name} and what it calls`},
  merge: {label: 'Merge it into its callers', key: 'm', tell: name => `${name} merged into its callers`},
};

class Edits {
  constructor() {
    this.done = []; // of {verb, fn}
    this.undone = [];
  }

  add(verb, fn) {
    this.done = [...this.done, {verb, fn}];
    this.undone = [];
  }

  // Those of an address. What is the same can still be redone.
  set(done) {
    if (JSON.stringify(done) === JSON.stringify(this.done))
      return;
    this.done = done;
    this.undone = [];
  }

  undo() {
    this.move('done', 'undone');
  }

  redo() {
    this.move('undone', 'done');
  }

  move(from, to) {
    if (!this[from].length)
      return;
    this[to] = [...this[to], this[from].at(-1)];
    this[from] = this[from].slice(0, -1);
  }
}

// {nodes, where}: the tree after an edit, and which of its nodes each of these is now, or TOP, or GONE. self: of all samples.
function editNodes({fn, parent, self}, {verb, fn: target}, nFunctions) {
  const where = new Int32Array(fn.length);
  const grown = {fn: [], parent: [], self: []};
  const known = new Map();
  for (let i = 0; i < fn.length; i++) {
    const isTarget = fn[i] === target;
    let above = parent[i] >= 0 ? where[parent[i]] : verb === 'focus' ? GONE : TOP;
    if (verb === 'focus' && isTarget && above === GONE)
      above = TOP;
    if (above === GONE || verb === 'hide' && isTarget) {
      where[i] = GONE;
      continue;
    }
    if (verb === 'merge' && isTarget) {
      where[i] = above;
    } else {
      const key = (above - TOP) * nFunctions + fn[i];
      where[i] = known.get(key) ?? grown.fn.length;
      if (where[i] === grown.fn.length) {
        known.set(key, where[i]);
        grown.fn.push(fn[i]);
        grown.parent.push(above);
        grown.self.push(0);
      }
    }
    if (where[i] >= 0)
      grown.self[where[i]] += self[i];
  }
  const {nodes, places} = orderNodes(grown);
  return {nodes, where: where.map(node => node >= 0 ? places[node] : node)};
}

// Depth first, the heaviest of siblings first, as the page's own: parents stand before their children already.
function orderNodes({fn, parent, self}) {
  const {length} = fn;
  const total = Float64Array.from(self);
  for (let i = length - 1; i >= 0; i--)
    if (parent[i] >= 0)
      total[parent[i]] += total[i];
  const first = new Int32Array(length + 1).fill(-1); // the heaviest child of each node; the last is of all
  const next = new Int32Array(length);
  const lightestFirst = Uint32Array.from(fn, (_, i) => i).sort((a, b) => total[a] - total[b] || b - a);
  for (const i of lightestFirst) {
    const above = parent[i] >= 0 ? parent[i] : length;
    next[i] = first[above];
    first[above] = i;
  }
  const nodes = {fn: new Uint32Array(length), parent: new Int32Array(length), end: new Uint32Array(length), self: new Float64Array(length)};
  const places = new Int32Array(length);
  const open = [first[length]];
  for (let at = 0; open.length;) {
    const i = open.pop();
    if (i < 0)
      continue;
    nodes.fn[at] = fn[i];
    nodes.parent[at] = parent[i] >= 0 ? places[parent[i]] : -1;
    nodes.self[at] = self[i];
    places[i] = at++;
    open.push(next[i], first[i]);
  }
  for (let at = length - 1; at >= 0; at--) {
    nodes.end[at] = Math.max(nodes.end[at], at + 1);
    if (nodes.parent[at] >= 0)
      nodes.end[nodes.parent[at]] = Math.max(nodes.end[nodes.parent[at]], nodes.end[at]);
  }
  return {nodes, places};
}
