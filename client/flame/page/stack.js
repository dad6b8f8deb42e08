// SPDX-License-Identifier: LGPL-2.1-or-later
// A stack as text, for reports of bugs: the lines that sondectl report prints of it.

function stackText(stack, {data, whole}) {
  const share = weight => `${(whole > 0 ? weight / whole * 100 : 0).toFixed(1)}%`.padStart(7);
  const lines = stack.map(({fn, total, self}) => {
    const {shown, source} = data.functions[fn];
    return `${share(total)} ${self > 0 ? share(self) : ' '.repeat(7)}  ${shown}${source ? `  ${source}` : ''}`;
  });
  return ['  Total    Self', ...lines, ''].join('\n');
}

// The stack by which most samples get to a function.
function heaviestStack(model, fn) {
  const heaviest = model.outermost(fn).reduce((most, node) => model.total[node] > (most < 0 ? 0 : model.total[most]) ? node : most, -1);
  return stackOf(new CallerTree(model), heaviest);
}

// Browsers that do not let pages of files write the clipboard let a selection be copied.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const before = document.activeElement;
    const area = make('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    before.focus();
    return isCopied;
  }
}
