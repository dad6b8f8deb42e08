// SPDX-License-Identifier: LGPL-2.1-or-later
// What is seen as the fragment of the page's address, so that a link opens the same and the browser goes back.

const MAX_EDITS = 64; // of a link, which anybody may have made

class Address {
  // Functions go by module and name, which another page of the same program has, too.
  constructor({functions}) {
    this.keys = [];
    this.byKey = new Map();
    functions.forEach(({module, name}, fn) => {
      let key = module ? `${module}!${name}` : name;
      for (let n = 2; this.byKey.has(key); n++)
        key = `${module}!${name} #${n}`;
      this.byKey.set(key, fn);
      this.keys.push(key);
    });
  }

  // Short: of a path there are many.
  idOf(fn) {
    return hash(this.keys[fn]).toString(36);
  }

  format({view, fn, isInverted, isIcicle, search, rangeNs, lane, edits, path}) {
    const parts = new URLSearchParams();
    const add = (name, value) => value && parts.append(name, value);
    add('view', view === 'graph' ? '' : view);
    add('of', view === 'sandwich' && fn >= 0 ? this.keys[fn] : '');
    add('invert', isInverted ? 1 : '');
    add('icicle', isIcicle ? 1 : '');
    add('search', search);
    add('time', rangeNs ? rangeNs.map(ns => Number((ns / 1e9).toFixed(9))).join('-') : '');
    add('lane', lane);
    for (const edit of edits)
      add(edit.verb, this.keys[edit.fn]);
    add('at', path.map(at => this.idOf(at)).join('.'));
    return parts.toString();
  }

  // What it does not know is left out.
  parse(text) {
    const parts = new URLSearchParams(text);
    const time = /^([\d.]+)-([\d.]+)$/.exec(parts.get('time') || '');
    const rangeNs = time && [Number(time[1]) * 1e9, Number(time[2]) * 1e9];
    const edits = [...parts].map(([verb, key]) => ({verb, fn: this.byKey.get(key)}))
      .filter(({verb, fn}) => Object.hasOwn(VERBS, verb) && fn !== undefined).slice(0, MAX_EDITS);
    return {
      view: VIEWS.includes(parts.get('view')) ? parts.get('view') : 'graph',
      fn: this.byKey.get(parts.get('of')) ?? -1,
      isInverted: parts.has('invert'),
      isIcicle: parts.has('icicle'),
      search: parts.get('search') || '',
      rangeNs: rangeNs && rangeNs.every(Number.isFinite) ? rangeNs : null,
      lane: parts.get('lane'),
      edits,
      ids: (parts.get('at') || '').split('.').filter(Boolean),
    };
  }
}
