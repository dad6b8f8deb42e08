// SPDX-License-Identifier: LGPL-2.1-or-later
// Numbers as people read them, and the box beside the pointer.

const GROUPED = new Intl.NumberFormat('en');

function count(n, singular = 'sample') {
  return `${GROUPED.format(n)} ${singular}${n === 1 ? '' : 's'}`;
}

function percent(part, whole) {
  const value = whole > 0 ? part / whole * 100 : 0;
  return `${value.toFixed(value > 0 && value < .095 ? 2 : 1)} %`;
}

// The difference of two shares, in points.
function points(part, whole, otherPart, otherWhole) {
  const value = (whole > 0 ? part / whole : 0) * 100 - (otherWhole > 0 ? otherPart / otherWhole : 0) * 100;
  return `${value > 0 ? '+' : value < 0 ? '−' : '±'}${Math.abs(value).toFixed(1)}`;
}

function duration(ns) {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]])
    if (ns >= size)
      return `${(ns / size).toFixed(ns >= 100 * size ? 0 : ns >= 10 * size ? 1 : 2)} ${unit}`;
  return `${ns} ns`;
}

function figure(value) {
  const size = Math.abs(value);
  if (size >= 1e4)
    return new Intl.NumberFormat('en', {notation: 'compact', maximumFractionDigits: 1}).format(value);
  return GROUPED.format(Number(value.toPrecision(4)));
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className)
    element.className = className;
  if (text !== undefined)
    element.textContent = text;
  return element;
}

class Tip {
  constructor(element) {
    this.element = element;
  }

  // lines: of [label, value…]
  show(x, y, {title, place, lines}) {
    const rows = lines.map(([label, ...values]) => {
      const row = make('tr');
      row.append(make('th', '', label), ...values.map(value => make('td', 'number', value)));
      return row;
    });
    const table = make('table');
    table.append(...rows);
    this.element.replaceChildren(make('b', '', title));
    if (place)
      this.element.append(make('div', 'place', place));
    this.element.append(table);
    this.element.hidden = false;
    const {width, height} = this.element.getBoundingClientRect();
    const left = x + 14 + width > innerWidth - 8 ? x - 14 - width : x + 14;
    const top = y + 18 + height > innerHeight - 8 ? y - 12 - height : y + 18;
    this.element.style.left = `${Math.max(8, left)}px`;
    this.element.style.top = `${Math.max(8, top)}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}
