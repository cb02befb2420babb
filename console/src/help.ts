// All keys, those of the room first.

import { h } from "./dom.ts";
import type { Key } from "./room.ts";

const NAMES: Record<string, string> = { ArrowLeft: "\u2190", ArrowRight: "\u2192", ArrowUp: "\u2191", ArrowDown: "\u2193", Escape: "Esc", " ": "Space" };

function rows(keys: Key[]): HTMLElement[] {
  return keys.map((key) => h("tr", {}, h("th", { scope: "row" }, key.keys.map((one) => h("kbd", {}, NAMES[one] ?? one))), h("td", {}, key.words)));
}

export function help(own: Key[], general: Key[]): void {
  const before = document.activeElement;
  const close = h("button", { type: "submit" }, "Close");
  const dialog = h("dialog", { "aria-labelledby": "keys-title" }, h("h2", { id: "keys-title" }, "Keys"),
    own.length > 0 && h("h3", {}, "In this room"), own.length > 0 && h("table", {}, h("tbody", {}, rows(own))),
    h("h3", {}, "Everywhere"), h("table", {}, h("tbody", {}, rows(general))),
    h("p", { class: "soft" }, "The address holds what you look at: it is a link that can be kept, or opened by a colleague whose console has the same run."),
    h("form", { method: "dialog" }, close));
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement) before.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
