// SPDX-License-Identifier: LGPL-2.1-or-later
// The weights of what is selected, by node and by function.

const KIND = {USER: 0, KERNEL: 1, PROCESS: 2, INCOMPLETE: 3, LIGHT: 4};

// Nodes stand depth first: the subtree of i is i … end[i] - 1. Node -1 stands for everything.
class Model {
  constructor(data) {
    const {length, depth} = data.nodes;
    this.data = data;
    this.isCompared = data.isCompared;
    this.fn = data.nodes.fn;
    this.length = length;
    this.parent = new Int32Array(length);
    this.end = new Uint32Array(length);
    const path = [];
    for (let i = 0; i < length; i++) {
      for (; path.length > depth[i];)
        this.end[path.pop()] = i;
      this.parent[i] = depth[i] ? path[depth[i] - 1] : -1;
      path.push(i);
    }
    for (const node of path)
      this.end[node] = length;
    this.self = new Float64Array(length);
    this.total = new Float64Array(length);
    if (data.isCompared) {
      this.otherSelf = Float64Array.from(data.nodes.otherSelf);
      this.otherTotal = this.sumUp(this.otherSelf, new Float64Array(length));
    }
    this.otherWhole = data.nOther;
    this.select(null, null);
  }

  sumUp(self, total) {
    total.set(self);
    for (let i = this.length - 1; i >= 0; i--)
      if (this.parent[i] >= 0)
        total[this.parent[i]] += total[i];
    return total;
  }

  // range: {from, to} in buckets of the stacks, or null; threads: a Set of numbers, or null.
  select(range, threads) {
    const {length, thread, node, start, bucket, count} = this.data.stacks;
    this.self.fill(0);
    this.whole = 0;
    for (let s = 0; s < length; s++) {
      if (threads && !threads.has(thread[s]))
        continue;
      let sum = 0;
      for (let p = start[s]; p < start[s + 1]; p++)
        if (!range || bucket[p] >= range.from && bucket[p] < range.to)
          sum += count[p];
      this.self[node[s]] += sum;
      this.whole += sum;
    }
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
