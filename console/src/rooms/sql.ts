// Questions in SQL to a run; they can only read.

import { get, post, type Questions, type Rows } from "../api.ts";
import { h, name, put } from "../dom.ts";
import { count, time } from "../format.ts";
import { link, replace } from "../place.ts";
import { opened, run_of, type Room } from "../room.ts";
import { table } from "../table.ts";

const FIRST = "SELECT class, count(*) AS requests, avg(response_ns) AS mean_response_ns\nFROM requests GROUP BY class ORDER BY 2 DESC";

function cell(value: string | number | null, column: string, run: string): Node | string {
  if (value === null) return h("span", { class: "soft" }, "NULL");
  if (["request_id", "id"].includes(column) && typeof value === "number") return h("a", { href: link("request", { run, id: value }) }, String(value));
  if (typeof value === "number") return h("span", { title: column.endsWith("_ns") ? time(value) : undefined }, Number.isInteger(value) ? String(value) : value.toFixed(3));
  return name(value, 120);
}

function answered(rows: Rows, run: string, took_ms: number): HTMLElement {
  const columns = rows.columns.map((column, index) => ({ name: column, number: rows.rows.every((row) => typeof row[index] !== "string") }));
  const told = `${count(rows.rows.length)}${rows.is_cut ? " rows, and there are more: weir sql prints all" : " rows"}, ${time(took_ms * 1e6)}`;
  return h("div", {}, h("p", { class: "soft" }, told), rows.columns.length > 0 && table("Answer", columns, rows.rows.map((row) => row.map((value, index) => cell(value, rows.columns[index] ?? "", run)))));
}

function tables(known: Questions): HTMLElement {
  const one = (told: Questions["tables"][number]) => h("details", {}, h("summary", {}, h("code", {}, told.name), " ", h("span", { class: "soft" }, told.doc)),
    h("dl", { class: "columns" }, told.columns.map((column) => h("div", {}, h("dt", {}, h("code", {}, column.name), ` ${column.kind}`), h("dd", {}, column.doc)))));
  return h("section", { class: "card" }, h("h2", {}, "Tables"), known.tables.map(one));
}

export const sql: Room = {
  name: "sql",
  title: "SQL",
  of_run: true,
  async show(asked) {
    const run = run_of(asked.place);
    await opened(asked, run, "requests");
    const known = await get<Questions>("questions", {}, asked.signal);
    const box = h("textarea", { rows: 8, spellcheck: "false", autocomplete: "off", "aria-label": "The question, in SQL" });
    box.value = asked.place.given["q"] ?? FIRST;
    const into = h("section", { class: "card", "aria-live": "polite" });
    into.hidden = true;
    const ask = async () => {
      replace({ q: box.value });
      into.hidden = false;
      into.replaceChildren(h("p", { class: "soft" }, "It is being answered; tables that it needs are made once."));
      const begin = performance.now();
      try {
        const rows = await post<Rows>("sql", { run }, box.value, asked.signal);
        into.replaceChildren(answered(rows, run, performance.now() - begin));
      } catch (error) {
        if (!asked.signal.aborted) into.replaceChildren(h("p", { class: "wrong" }, error instanceof Error ? error.message : String(error)));
      }
    };
    const saved = h("select", { "aria-label": "Saved questions" }, h("option", { value: "" }, "Saved questions"), known.saved.map((one) => h("option", { value: one.name }, `${one.name}: ${one.asks}`)));
    saved.addEventListener("change", () => {
      const found = known.saved.find((one) => one.name === saved.value);
      if (!found) return;
      box.value = found.sql;
      void ask();
    });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      void ask();
    });
    put(asked.into, [h("div", { class: "title" }, h("p", { class: "soft" }, name(run)), h("h1", {}, "Ask in SQL")),
      h("section", { class: "card" }, box, h("p", { class: "row" }, h("button", { type: "button", onclick: () => void ask() }, "Ask (Ctrl Enter)"), saved)), into, tables(known)]);
    if (asked.place.given["q"]) void ask();
    return { keys: [{ keys: ["/"], words: "write the question; Ctrl Enter asks it", act: () => box.focus() }, { keys: ["Enter"], words: "ask the question", act: () => void ask() }] };
  },
};
