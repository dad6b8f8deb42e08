// SPDX-License-Identifier: LGPL-2.1-or-later
// Colours of frames: the heaviest modules have a hue each; within one, neighbours differ a little in shade.

const HUES = [255, 165, 300, 85, 205, 345, 125, 35]; // degrees, OKLCH
const MAX_LEGEND = 6;
const N_SHADES = 5;
const KERNEL_HUE = 55;

const THEMES = {
  light: {lightness: .845, step: .014, chroma: .072, text: '#18202b', grey: '#d9dee5', light: '#eceff3', other: '#ccd3dc',
    same: [.93, .004], far: [.70, .135]},
  dark: {lightness: .44, step: .02, chroma: .068, text: '#eef2f7', grey: '#363f4c', light: '#262d37', other: '#445060',
    same: [.34, .006], far: [.50, .135]},
};

// A number that stays the same from page to page.
function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++)
    value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

class Colors {
  constructor(model) {
    const {functions, isCompared} = model.data;
    const {self} = model.sumFunctions(model.self, model.total);
    this.functions = functions;
    this.isCompared = isCompared;
    this.modules = new Map();
    functions.forEach(({kind, module}, fn) => {
      if (kind === KIND.USER)
        this.modules.set(module, (this.modules.get(module) || 0) + self[fn]);
    });
    const ranked = [...this.modules].sort((a, b) => b[1] - a[1]).slice(0, HUES.length);
    this.hues = new Map(ranked.map(([module], i) => [module, HUES[i]]));
    this.setDark(false);
  }

  setDark(isDark) {
    const css = getComputedStyle(document.documentElement);
    this.theme = isDark ? THEMES.dark : THEMES.light;
    this.fills = new Array(this.functions.length);
    for (const name of ['ground', 'panel', 'line', 'text', 'muted', 'accent', 'lane', 'lane-edge', 'mark', 'counter', 'shade', 'match'])
      this[name] = css.getPropertyValue(`--${name}`).trim();
  }

  moduleFill(hue, shade) {
    const {lightness, step, chroma} = this.theme;
    return `oklch(${lightness + shade * step} ${chroma} ${hue})`;
  }

  makeFill({kind, name, module}) {
    const shade = hash(name) % N_SHADES - (N_SHADES - 1) / 2;
    if (kind === KIND.PROCESS || kind === KIND.INCOMPLETE)
      return this.theme.grey;
    if (kind === KIND.LIGHT)
      return this.theme.light;
    if (kind === KIND.KERNEL)
      return this.moduleFill(KERNEL_HUE, shade);
    const hue = this.hues.get(module);
    return hue === undefined ? this.theme.other : this.moduleFill(hue, shade);
  }

  fill(fn) {
    if (!this.fills[fn])
      this.fills[fn] = this.makeFill(this.functions[fn]);
    return this.fills[fn];
  }

  // change: -1 it was there only before … 0 the same share … 1 it is new.
  changeFill(change) {
    const {same, far} = this.theme;
    const amount = Math.round(Math.min(Math.abs(change), 1) * 12) / 12;
    const mix = i => same[i] + (far[i] - same[i]) * amount;
    return `oklch(${mix(0)} ${mix(1)} ${change > 0 ? 28 : 255})`;
  }

  legend() {
    if (this.isCompared)
      return null;
    const entries = [...this.hues].slice(0, MAX_LEGEND)
      .map(([module, hue]) => ({name: module || 'no module', fill: this.moduleFill(hue, 0)}));
    if (this.functions.some(({kind}) => kind === KIND.KERNEL))
      entries.push({name: 'kernel', fill: this.moduleFill(KERNEL_HUE, 0)});
    return entries;
  }
}
