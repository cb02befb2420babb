// What another policy would have done on what a server has recorded, in the words of `weir replay`.

import { post } from "../api.ts";
import { clean, h } from "../dom.ts";
import { count } from "../format.ts";
import { why } from "../live.ts";
import { replace } from "../place.ts";
import type { Room } from "../room.ts";

interface Replayed { lines: string[]; notes: string[]; is_cut: boolean }

const FIRST = 'atom "/**" {\n    rule greedy: during if avg rate@client over 5s > 50rps\n        then shed 90% until avg rate@client over 5s < 20rps;\n}\n';

function lines(label: string, of: string[]): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("pre", {}, ...of.map((line) => document.createTextNode(`${clean(line)}\n`))));
}

function answered(told: Replayed): Node[] {
  const notes = told.notes.length > 0 && h("section", { class: "card wrong", role: "alert" }, h("h2", {}, "What is said of the policy"), lines("What is said of the policy", told.notes));
  const cut = told.is_cut && h("p", { class: "soft" }, `These are the first ${count(told.lines.length)} lines; weir replay prints all.`);
  const done = told.lines.length > 0 && h("section", { class: "card" }, h("h2", {}, "What it would have done"), cut, lines("What it would have done", told.lines));
  return [notes, done].filter((part): part is HTMLElement => part !== false);
}

export const replay: Room = {
  name: "replay",
  title: "Replay",
  of_run: false,
  key: "P",
  of: (has) => has.replay?.recording,
  show(asked) {
    const box = h("textarea", { rows: 12, spellcheck: "false", autocomplete: "off", "aria-label": "The policy" });
    box.value = asked.place.given["policy"] ?? FIRST;
    const into = h("div", { class: "stack", "aria-live": "polite" });
    const ask = async () => {
      replace({ policy: box.value });
      into.replaceChildren(h("p", { class: "soft" }, "It is being replayed"));
      try {
        into.replaceChildren(...answered(await post<Replayed>("replay", {}, box.value, asked.signal)));
      } catch (error) {
        if (!asked.signal.aborted) into.replaceChildren(h("section", { class: "card wrong", role: "alert" }, h("p", { class: "wrong" }, why(error))));
      }
    };
    asked.into.append(
      h("div", { class: "title" }, h("p", { class: "soft" }, h("bdi", {}, asked.has.replay?.recording ?? "")), h("h1", {}, "Another policy on what was recorded")),
      h("section", { class: "card" }, box, h("div", { class: "row" }, h("button", { type: "button", onclick: () => void ask() }, "Replay (r)"))),
      into,
    );
    if (asked.place.given["policy"] !== undefined) void ask();
    return Promise.resolve({ keys: [{ keys: ["r"], words: "replay the policy", act: () => void ask() }, { keys: ["e"], words: "edit the policy (Esc leaves it)", act: () => box.focus() }] });
  },
};
