// What the rules of a running server read, expect and decide, in the words of `weir env`.

import { get } from "../api.ts";
import { clean, h } from "../dom.ts";
import { note, renewed, same_server, swap, title } from "../live.ts";
import type { Room } from "../room.ts";

export const rules: Room = {
  name: "rules",
  title: "Rules",
  of_run: false,
  key: "R",
  async show(asked) {
    const [told, into] = [note(), h("div", { class: "stack" })];
    asked.into.append(title(asked, "Rules"), told.box, into);
    await renewed(asked, told, async () => {
      const { sections } = await get<{ sections: [string, string[]][] }>("rules", same_server(asked), asked.signal);
      swap(into, ...sections.map(([head, lines]) => h("section", { class: "card" }, head !== "" && h("h2", {}, head), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": head || "The policy", "data-key": head || "policy" }, h("pre", {}, ...lines.map((line) => document.createTextNode(`${clean(line)}\n`)))))));
    });
    return {};
  },
};
