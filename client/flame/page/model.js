// SPDX-License-Identifier: LGPL-2.1-or-later
// The weights of what is selected, and the two trees that can be drawn of them.

const KIND = {USER: 0, KERNEL: 1, PROCESS: 2, INCOMPLETE: 3, LIGHT: 4};

// Nodes stand depth first: the subtree of i is i … end[i] - 1. Node -1 stands for everything.
class Model {
  constructor(data) {
    const {length, depth} = data.nodes;
    this.data = data;
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

// From the processes to the functions that ran. Frames are the model's nodes.
class CallerTree {
  constructor(model) {
    this.model = model;
  }

  fnOf(frame) {
    return this.model.fn[frame];
  }

  totalOf(frame) {
    return frame < 0 ? this.model.whole : this.model.total[frame];
  }

  otherOf(frame) {
    return frame < 0 ? this.model.otherWhole : this.model.otherTotal[frame];
  }

  selfOf(frame) {
    return frame < 0 ? 0 : this.model.self[frame];
  }

  parentOf(frame) {
    return this.model.parent[frame];
  }

  childrenOf(frame) {
    const {end, total, length} = this.model;
    const children = [];
    for (let i = frame + 1, last = frame < 0 ? length : end[frame]; i < last; i = end[i])
      if (total[i] > 0)
        children.push(i);
    return children;
  }
}

// From the functions that ran to their callers. Grows where it is looked at: a frame holds the nodes at which its
// stacks have arrived on their way to the outermost frame, with the samples of each.
class CalleeTree {
  constructor(model) {
    const nodes = [];
    for (let i = 0; i < model.length; i++)
      if (model.self[i] > 0 || model.otherSelf && model.otherSelf[i] > 0)
        nodes.push({node: i, samples: model.self[i], other: model.otherSelf ? model.otherSelf[i] : 0});
    this.model = model;
    this.frames = [];
    this.outermost = this.group(nodes, -1);
  }

  group(arrivals, parent) {
    const byFunction = new Map();
    for (const arrival of arrivals) {
      const fn = this.model.fn[arrival.node];
      let frame = byFunction.get(fn);
      if (!frame) {
        frame = {fn, parent, total: 0, other: 0, arrivals: [], children: null};
        byFunction.set(fn, frame);
      }
      frame.total += arrival.samples;
      frame.other += arrival.other;
      frame.arrivals.push(arrival);
    }
    const grown = [...byFunction.values()].filter(frame => frame.total > 0).sort((a, b) => b.total - a.total);
    const first = this.frames.length;
    for (const frame of grown)
      this.frames.push(frame);
    return grown.map((_, i) => first + i);
  }

  fnOf(frame) {
    return this.frames[frame].fn;
  }

  totalOf(frame) {
    return frame < 0 ? this.model.whole : this.frames[frame].total;
  }

  otherOf(frame) {
    return frame < 0 ? this.model.otherWhole : this.frames[frame].other;
  }

  // What ran is the frame at the edge, whole; its callers only wait.
  selfOf(frame) {
    return frame >= 0 && this.frames[frame].parent < 0 ? this.frames[frame].total : 0;
  }

  parentOf(frame) {
    return this.frames[frame].parent;
  }

  childrenOf(frame) {
    if (frame < 0)
      return this.outermost;
    const {arrivals, children} = this.frames[frame];
    if (children)
      return children;
    const callers = [];
    for (const {node, samples, other} of arrivals)
      if (this.model.parent[node] >= 0)
        callers.push({node: this.model.parent[node], samples, other});
    this.frames[frame].children = this.group(callers, frame);
    return this.frames[frame].children;
  }
}
