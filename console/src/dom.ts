// Elements are made of text alone: what a run holds is never read as markup, a style or a script.

// Characters that would change how the text beside them reads: controls, and marks of direction.
// eslint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

export function clean(text: string): string {
  return text.replace(UNSAFE, "\ufffd");
}

// Ties units to their figures with spaces that do not break.
export function tied(text: string): string {
  return text.replace(/(\d) (?=(%|ns|us|ms|s)\b|%)/g, "$1\u00a0");
}

// Text of at most so many characters, dots in the place of its middle: names differ at either end.
export function short(text: string, most = 80): string {
  const all = [...clean(text)];
  if (all.length <= most) return all.join("");
  const head = Math.floor((most - 1) / 3);
  return `${all.slice(0, head).join("")}\u2026${all.slice(all.length - (most - 1 - head)).join("")}`;
}

export type Child = Node | string | number | null | undefined | false;
export type Properties = Record<string, string | number | boolean | EventListener | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: Properties = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (key === "value" && made instanceof HTMLInputElement) made.value = String(value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  put(made, children);
  return made;
}

export function put(into: Element, children: (Child | Child[])[]): void {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    into.append(typeof child === "object" ? child : document.createTextNode(clean(String(child))));
  }
}

// A style property by the object model, which the content security policy lets pass.
export function styled<E extends HTMLElement>(element: E, properties: Record<string, string>): E {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
  return element;
}

// A name from a run: cut in the middle, whole in its title, its direction its own.
export function name(text: string, most = 80): HTMLElement {
  const whole = clean(text);
  const cut = short(text, most);
  return h("bdi", { class: "name", title: cut === whole ? undefined : whole.slice(0, 2000) }, cut);
}

export function required<E extends Element>(id: string, kind: new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page lacks #${id}`);
  return found;
}
