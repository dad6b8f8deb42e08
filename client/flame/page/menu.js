// SPDX-License-Identifier: LGPL-2.1-or-later
// A menu of what can be done with a function.

class Menu {
  constructor(element) {
    this.element = element;
    element.addEventListener('keydown', event => this.press(event));
    element.addEventListener('focusout', ({relatedTarget}) => {
      if (!element.contains(relatedTarget))
        this.close();
    });
    addEventListener('blur', () => this.close());
  }

  // items: {label, key, act, isOff}; title: what they are about
  open({x, y}, title, items) {
    const {element} = this;
    this.before = document.activeElement;
    const buttons = items.map(({label, key, act, isOff}) => {
      const button = make('button', '', label);
      button.type = 'button';
      button.tabIndex = -1;
      button.setAttribute('role', 'menuitem');
      button.setAttribute('aria-disabled', String(Boolean(isOff)));
      if (key)
        button.setAttribute('aria-keyshortcuts', key);
      const shown = make('kbd', '', key);
      shown.setAttribute('aria-hidden', 'true');
      button.append(shown);
      button.addEventListener('click', () => {
        if (isOff)
          return;
        this.close();
        act();
      });
      return button;
    });
    element.setAttribute('aria-label', title);
    element.replaceChildren(make('div', 'title', title), ...buttons);
    element.firstChild.setAttribute('aria-hidden', 'true');
    element.hidden = false;
    const {width, height} = element.getBoundingClientRect();
    element.style.left = `${Math.max(8, Math.min(x, innerWidth - width - 8))}px`;
    element.style.top = `${Math.max(8, Math.min(y, innerHeight - height - 8))}px`;
    buttons[0].focus();
  }

  // The focus goes back to where it was.
  close() {
    const {element} = this;
    if (element.hidden)
      return;
    const had = element.contains(document.activeElement);
    element.hidden = true;
    if (had)
      this.before.focus();
  }

  press(event) {
    const buttons = [...this.element.querySelectorAll('button')];
    const at = buttons.indexOf(document.activeElement);
    const next = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1}[event.key];
    if (next !== undefined)
      buttons[(next + buttons.length) % buttons.length].focus();
    else if (event.key === 'Escape' || event.key === 'Tab')
      this.close();
    else if (event.key !== 'Enter' && event.key !== ' ')
      buttons.find(button => button.getAttribute('aria-keyshortcuts') === event.key)?.click();
    if (event.key !== 'Enter' && event.key !== ' ')
      event.preventDefault();
    event.stopPropagation();
  }
}
