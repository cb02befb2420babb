// Rooms of a running server: asked again and again, and what is said when it does not answer.

import { Refused, type Server } from "./api.ts";
import { h } from "./dom.ts";
import type { Given } from "./place.ts";
import type { Asked } from "./room.ts";

export const EVERY_MS = 2000;

export function why(error: unknown): string {
  if (error instanceof TypeError) return "The console does not answer: it has ended, or this page is from one before.";
  return error instanceof Error ? error.message : String(error);
}

// Whether asking the same again may help.
export function may_pass(error: unknown): boolean {
  return !(error instanceof Refused && error.status === 400);
}

// The server that a page's address names: the first one without a word on it.
export function server_of(has: { servers: Server[] }, number: string | undefined): Server | undefined {
  return has.servers[Number(number ?? 1) - 1];
}

// What a call or a link to a live room says besides: which server.
export function same_server(asked: Asked, given: Given = {}): Given {
  return { ...given, server: asked.place.given["server"] };
}

export interface Note { box: HTMLElement; wrong: (text: string) => void; fine: () => void }

// A place for what is wrong at the moment; what was shown before stays below it.
export function note(): Note {
  const words = h("p", { class: "wrong" });
  const box = h("section", { class: "card wrong", role: "alert" });
  box.hidden = true;
  return {
    box,
    wrong: (text) => {
      if (words.textContent === text && !box.hidden) return;
      words.textContent = text;
      box.replaceChildren(words);
      box.hidden = false;
    },
    fine: () => {
      box.hidden = true;
      box.replaceChildren();
    },
  };
}

export function title(asked: Asked, text: string, ...more: (Node | string)[]): HTMLElement {
  return h("div", { class: "title" }, h("p", { class: "soft" }, h("bdi", {}, server_of(asked.has, asked.place.given["server"])?.address ?? "")), h("h1", {}, text), ...more);
}

// Asks at once and every so often from then on, as long as the room is shown and its page can be seen.
export async function renewed(asked: Asked, told: Note, renew: () => Promise<void>, every_ms = EVERY_MS): Promise<void> {
  const turn = async (): Promise<void> => {
    if (asked.signal.aborted) return;
    try {
      if (!document.hidden) {
        await renew();
        told.fine();
      }
    } catch (error) {
      if (asked.signal.aborted) return;
      told.wrong(why(error));
    }
    window.setTimeout(() => void turn(), every_ms);
  };
  await turn();
}

// Puts new content in the place of the old one; what had the focus or was scrolled is so again.
export function swap(into: HTMLElement, ...fresh: Node[]): void {
  const active = document.activeElement;
  const key = active instanceof HTMLElement && into.contains(active) ? active.dataset["key"] : undefined;
  const left = into.querySelector(".scroll")?.scrollLeft ?? 0;
  into.replaceChildren(...fresh);
  const box = into.querySelector(".scroll");
  if (box) box.scrollLeft = left;
  if (key !== undefined) into.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// Asks a person before something is done that cannot be undone.
export function confirmed(question: string, yes: string, act: () => void): void {
  const before = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["key"] : undefined;
  const sure = h("button", { type: "button" }, yes);
  const dialog = h("dialog", { "aria-labelledby": "sure" }, h("h2", { id: "sure" }, question), h("form", { method: "dialog", class: "row" }, sure, h("button", { type: "submit" }, "Cancel (Esc)")));
  sure.addEventListener("click", () => {
    dialog.close();
    act();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    // The table may have been renewed meanwhile.
    if (before !== undefined) document.querySelector<HTMLElement>(`[data-key="${CSS.escape(before)}"]`)?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  sure.focus();
}
