// All runs below the directories that the console was given.

import { get, type Run } from "../api.ts";
import { h, name, short } from "../dom.ts";
import { bytes, count, date, time } from "../format.ts";
import { go, link } from "../place.ts";
import type { Room } from "../room.ts";
import { move, table } from "../table.ts";

function state(run: Run): string {
  if (run.refused) return "not here";
  if (!run.opened) return "not read yet";
  const { state, error } = run.opened;
  return { waiting: "waits", reading: "is being read", open: "open", failed: `cannot be read: ${error ?? ""}` }[state];
}

function row(run: Run, compared: Set<string>): (Node | string)[] {
  const box = h("input", { type: "checkbox", "aria-label": `compare ${short(run.run)}`, disabled: run.refused !== undefined });
  box.addEventListener("change", () => (box.checked ? compared.add(run.run) : compared.delete(run.run)));
  const title = run.refused ? h("span", { title: run.refused }, name(run.run)) : h("a", { href: link("answer", { run: run.run }) }, name(run.run));
  return [box, title, date(run.begin_unix_ns), time(run.duration_ns), count(run.events), bytes(run.bytes), run.host ?? "-", run.refused ?? state(run), name(run.command ?? "-", 60)];
}

export const runs: Room = {
  name: "runs",
  title: "Runs",
  of_run: false,
  async show({ into, has, signal, tell }) {
    const told = await get<{ runs: Run[]; is_cut: boolean }>("runs", {}, signal);
    const compared = new Set<string>();
    const compare = () => {
      if (compared.size < 2) return tell("Mark two runs or more to compare them.");
      go("compare", Object.fromEntries([...compared].slice(0, 8).map((run, index) => [`run${index + 1}`, run])));
    };
    const columns = [{ name: "" }, { name: "Run" }, { name: "Begin" }, { name: "Time", number: true }, { name: "Events", number: true }, { name: "Size", number: true }, { name: "Host" }, { name: "State" }, { name: "Recorded by" }];
    columns[0]!.name = "Compare";
    const where = has.directories.join(", ");
    into.append(
      h("div", { class: "title" }, h("h1", {}, "Runs"), h("p", { class: "soft" }, "below ", h("bdi", {}, where))),
      told.runs.length === 0
        ? h("p", { class: "card" }, "There is no run here. ", h("code", {}, "weir explain --load URL --port PORT"), " records one into weir-runs.")
        : h("section", { class: "card" }, table("Runs", columns, told.runs.map((run) => row(run, compared))),
            h("p", { class: "row" }, h("button", { type: "button", onclick: compare }, "Compare the marked ones"), told.is_cut && h("span", { class: "soft" }, "There are more than the list has room for; name a directory further below."))),
    );
    return {
      keys: [
        { keys: ["j", "ArrowDown"], words: "the next run", act: () => move(into, 1) },
        { keys: ["k", "ArrowUp"], words: "the run before", act: () => move(into, -1) },
        { keys: ["x"], words: "mark the run to be compared", act: () => document.activeElement?.closest("tr")?.querySelector("input")?.click() },
        { keys: ["c"], words: "compare the marked runs", act: compare },
      ],
    };
  },
};
