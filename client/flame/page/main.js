// SPDX-License-Identifier: LGPL-2.1-or-later
// Puts the page together: what each control changes, and which keys press it.

const $ = id => document.getElementById(id);

const VIEWS = ['graph', 'table', 'tree', 'sandwich', 'chart'];

class Page {
  constructor(data) {
    this.data = data;
    this.model = new Model(data);
    this.colors = new Colors(this.model);
    this.address = new Address(data);
    this.edits = new Edits();
    this.isInverted = false;
    this.shown = 'graph';
    this.setDark(matchMedia('(prefers-color-scheme: dark)').matches);
    this.writeHead();
    $('timeline').hidden = data.unit !== 'sample'; // calls are counted, not dated
    const tip = new Tip($('tip'));
    const on = {
      zoom: isAsked => {
        this.showZoom();
        if (isAsked)
          this.remember();
      },
      focus: text => { $('live').textContent = text; },
      menu: place => this.openMenu(place),
      search: text => this.searchFor(text),
    };
    this.menu = new Menu($('menu'));
    this.graph = new Graph($('scroll'), this.model, this.colors, tip, on);
    this.table = new FunctionTable(this.model, on);
    this.tree = new CallTreeView(this.model, on);
    this.sandwich = new Sandwich(this.model, this.colors, tip, on);
    this.showTrees();
    this.table.update();
    this.timeline = new Timeline(data, this.colors, tip, {select: isGradual => this.select(isGradual)});
    this.chart = new FlameChart(this.model, this.colors, tip, on);
    this.chart.update(this.timeline.rangeNs(), null);
    $('tab-chart').hidden = !data.runs.n;
    this.nameGraph();
    this.showRange();
    this.listen();
    this.written = ''; // the address as it was written last
    if (location.hash)
      this.restore();
    document.addEventListener('keydown', event => this.press(event));
    addEventListener('popstate', () => this.restore());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', ({matches}) => {
      this.setDark(matches);
      this.redraw();
    });
  }

  writeHead() {
    const {title, otherTitle, subject, event, start, durationNs, nSamples, nOther, losses, threshold, stacks, lanes, unit} = this.data;
    const facts = [weigh(nSamples, unit), duration(durationNs), event, losses && `lost: ${losses}`, start.replace('T', ' ').replace(/\.\d+/, '')];
    if (threshold > 1)
      facts.push(`frames of less than ${weigh(threshold, unit)} are summed up`);
    if (stacks.nBuckets < lanes.length)
      facts.push(`ranges in steps of ${duration(stacks.bucketNs)}`);
    $('title').textContent = title;
    if (otherTitle)
      $('title').append(' ', make('small', '', `compared with ${otherTitle} (${count(nOther)})`));
    $('summary').replaceChildren(make('b', '', subject), ...facts.filter(Boolean).map(fact => ` · ${fact}`));
    $('summary').title = $('summary').textContent;
  }

  setDark(isDark) {
    this.isDark = isDark;
    document.documentElement.classList.toggle('dark', isDark);
    $('theme').setAttribute('aria-pressed', String(isDark));
    this.colors.setDark(isDark);
    this.writeLegend();
  }

  writeLegend() {
    const entries = this.colors.legend();
    $('legend').classList.toggle('compared', !entries);
    if (!entries) {
      const scale = make('span', 'scale');
      const stops = [-1, -.5, 0, .5, 1].map(change => this.colors.changeFill(change));
      scale.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
      $('legend').replaceChildren('less', scale, 'more than before');
      return;
    }
    $('legend').replaceChildren(...entries.map(({name, fill}) => {
      const entry = make('span', '', '');
      const box = make('i');
      box.style.background = fill;
      entry.append(box, name);
      return entry;
    }));
  }

  redraw() {
    this.graph.draw();
    this.sandwich.draw();
    this.chart.draw();
    this.timeline.draw();
  }

  nameGraph() {
    const {whole} = this.model;
    $('graph').setAttribute('aria-label', `${this.isInverted ? 'Functions and their callers' : 'Call tree'} of ${weigh(whole, this.data.unit)}`);
  }

  showTrees(how) {
    const tree = this.isInverted ? invert(this.model) : new CallerTree(this.model);
    this.graph.show(tree, how);
    this.tree.show(tree, how);
  }

  // What is seen, for its address.
  state() {
    const {timeline} = this;
    return {
      view: this.shown,
      fn: this.sandwich.fn,
      isInverted: this.isInverted,
      isIcicle: this.graph.isIcicle,
      search: $('search').value.trim(),
      rangeNs: timeline.range && timeline.rangeNs(),
      lane: timeline.chosen,
      edits: this.edits.done,
      path: this.graph.names(this.graph.zoomed),
      thread: this.shown === 'chart' ? this.chart.thread : -1,
      seenNs: this.shown === 'chart' && this.chart.isZoomed() ? this.chart.seen : null,
    };
  }

  // After whatever changes it; once for all that one action changes. What changes little by little, as what is typed,
  // is no step for the browser to go back.
  remember(isGradual = false) {
    if (this.isRestoring)
      return;
    if (this.remembered) {
      this.remembered.isGradual = this.remembered.isGradual && isGradual;
      return;
    }
    this.remembered = {isGradual};
    queueMicrotask(() => {
      const text = this.address.format(this.state());
      const method = this.remembered.isGradual ? 'replaceState' : 'pushState';
      this.remembered = null;
      if (text !== this.written)
        history[method](null, '', `#${text}`);
      this.written = text;
    });
  }

  restore() {
    const state = this.address.parse(location.hash.slice(1));
    this.isRestoring = true;
    this.timeline.restore(state.rangeNs, state.lane);
    this.setInverted(state.isInverted);
    this.edits.set(state.edits);
    this.model.edit(this.edits.done);
    this.model.select(this.timeline.range, this.timeline.threads);
    this.chart.restore(state.thread, null);
    this.update();
    this.chart.restore(state.thread, state.seenNs);
    this.setIcicle(state.isIcicle);
    $('search').value = state.search;
    this.search();
    if (state.fn >= 0)
      this.sandwich.choose(state.fn);
    this.show(state.view);
    this.graph.zoom(this.graph.follow(state.ids, fn => this.address.idOf(fn)));
    this.isRestoring = false;
    this.written = this.address.format(this.state());
  }

  // Weights are others.
  update() {
    this.showTrees();
    this.table.update();
    this.sandwich.update();
    this.chart.update(this.timeline.rangeNs(), this.timeline.threads);
    this.showRange();
    this.showEdits();
    this.nameGraph();
    this.showMatches();
  }

  // The time line has another range, or other threads.
  select(isGradual) {
    const {range, threads} = this.timeline;
    this.model.select(range, threads);
    this.update();
    this.remember(isGradual);
    const where = this.timeline.chosenLabel ? ` of ${this.timeline.chosenLabel}` : '';
    $('live').textContent = `${weigh(this.model.whole, this.data.unit)}${where} selected`;
  }

  edit(change) {
    change(this.edits);
    this.model.edit(this.edits.done);
    this.update();
    this.remember();
    $('live').textContent = $('edits-shown').textContent;
  }

  // What is left out of stacks, and how much that is.
  showEdits() {
    const {model, edits} = this;
    const {unit, functions} = this.data;
    const told = edits.done.map(({verb, fn}, i) => {
      const entry = make('li', '', VERBS[verb].tell(functions[fn].shown));
      if (verb !== 'merge')
        entry.append(`: ${weigh(model.hidden[i], unit)} left out`);
      entry.title = functions[fn].name;
      return entry;
    });
    $('edits').hidden = !edits.done.length && !edits.undone.length;
    $('edits-list').replaceChildren(...told);
    $('edits-shown').textContent = model.whole === model.selected ? `All ${weigh(model.whole, unit)} are shown`
      : `${unit === 'ns' ? duration(model.whole) : GROUPED.format(model.whole)} of ${weigh(model.selected, unit)} are shown, ${percent(model.whole, model.selected)}`;
    $('undo').disabled = !edits.done.length;
    $('redo').disabled = !edits.undone.length;
  }

  showRange() {
    const {timeline, data, model} = this;
    const [from, to] = timeline.rangeNs();
    const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(data.durationNs / 1e9 / 10 || 1e-9))));
    $('from').value = (from / 1e9).toFixed(digits);
    $('to').value = (to / 1e9).toFixed(digits);
    $('range-clear').hidden = !timeline.range;
    $('thread-clear').hidden = !timeline.threads;
    $('selected').textContent = timeline.range || timeline.threads
      ? `${weigh(model.selected, data.unit)}, ${percent(model.selected, data.nSamples)}${timeline.threads ? `, ${timeline.chosenLabel}` : ''}` : '';
  }

  // What is sought, by function: a part of the name or module, or a regular expression between slashes.
  parseSearch() {
    const text = $('search').value.trim();
    const expression = /^\/(.+)\/$/.exec(text);
    if (!text)
      return null;
    let test = value => value.toLowerCase().includes(text.toLowerCase());
    if (expression) {
      const regular = new RegExp(expression[1]);
      test = value => regular.test(value);
    }
    return Uint8Array.from(this.data.functions, fn => test(fn.name) || test(fn.module));
  }

  search() {
    try {
      this.wanted = this.parseSearch();
    } catch {
      $('matched').textContent = 'no regular expression';
      return;
    }
    for (const name of VIEWS)
      this[name].search(this.wanted);
    this.showMatches();
    this.remember(true);
  }

  showMatches() {
    const {model, wanted} = this;
    const n = wanted ? wanted.reduce((sum, is) => sum + is, 0) : 0;
    $('matched').textContent = wanted ? `${percent(model.sumMatches(wanted), model.whole)} matched by ${count(n, 'function')}` : '';
  }

  searchFor(text) {
    $('search').value = text;
    this.search();
    this.show('graph');
  }

  show(name) {
    if ($(`tab-${name}`).hidden)
      return;
    this.shown = name;
    for (const other of VIEWS) {
      const isShown = other === name;
      $(`${other}-panel`).hidden = !isShown;
      $(`tab-${other}`).setAttribute('aria-selected', String(isShown));
      $(`tab-${other}`).tabIndex = isShown ? 0 : -1;
    }
    $('direction').hidden = name !== 'graph';
    $('invert').hidden = name !== 'graph' && name !== 'tree';
    $('reset').hidden = name === 'table' || name === 'tree';
    this[name].appear();
    this.showZoom();
    this.remember();
  }

  showZoom() {
    $('reset').disabled = !this[this.shown].isZoomed();
  }

  // The function that the keys and the menu are about.
  chosen() {
    return this[this.shown].chosen();
  }

  showSandwich({fn}) {
    this.sandwich.choose(fn);
    this.show('sandwich');
    $('live').textContent = `Callers and callees of ${this.data.functions[fn].name}`;
  }

  async copyStack({fn, stack = heaviestStack(this.model, fn)}) {
    const isCopied = await copyText(stackText(stack, this.model));
    this.say(isCopied ? `Stack of ${count(stack.length, 'frame')} copied` : 'The browser does not let the page copy');
  }

  // What everybody is told, and sees for a moment.
  say(text) {
    $('live').textContent = text;
    $('notice').textContent = text;
    $('notice').hidden = false;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => { $('notice').hidden = true; }, 3000);
  }

  openMenu(place) {
    const chosen = this.chosen();
    if (chosen)
      this.menu.open(place, this.data.functions[chosen.fn].shown, DEEDS.map(({label, key, act}) =>
        ({label, key, act: () => act(this, chosen)})));
  }

  openMenuBelow(button) {
    const {left, bottom} = button.getBoundingClientRect();
    if (this.chosen())
      this.openMenu({x: left, y: bottom + 4});
    else
      this.say('Choose a function first: click it, or walk there by arrow keys');
  }

  setIcicle(isIcicle) {
    this.graph.setIcicle(isIcicle);
    for (const [id, isChecked] of [['icicle', isIcicle], ['flame', !isIcicle]]) {
      $(id).setAttribute('aria-checked', String(isChecked));
      $(id).tabIndex = isChecked ? 0 : -1;
    }
    this.remember();
  }

  setInverted(isInverted) {
    const isOther = isInverted !== this.isInverted;
    this.isInverted = isInverted;
    $('invert').setAttribute('aria-pressed', String(isInverted));
    if (isOther)
      this.showTrees({isOther});
    this.nameGraph();
    this.remember();
  }

  switchTheme() {
    this.setDark(!this.isDark);
    this.redraw();
  }

  fold() {
    const isFolded = !$('lanes').hidden;
    $('lanes').hidden = isFolded;
    $('fold').textContent = isFolded ? 'Show' : 'Hide';
    $('fold').setAttribute('aria-expanded', String(!isFolded));
  }

  // The arrow keys of a group of buttons, of which one is on.
  listenToGroup(...ids) {
    for (const id of ids)
      $(id).addEventListener('keydown', event => {
        const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
        if (!step)
          return;
        const there = ids.filter(each => !$(each).hidden);
        const next = $(there[(there.indexOf(id) + step + there.length) % there.length]);
        next.click();
        next.focus();
        event.preventDefault();
      });
  }

  listen() {
    const setRange = () => this.timeline.setRange($('from').valueAsNumber * 1e9 || 0, $('to').valueAsNumber * 1e9 || 0);
    $('search').addEventListener('input', () => this.search());
    $('theme').addEventListener('click', () => this.switchTheme());
    $('help-open').addEventListener('click', () => $('help').showModal());
    for (const name of VIEWS)
      $(`tab-${name}`).addEventListener('click', () => this.show(name));
    $('deeds').addEventListener('click', () => this.openMenuBelow($('deeds')));
    $('flame').addEventListener('click', () => this.setIcicle(false));
    $('icicle').addEventListener('click', () => this.setIcicle(true));
    $('invert').addEventListener('click', () => this.setInverted(!this.isInverted));
    $('reset').addEventListener('click', () => this[this.shown].reset());
    $('from').addEventListener('change', setRange);
    $('to').addEventListener('change', setRange);
    document.querySelector('.skip').addEventListener('click', event => {
      event.preventDefault(); // its address would be another
      this.show('graph');
      $('graph').focus();
    });
    $('undo').addEventListener('click', () => this.edit(edits => edits.undo()));
    $('redo').addEventListener('click', () => this.edit(edits => edits.redo()));
    $('range-clear').addEventListener('click', () => this.timeline.clearRange());
    $('thread-clear').addEventListener('click', () => this.timeline.choose(null));
    $('fold').addEventListener('click', () => this.fold());
    this.listenToGroup(...VIEWS.map(name => `tab-${name}`));
    this.listenToGroup('flame', 'icicle');
  }

  press(event) {
    if ($('help').open)
      return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !(event.target instanceof HTMLInputElement)
        && ['z', 'y'].includes(event.key.toLowerCase())) {
      const isBack = event.key === 'z';
      this.edit(edits => isBack ? edits.undo() : edits.redo());
      event.preventDefault();
    }
    if (event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (event.target instanceof HTMLSelectElement) // letters choose there
      return;
    if (event.target instanceof HTMLInputElement) {
      if (event.key === 'Escape' || event.key === 'Enter' && event.target === $('search'))
        $('graph').focus();
      return;
    }
    const actions = {
      '/': () => $('search').select(),
      Escape: () => this[this.shown].reset(),
      i: () => this.setInverted(!this.isInverted),
      f: () => this.setIcicle(!this.graph.isIcicle),
      t: () => this.show(this.shown === 'table' ? 'graph' : 'table'),
      d: () => this.switchTheme(),
      z: () => this.edit(edits => edits.undo()),
      Z: () => this.edit(edits => edits.redo()),
      '?': () => $('help').showModal(),
    };
    for (const {key, act} of DEEDS)
      actions[key] = () => {
        const chosen = this.chosen();
        if (chosen)
          act(this, chosen);
      };
    VIEWS.forEach((name, i) => { actions[i + 1] = () => this.show(name); });
    if (actions[event.key]) {
      actions[event.key]();
      event.preventDefault();
    }
  }
}

// What can be done with a function that is chosen: {fn, stack}.
const DEEDS = [
  {label: 'Callers and callees', key: 's', act: (page, chosen) => page.showSandwich(chosen)},
  ...Object.entries(VERBS).map(([verb, {label, key}]) =>
    ({label, key, act: (page, {fn}) => page.edit(edits => edits.add(verb, fn))})),
  {label: 'Copy the stack', key: 'c', act: (page, chosen) => page.copyStack(chosen)},
];

loadData($('data')).then(data => new Page(data)).then(() => {
  performance.mark('sonde-drawn');
}, error => {
  document.querySelector('main').replaceChildren(make('p', 'failure', `This page cannot be shown: ${error.message}.`));
  throw error;
});
