// SPDX-License-Identifier: LGPL-2.1-or-later
// One function between those that call it, above, and those that it calls, below.

class Sandwich {
  // on: as of Graph
  constructor(model, colors, tip, on) {
    const graph = side => new Graph(document.getElementById(`${side}-scroll`), model, colors, tip,
      {...on, zoom: () => on.zoom(false), menu: place => {
        this.used = this[side];
        on.menu(place);
      }});
    this.model = model;
    this.fn = -1;
    this.isStale = null; // since it was drawn weights are others: 'same', or the function is: 'other'
    this.callers = graph('callers');
    this.callees = graph('callees');
    this.callees.isIcicle = true;
    this.graphs = [this.callers, this.callees];
    this.used = this.callees; // the one that was used last
    for (const one of this.graphs)
      one.canvas.addEventListener('focus', () => { this.used = one; });
    this.name = document.getElementById('sandwich-name');
    this.note = document.getElementById('sandwich-note');
  }

  // Until then it is the heaviest.
  choose(fn) {
    this.fn = fn;
    this.update(true);
  }

  findHeaviest() {
    const {data, self, total} = this.model;
    const sums = this.model.sumFunctions(self, total);
    let heaviest = -1;
    data.functions.forEach(({kind}, fn) => {
      if (kind !== KIND.PROCESS && kind !== KIND.LIGHT && sums.self[fn] > (heaviest < 0 ? 0 : sums.self[heaviest]))
        heaviest = fn;
    });
    return heaviest;
  }

  // After another selection, or where the function is another. What nobody sees is not made.
  update(isOther = false) {
    if (!this.name.offsetParent) {
      this.isStale = isOther ? 'other' : this.isStale || 'same';
      return;
    }
    if (this.fn < 0)
      this.fn = this.findHeaviest();
    const {model, fn} = this;
    const {shown = '', module = '', source = ''} = model.data.functions[fn] || {};
    const sums = model.sumFunctions(model.self, model.total);
    const total = fn < 0 ? 0 : sums.total[fn];
    this.name.textContent = shown || 'No function';
    this.name.title = fn < 0 ? '' : model.data.functions[fn].name;
    this.note.textContent = [module, source,
      total > 0 ? `total ${percent(total, model.whole)}, ${weigh(total, model.data.unit)}; self ${percent(sums.self[fn], model.whole)}`
        : 'nothing of it is selected'].filter(Boolean).join(' · ');
    for (const graph of this.graphs) {
      graph.scroll.hidden = total === 0;
      if (total > 0)
        graph.show(around(model, fn, graph === this.callers), {root: 0, isOther});
    }
    this.callers.canvas.setAttribute('aria-label', `Callers of ${shown}`);
    this.callees.canvas.setAttribute('aria-label', `What ${shown} calls`);
  }

  appear() {
    const {isStale} = this;
    this.isStale = null;
    if (isStale || this.fn < 0)
      this.update(isStale === 'other');
    for (const graph of this.graphs)
      graph.resize();
  }

  search(wanted) {
    for (const graph of this.graphs)
      graph.search(wanted);
  }

  draw() {
    for (const graph of this.graphs)
      graph.draw();
  }

  // A frame of its graphs, or the function itself.
  chosen() {
    return this.used.chosen() || (this.fn < 0 ? null : {fn: this.fn});
  }

  isZoomed() {
    return this.graphs.some(graph => graph.tree && graph.zoomed !== graph.root);
  }

  reset() {
    for (const graph of this.graphs)
      if (graph.tree)
        graph.reset();
  }
}
