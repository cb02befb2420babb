// Tables: names of columns, numbers to the right, rows that keys move along.

import { h, type Child } from "./dom.ts";

export interface Column { name: string; number?: boolean; sort?: { href: string; state: "ascending" | "descending" | "none" } }

// A table that scrolls by itself where the page is narrow; a box that scrolls can be reached by Tab.
export function table(label: string, columns: Column[], rows: Child[][]): HTMLElement {
  const head = columns.map((column) => {
    const kind = column.number ? "n" : undefined;
    if (!column.sort) return h("th", { scope: "col", class: kind }, column.name);
    const arrow = { ascending: " \u25b2", descending: " \u25bc", none: "" }[column.sort.state];
    return h("th", { scope: "col", class: kind, "aria-sort": column.sort.state }, h("a", { href: column.sort.href }, column.name + arrow));
  });
  const body = rows.map((cells) => h("tr", {}, cells.map((cell, index) => h("td", { class: columns[index]?.number ? "n" : undefined }, cell))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label, "data-key": label }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

// Moves the focus along the first link of each row.
export function move(within: ParentNode, by: number): void {
  const links = [...within.querySelectorAll<HTMLElement>("tbody tr")].map((row) => row.querySelector<HTMLElement>("a")).filter((one) => one !== null);
  const at = links.findIndex((one) => one === document.activeElement || one.closest("tr")?.contains(document.activeElement));
  const next = links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
