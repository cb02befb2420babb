// Bars of the parts of a response time, and their names.

import type { Part, Parts } from "./api.ts";
import { h, styled } from "./dom.ts";
import { percent, time } from "./format.ts";

let known: Part[] = [];

export function know(parts: Part[]): void {
  known = parts;
}

export function words(part: string): string {
  return known.find((one) => one.name === part)?.words ?? part;
}

// The parts that are there, in the order in which a response passes them.
export function ordered(parts: Parts): [string, number][] {
  const rest = Object.keys(parts).filter((name) => !known.some((one) => one.name === name));
  return [...known.map((one) => one.name), ...rest].map((name): [string, number] => [name, parts[name] ?? 0]).filter(([, ns]) => ns > 0);
}

export function swatch(part: string): HTMLElement {
  return styled(h("span", { class: part === "unattributed" ? "swatch hatched" : "swatch", "aria-hidden": "true" }), { "--colour": `var(--${part}, var(--edge))` });
}

export interface Bar { parts: Parts; whole_ns: number; longest_ns: number; label: string; link?: (part: string) => string }

// A bar as long as its time against the longest. Each part is a link to the requests behind it, where there is one.
export function bar({ parts, whole_ns, longest_ns, label, link }: Bar): HTMLElement {
  const shown = ordered(parts);
  const told = shown.map(([name, ns]) => `${words(name)} ${time(ns)}`).join(", ");
  const made = h("div", { class: "bar", role: link ? "group" : "img", "aria-label": `${label}: ${told}` });
  const largest = Math.max(...shown.map(([, ns]) => ns));
  for (const [name, ns] of shown) {
    const text = `${name}: ${words(name)}, ${time(ns)}, ${percent(ns / whole_ns)}`;
    const kind = `piece${name === "unattributed" ? " hatched" : ""}${ns === largest ? " largest" : ""}`;
    const piece = link ? h("a", { class: kind, href: link(name), title: text, "aria-label": text }) : h("span", { class: kind, title: text });
    made.append(styled(piece, { "--colour": `var(--${name}, var(--edge))`, "--wide": String((100 * ns) / longest_ns) }));
  }
  return made;
}

export function legend(all: Parts[]): HTMLElement {
  const names = ordered(Object.assign({}, ...all.map((parts) => Object.fromEntries(ordered(parts)))) as Parts);
  return h("ul", { class: "legend", "aria-label": "Colours" }, names.map(([name]) => h("li", { title: words(name) }, swatch(name), name)));
}
