// The last requests of a running server, searched.

import { get, type History, type Past } from "../api.ts";
import { h, name, type Child } from "../dom.ts";
import { bytes, count, moment, time } from "../format.ts";
import { note, swap, title, why } from "../live.ts";
import { go, link } from "../place.ts";
import type { Room } from "../room.ts";
import { move, table } from "../table.ts";

// With the server, these are the parameters of the call as well.
const NAMES = ["filter", "limit", "from_unix_s", "to_unix_s", "server"];
const MOST = 1000;
const COLUMNS = [{ name: "Request" }, { name: "Status", number: true }, { name: "Took", number: true }, { name: "Bytes", number: true }, { name: "Client" }, { name: "At" }, { name: "Protocol" }];

function asked_for(past: Past): string {
  if (past.method === "") return "(no request that can be read)";
  return `${past.method} ${past.host}${past.path}${past.query === "" ? "" : `?${past.query}`}`;
}

function row(past: Past, index: number, server: string | undefined): Child[] {
  const client = h("a", { href: link("last", { filter: `client=${past.client}`, server }), title: "the requests of this client", "data-key": `row ${index}` }, h("bdi", {}, past.client));
  return [name(asked_for(past), 100), past.status === 0 ? "none" : h("span", { class: past.status >= 500 ? "verdict longer" : undefined }, String(past.status)), time(past.duration_us * 1e3), bytes(past.sent_bytes), client, moment(past.began_unix_ms), past.protocol];
}

// The time that was chosen in the room Activity, with a link that takes it away.
function chip(given: Record<string, string>): HTMLElement | null {
  const { from_unix_s, to_unix_s } = given;
  if (!from_unix_s || !to_unix_s) return null;
  const words = `began from ${moment(Number(from_unix_s) * 1000, false)} to ${moment(Number(to_unix_s) * 1000, false)}`;
  return h("ul", { class: "chips", "aria-label": "The filter" }, h("li", {}, h("a", { href: link("last", { filter: given["filter"], server: given["server"] }), title: "take it away", "aria-label": `${words}: take it away` }, words, " \u00d7")));
}

function shown(now: History, given: Record<string, string>): HTMLElement[] {
  const number = now.requests.length;
  const more = now.matching > number && number < MOST && h("a", { href: link("last", { ...given, limit: MOST }) }, `up to ${count(MOST)}`);
  const words = `${count(number)} of ${count(now.matching)} like this, of the ${count(now.kept)} that are kept${now.gone > 0 ? `; ${count(now.gone)} before these are gone` : ""}${now.missed > 0 ? `; ${count(now.missed)} were not noted, as the history was being read` : ""}${now.looked_through ? `; only the latest ${count(now.looked_through)} were looked through for this time` : ""}`;
  if (number === 0) return [h("p", { class: "card" }, given["from_unix_s"] ? "The history has no request of that time any more, or there was none." : "No request is like this.", h("br"), h("span", { class: "soft" }, words))];
  return [h("section", { class: "card" }, table("The last requests", COLUMNS, now.requests.map((past, index) => row(past, index, given["server"]))), h("p", { class: "row" }, h("span", { class: "soft" }, words), more))];
}

export const last: Room = {
  name: "last",
  title: "Last requests",
  of_run: false,
  key: "L",
  async show(asked) {
    const given = Object.fromEntries(Object.entries(asked.place.given).filter(([key]) => NAMES.includes(key)));
    const box = h("input", { type: "search", name: "filter", value: given["filter"] ?? "", placeholder: "status=5xx duration>100ms path=/api/**", autocomplete: "off", spellcheck: "false" });
    const form = h("form", { class: "filter", role: "search" }, h("label", { class: "wide" }, "Words as for weir requests", box), h("button", { type: "submit" }, "Filter"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      go("last", { ...given, filter: box.value.trim() });
    });
    const [told, into] = [note(), h("div", { class: "stack past" })];
    const read = async () => {
      try {
        const now = await get<History>("last", given, asked.signal);
        swap(into, ...shown(now, given));
        told.fine();
      } catch (error) {
        if (asked.signal.aborted) return;
        told.wrong(`${why(error)} (r asks again)`);
      }
    };
    asked.into.append(title(asked, "The last requests"), h("section", { class: "card" }, form, chip(given)), h("p", { class: "row" }, h("button", { type: "button", onclick: () => void read() }, "Read anew (r)"), h("span", { class: "soft" }, "Values in queries are left out.")), told.box, into);
    await read();
    return {
      keys: [
        { keys: ["j", "ArrowDown"], words: "the next request", act: () => move(into, 1) },
        { keys: ["k", "ArrowUp"], words: "the request before", act: () => move(into, -1) },
        { keys: ["r"], words: "read the history anew", act: () => void read() },
        { keys: ["/"], words: "write the filter", act: () => box.focus() },
      ],
    };
  },
};
