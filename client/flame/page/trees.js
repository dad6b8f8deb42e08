// SPDX-License-Identifier: LGPL-2.1-or-later
// The trees that can be drawn of a model. Frame -1 stands for everything.

// From the processes to the functions that ran. Frames are the model's nodes.
class CallerTree {
  constructor(model) {
    this.model = model;
    this.isUpward = false;
  }

  nodeOf(frame) {
    return frame;
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

// Grows where it is looked at: a frame holds the nodes at which its stacks have arrived on their way, with the samples
// of each. They go up, to the outermost frame, or down, to the functions that ran.
class GroupedTree {
  // arrivals: of {node, samples, other}, at which the outermost frames are
  constructor(model, arrivals, isUpward) {
    this.model = model;
    this.isUpward = isUpward;
    this.frames = [];
    this.outermost = this.group(arrivals, -1);
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

  // Where the stacks that have arrived at a node are one step later.
  * step({node, samples, other}) {
    const {parent, end} = this.model;
    if (!this.isUpward)
      for (let i = node + 1; i < end[node]; i = end[i])
        yield arriveAt(this.model, i);
    else if (parent[node] >= 0)
      yield {node: parent[node], samples, other};
  }

  nodeOf() {
    return -1;
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

  // Upward, what ran is the frame at the edge, and its callers only wait.
  selfOf(frame) {
    if (frame < 0)
      return 0;
    const {arrivals, parent} = this.frames[frame];
    return this.isUpward && parent >= 0 ? 0 : arrivals.reduce((sum, {node}) => sum + this.model.self[node], 0);
  }

  parentOf(frame) {
    return this.frames[frame].parent;
  }

  childrenOf(frame) {
    if (frame < 0)
      return this.outermost;
    const grown = this.frames[frame];
    if (!grown.children) {
      const arrivals = [];
      for (const arrival of grown.arrivals)
        for (const next of this.step(arrival))
          arrivals.push(next);
      grown.children = this.group(arrivals, frame);
    }
    return grown.children;
  }
}

function arriveAt(model, node) {
  return {node, samples: model.total[node], other: model.isCompared ? model.otherTotal[node] : 0};
}

// From the functions that ran to their callers.
function invert(model) {
  const arrivals = [];
  for (let node = 0; node < model.length; node++) {
    const other = model.isCompared ? model.otherSelf[node] : 0;
    if (model.self[node] > 0 || other > 0)
      arrivals.push({node, samples: model.self[node], other});
  }
  return new GroupedTree(model, arrivals, true);
}

// The callers of one function, or what it calls: that function, once in each stack, is the outermost frame.
function around(model, fn, isUpward) {
  return new GroupedTree(model, model.outermost(fn).map(node => arriveAt(model, node)), isUpward);
}

// The stack that a frame of a tree stands for, its outermost function first.
function stackOf(tree, frame) {
  const stack = [];
  for (; frame >= 0; frame = tree.parentOf(frame))
    stack.push({fn: tree.fnOf(frame), total: tree.totalOf(frame), self: tree.selfOf(frame)});
  return tree.isUpward ? stack : stack.reverse();
}
