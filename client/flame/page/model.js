// SPDX-License-Identifier: LGPL-2.1-or-later
// The weights of what is selected, by node and by function.

const KIND = {USER: 0, KERNEL: 1, PROCESS: 2, INCOMPLETE: 3, LIGHT: 4};

// Nodes stand depth first: the subtree of i is i … end[i] - 1. Node -1 stands for everything. After edits they are others
// than the data's, and where[] leads to them.
class Model {
  constructor(data) {
    const {length, depth, fn} = data.nodes;
    const parent = new Int32Array(length);
    const end = new Uint32Array(length);
    const path = [];
    for (let i = 0; i < length; i++) {
      for (; path.length > depth[i];)
        end[path.pop()] = i;
      parent[i] = depth[i] ? path[depth[i] - 1] : -1;
      path.push(i);
    }
    for (const node of path)
      end[node] = length;
    this.data = data;
    this.isCompared = data.isCompared;
    this.range = null;
    this.threads = null;
    this.steps = [{nodes: {fn, parent, end, self: null}, where: Int32Array.from(fn, (_, i) => i)}];
    this.edit([]);
  }

  // edits: of {verb, fn}, one after the other. Those that were there before are not made again.
  edit(edits) {
    const [unedited] = this.steps;
    if (edits.length && !unedited.nodes.self)
      unedited.nodes.self = this.weighNodes(unedited);
    const isSame = (step, i) => step.edit === edits[i - 1];
    const nKept = this.steps.findIndex((step, i) => i > 0 && !isSame(step, i));
    if (nKept > 0)
      this.steps.length = nKept;
    for (let i = this.steps.length; i <= edits.length; i++) {
      const before = this.steps[i - 1];
      const edit = edits[i - 1];
      const {nodes, where} = editNodes(before.nodes, edit, this.data.functions.length);
      const after = before.where.map(node => {
        if (node < TOP)
          return node;
        const now = node === TOP ? edit.verb === 'focus' ? GONE : TOP : where[node];
        return now === GONE ? GONE - (i - 1) : now;
      });
      this.steps.push({edit, nodes, where: after});
    }
    const {nodes, where} = this.steps.at(-1);
    Object.assign(this, {fn: nodes.fn, parent: nodes.parent, end: nodes.end, length: nodes.fn.length, where});
    this.nEdits = edits.length;
    this.self = new Float64Array(this.length);
    this.total = new Float64Array(this.length);
    this.otherWhole = 0;
    if (this.isCompared)
      this.moveOther();
    this.moveSpreads();
    this.select(this.range, this.threads);
  }

  // Of all samples, by node of the data.
  weighNodes() {
    const {length, node, start, count} = this.data.stacks;
    const self = new Float64Array(this.data.nodes.length);
    for (let s = 0; s < length; s++)
      for (let p = start[s]; p < start[s + 1]; p++)
        self[node[s]] += count[p];
    return self;
  }

  moveOther() {
    this.otherSelf = new Float64Array(this.length);
    this.data.nodes.otherSelf.forEach((samples, i) => {
      const node = this.where[i];
      if (node >= TOP)
        this.otherWhole += samples;
      if (node >= 0)
        this.otherSelf[node] += samples;
    });
    this.otherTotal = this.sumUp(this.otherSelf, new Float64Array(this.length));
  }

  // Distributions of nodes that are one now are added.
  moveSpreads() {
    const spreads = new Map();
    for (const [i, spread] of this.data.spreads) {
      const node = this.where[i];
      if (node < 0)
        continue;
      const sums = spreads.get(node) || new Map();
      for (const {bucket, n} of spread)
        sums.set(bucket, (sums.get(bucket) || 0) + n);
      spreads.set(node, sums);
    }
    this.spreads = new Map([...spreads].map(([node, sums]) =>
      [node, [...sums].sort((a, b) => a[0] - b[0]).map(([bucket, n]) => ({bucket, n}))]));
  }

  sumUp(self, total) {
    total.set(self);
    for (let i = this.length - 1; i >= 0; i--)
      if (this.parent[i] >= 0)
        total[this.parent[i]] += total[i];
    return total;
  }

  // range: {from, to} in buckets of the stacks, or null; threads: a Set of numbers, or null. What of it edits leave out
  // is in hidden[], by edit.
  select(range, threads) {
    const {length, thread, node, start, bucket, count} = this.data.stacks;
    this.range = range;
    this.threads = threads;
    this.self.fill(0);
    this.whole = 0;
    this.hidden = new Array(this.nEdits).fill(0);
    for (let s = 0; s < length; s++) {
      if (threads && !threads.has(thread[s]))
        continue;
      let sum = 0;
      for (let p = start[s]; p < start[s + 1]; p++)
        if (!range || bucket[p] >= range.from && bucket[p] < range.to)
          sum += count[p];
      const place = this.where[node[s]];
      if (place >= 0)
        this.self[place] += sum;
      if (place >= TOP)
        this.whole += sum;
      else
        this.hidden[GONE - place] += sum;
    }
    this.selected = this.hidden.reduce((sum, n) => sum + n, this.whole);
    this.sumUp(this.self, this.total);
  }

  // By function: samples that end in it, samples that contain it (recursion once).
  sumFunctions(self, total) {
    const n = this.data.functions.length;
    const sums = {self: new Float64Array(n), total: new Float64Array(n)};
    const inside = new Uint32Array(n);
    for (let i = 0; i < this.length; i++) {
      const fn = this.fn[i];
      sums.self[fn] += self[i];
      if (i >= inside[fn]) {
        sums.total[fn] += total[i];
        inside[fn] = this.end[i];
      }
    }
    return sums;
  }

  // The nodes of a function that are not below another of its own.
  outermost(fn) {
    const nodes = [];
    for (let i = 0; i < this.length;)
      if (this.fn[i] === fn) {
        nodes.push(i);
        i = this.end[i];
      } else {
        i++;
      }
    return nodes;
  }

  // Samples whose stack has one of the functions that wanted[] marks.
  sumMatches(wanted) {
    let sum = 0;
    for (let i = 0; i < this.length;)
      if (wanted[this.fn[i]]) {
        sum += this.total[i];
        i = this.end[i];
      } else {
        i++;
      }
    return sum;
  }
}
