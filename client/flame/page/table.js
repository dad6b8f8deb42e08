// SPDX-License-Identifier: LGPL-2.1-or-later
// The functions as a table: what the graph shows, as text.

const PAGE_ROWS = 200;

class FunctionTable {
  // on: {search (text), menu (place)}
  constructor(model, on) {
    const {data} = model;
    this.model = model;
    this.on = on;
    this.columns = [
      {name: 'Function', key: 'name'},
      {name: 'Module', key: 'module'},
      {name: 'Self', key: 'self', isNumber: true},
      {name: 'Total', key: 'total', isNumber: true},
    ];
    if (data.functions.some(fn => fn.source))
      this.columns.splice(2, 0, {name: 'Source', key: 'source'});
    if (data.isCompared)
      this.columns.push({name: 'Self before', key: 'otherSelf', isNumber: true}, {name: 'Change', key: 'change', isNumber: true});
    this.sorted = {key: 'self', isDescending: true};
    this.wanted = null;
    this.body = document.getElementById('rows');
    this.more = document.getElementById('more');
    this.makeHead();
    this.body.addEventListener('focusin', ({target}) => this.choose(target.closest('tr')));
    this.body.addEventListener('contextmenu', event => this.openMenu(event));
  }

  // The row that keys and the menu are about.
  choose(row) {
    for (const other of this.body.querySelectorAll('[aria-current]'))
      other.removeAttribute('aria-current');
    if (row)
      row.setAttribute('aria-current', 'true');
  }

  chosen() {
    const row = this.body.querySelector('[aria-current]');
    return row ? {fn: Number(row.dataset.fn)} : null;
  }

  openMenu(event) {
    const row = event.target.closest('tr');
    const {left, bottom} = row.getBoundingClientRect();
    event.preventDefault();
    this.choose(row);
    this.on.menu(event.button === 2 ? {x: event.clientX, y: event.clientY} : {x: left + 24, y: bottom});
  }

  makeHead() {
    this.heads = this.columns.map(column => {
      const head = make('th', column.isNumber ? 'number' : '');
      const button = make('button', '', column.name);
      head.scope = 'col';
      button.type = 'button';
      button.addEventListener('click', () => this.sortBy(column));
      head.append(button);
      return head;
    });
    document.getElementById('columns').replaceChildren(...this.heads);
  }

  sortBy({key, isNumber}) {
    const isDescending = this.sorted.key === key ? !this.sorted.isDescending : Boolean(isNumber);
    this.sorted = {key, isDescending};
    this.show();
  }

  // After another selection. What nobody sees is not made.
  update() {
    this.entries = null;
    if (this.body.offsetParent)
      this.show();
  }

  search(wanted) {
    this.wanted = wanted;
    if (this.body.offsetParent)
      this.show();
  }

  sumUp() {
    const {model} = this;
    const {data, whole} = model;
    const sums = model.sumFunctions(model.self, model.total);
    const other = data.isCompared ? model.sumFunctions(model.otherSelf, model.otherTotal) : null;
    this.entries = [];
    data.functions.forEach((fn, number) => {
      const before = other ? other.total[number] : 0;
      if (fn.kind === KIND.PROCESS || !sums.total[number] && !before)
        return;
      const otherSelf = other ? other.self[number] : 0;
      this.entries.push({fn: number, name: fn.name, shown: fn.shown, module: fn.module, source: fn.source, self: sums.self[number],
        total: sums.total[number], otherSelf,
        change: other ? sums.self[number] / (whole || 1) - otherSelf / (model.otherWhole || 1) : 0});
    });
  }

  appear() {
    this.show();
  }

  isZoomed() {
    return false;
  }

  reset() {} // it always shows everything

  show(nRows = PAGE_ROWS) {
    if (!this.entries)
      this.sumUp();
    const {key, isDescending} = this.sorted;
    const order = isDescending ? -1 : 1;
    const shown = this.entries.filter(({fn}) => !this.wanted || this.wanted[fn]);
    const compare = (a, b) => typeof a[key] === 'string' ? a[key].localeCompare(b[key]) : a[key] - b[key];
    shown.sort((a, b) => order * compare(a, b) || b.total - a.total);
    this.heads.forEach((head, i) => {
      if (this.columns[i].key === key)
        head.setAttribute('aria-sort', isDescending ? 'descending' : 'ascending');
      else
        head.removeAttribute('aria-sort');
    });
    this.body.replaceChildren(...shown.slice(0, nRows).map(entry => this.makeRow(entry)));
    this.more.replaceChildren(count(shown.length, 'function'));
    if (shown.length > nRows) {
      const button = make('button', 'quiet', 'Show more');
      button.type = 'button';
      button.addEventListener('click', () => this.show(nRows * 5));
      this.more.append(`, ${GROUPED.format(nRows)} shown `, button);
    }
  }

  makeRow(entry) {
    const row = make('tr');
    row.dataset.fn = entry.fn;
    row.append(...this.columns.map(({key}) => this.makeCell(entry, key)));
    return row;
  }

  makeCell(entry, key) {
    const {otherWhole, whole} = this.model;
    if (key === 'name') {
      const cell = make('td', 'name');
      const button = make('button', '', entry.shown);
      button.type = 'button';
      button.title = `${entry.name} (search for it in the graph)`;
      button.addEventListener('click', () => this.on.search(entry.name));
      cell.append(button);
      return cell;
    }
    if (key === 'module' || key === 'source')
      return make('td', 'module', entry[key]);
    if (key === 'change') {
      const points = `${entry.change > 0 ? '+' : entry.change < 0 ? '−' : ''}${Math.abs(entry.change * 100).toFixed(1)}`;
      return make('td', `number ${entry.change > .0005 ? 'more' : entry.change < -.0005 ? 'less' : ''}`, points);
    }
    const of = key === 'otherSelf' ? otherWhole : whole;
    const cell = make('td', 'number', `${GROUPED.format(entry[key])} `);
    cell.append(make('span', 'percent', percent(entry[key], of)));
    if (key !== 'otherSelf') {
      const share = make('span', 'share');
      const bar = make('i');
      bar.style.width = `${entry[key] / (of || 1) * 100}%`;
      share.append(bar);
      cell.append(share);
    }
    return cell;
  }
}
