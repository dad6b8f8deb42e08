// SPDX-License-Identifier: LGPL-2.1-or-later
// What is seen as the fragment of the page's address, so that a link opens the same and the browser goes back.

const MAX_EDITS = 64; // of a link, which anybody may have made

class Address {
  // Functions go by module and name, which another page of the same program has, too.
  constructor({functions}) {
    this.keys = [];
    this.byKey = new Map();
    const counts = new Map(); // of functions of the same name there may be many
    functions.forEach(({module, name}, fn) => {
      const wanted = module ? `${module}!${name}` : name;
      const n = (counts.get(wanted) || 0) + 1;
      const key = n > 1 ? `${wanted} #${n}` : wanted;
      counts.set(wanted, n);
      if (!this.byKey.has(key))
        this.byKey.set(key, fn);
      this.keys.push(key);
    });
  }

  // Short: of a path there are many.
  idOf(fn) {
    return hash(this.keys[fn]).toString(36);
  }

  format({view, fn, isInverted, isIcicle, search, rangeNs, lane, edits, path, thread, seenNs}) {
    const parts = new URLSearchParams();
    const add = (name, value) => value && parts.append(name, value);
    add('view', view === 'graph' ? '' : view);
    add('of', view === 'sandwich' && fn >= 0 ? this.keys[fn] : '');
    add('invert', isInverted ? 1 : '');
    add('icicle', isIcicle ? 1 : '');
    add('search', search);
    add('time', this.formatRange(rangeNs));
    add('lane', lane);
    for (const edit of edits)
      add(edit.verb, this.keys[edit.fn]);
    add('thread', thread >= 0 ? String(thread) : '');
    add('seen', this.formatRange(seenNs));
    add('at', path.map(at => this.idOf(at)).join('.'));
    return parts.toString();
  }

  // In seconds.
  formatRange(ns) {
    return ns ? ns.map(each => Number((each / 1e9).toFixed(9))).join('-') : '';
  }

  parseRange(text) {
    const parts = /^([\d.]+)-([\d.]+)$/.exec(text || '');
    const ns = parts && [Number(parts[1]) * 1e9, Number(parts[2]) * 1e9];
    return ns && ns.every(Number.isFinite) ? ns : null;
  }

  // What it does not know is left out.
  parse(text) {
    const parts = new URLSearchParams(text);
    const edits = [...parts].map(([verb, key]) => ({verb, fn: this.byKey.get(key)}))
      .filter(({verb, fn}) => Object.hasOwn(VERBS, verb) && fn !== undefined).slice(0, MAX_EDITS);
    return {
      view: VIEWS.includes(parts.get('view')) ? parts.get('view') : 'graph',
      fn: this.byKey.get(parts.get('of')) ?? -1,
      isInverted: parts.has('invert'),
      isIcicle: parts.has('icicle'),
      search: parts.get('search') || '',
      rangeNs: this.parseRange(parts.get('time')),
      lane: parts.get('lane'),
      edits,
      thread: parts.has('thread') ? Number(parts.get('thread')) : -1,
      seenNs: this.parseRange(parts.get('seen')),
      ids: (parts.get('at') || '').split('.').filter(Boolean),
    };
  }
}
