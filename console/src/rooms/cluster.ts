// A cluster as one of its members hears it: which node is hot, what moved, who is asked for what, and the events.

import { get } from "../api.ts";
import { ClusterDrawing } from "../cluster_map.ts";
import { h, name, type Child } from "../dom.ts";
import { Flights } from "../flights.ts";
import { count, counted, moment, percent, rate } from "../format.ts";
import { note, renewed, swap } from "../live.ts";
import type { ClusterEvent, ClusterMap, Events } from "../now.ts";
import { go, link } from "../place.ts";
import type { Asked, Key, Room } from "../room.ts";
import { move, table } from "../table.ts";

const MOST = 500;
const BRIEF = 20;

const node_link = (node: string, row?: string) => h("a", { href: link("cluster", { node }), title: "the events of this member", "data-key": row }, h("bdi", {}, name(node, 40)));

// Which sessions moved, for the top of the page.
function moved(now: Events): HTMLElement {
  const minutes = `${count(now.moved_within_s / 60)} minutes`;
  if (now.moved.length === 0) return h("p", { class: "moved-words" }, `No session moved in the last ${minutes}${now.is_of_director ? "" : `, as far as ${now.by.join(" and ") || "this member"} took part`}.`);
  const ways = now.moved.slice(0, BRIEF).map((way) => h("li", {}, node_link(way.from), " \u2192 ", node_link(way.to), `: ${counted(way.sessions, "session")}`));
  return h("div", { class: "moved-words" }, h("p", {}, `What moved in the last ${minutes}${now.is_of_director ? "" : `, as far as ${now.by.join(" and ") || "this member"} took part`}:`), h("ul", { class: "counts" }, ways),
    now.moved.length > BRIEF && h("p", { class: "soft" }, `and ${counted(now.moved.length - BRIEF, "other way")}`));
}

function paths(asked: Asked, now: ClusterMap): HTMLElement {
  if (now.top.paths.length === 0) return h("p", { class: "soft" }, "No node has told yet what it is asked for; it does within 10 s of requests. Only files that nodes serve are counted.");
  const asks = (path: string): Child => (asked.has.server ? h("a", { href: link("last", { filter: `path=${path}` }), title: "the last requests of this path at the server of --admin" }, name(path, 90)) : name(path, 90));
  const rows = now.top.paths.slice(0, BRIEF).map((path) => [asks(path.path), rate(path.requests_per_s), percent(path.share), h("span", {}, path.nodes.flatMap((node, index) => [index > 0 && ", ", node_link(node)]), path.more_nodes > 0 && ` and ${count(path.more_nodes)} more`)]);
  return h("div", {}, table("What the cluster is asked for most", [{ name: "Path" }, { name: "Requests", number: true }, { name: "Of all", number: true }, { name: "At, the most first" }], rows),
    now.top.paths.length > BRIEF && h("p", { class: "soft" }, `${counted(now.top.paths.length - BRIEF, "other path")} with less: weir cluster top has them`));
}

function row(event: ClusterEvent, index: number): Child[] {
  const where: Child = event.from && event.to ? h("span", { class: "way-of" }, node_link(event.from, `event ${event.at_us} ${index}`), " \u2192 ", node_link(event.to)) : event.member ? node_link(event.member, `event ${event.at_us} ${index}`) : "";
  const rest = event.told.filter((part) => part !== event.client && part !== event.member && part !== `${event.from} to ${event.to}`);
  return [moment(event.at_us / 1000), h("span", { class: `what ${event.what.replace(/[^a-z_]/g, "")}` }, name(event.what.replaceAll("_", " "), 30)), where, event.client ? h("bdi", {}, event.client) : "", h("span", {}, rest.map((part, at) => h("span", { class: "part" }, at > 0 && "; ", name(part, 160))))];
}

function list(now: Events, node: string, most: number): HTMLElement[] {
  const shown = now.events.length;
  const more = now.matching > shown && shown < MOST && h("a", { href: link("cluster", { node, most: MOST }) }, `up to ${count(MOST)}`);
  const chip = node !== "" && h("ul", { class: "chips", "aria-label": "The filter" }, h("li", {}, h("a", { href: link("cluster", { most: most === 100 ? undefined : most }), title: "take it away", "aria-label": `events of ${node}: take it away` }, "of ", h("bdi", {}, name(node, 40)), " \u00d7")));
  const names = now.by.join(" and ");
  const who = names === "" ? "No events were written here yet." : now.is_of_director ? `Told by ${names}: a director tells the moves between all nodes.` : `Told by ${names}: a node tells the moves in which it took part. A console at the director shows those of all nodes.`;
  const words = `${count(shown)} of ${counted(now.matching, "event")}${now.is_cut ? ", of the last 1 MB: weir cluster events has the earlier ones" : ""}${now.unreadable > 0 ? `; ${counted(now.unreadable, "line")} could not be read` : ""}`;
  return [h("section", { class: "card" }, h("h2", {}, "What happened, the latest first"), chip,
    shown === 0 ? h("p", {}, "There is no such event.") : table("Events", [{ name: "At" }, { name: "What" }, { name: "Where" }, { name: "Client" }, { name: "Why, and how long" }], now.events.map(row)),
    h("p", { class: "row" }, h("span", { class: "soft" }, words), more), h("p", { class: "soft" }, who))];
}

// The members in the order of the map, for the keys.
function turn(now: ClusterMap | null, node: string, by: number): void {
  const names = now?.top.members.map((member) => member.name) ?? [];
  if (names.length === 0) return;
  const at = names.indexOf(node);
  const next = names[at < 0 ? (by > 0 ? 0 : names.length - 1) : (at + by + names.length) % names.length];
  if (next !== undefined) go("cluster", { node: next });
}

export const cluster: Room = {
  name: "cluster",
  title: "Cluster",
  of_run: false,
  key: "M",
  of: (has) => has.cluster?.directory,
  async show(asked) {
    const { node = "", most: wanted } = asked.place.given;
    const most = Number(wanted ?? 100);
    const [told, told_events] = [note(), note()];
    const [hot, ways, warnings, below, lists] = [h("h1", { class: "headline" }, "Cluster"), h("div", {}), h("div", { class: "stack" }), h("div", { class: "stack" }), h("div", { class: "stack" })];
    const [heading, said, drawing] = [h("p", { class: "soft" }), h("p", { class: "unseen", role: "status" }), new ClusterDrawing()];
    const flights = new Flights(drawing.box, (member) => drawing.of(member), (words) => (said.textContent = words));
    const map = h("section", { class: "card", "aria-label": "The map" }, drawing.box, h("p", { class: "soft" }, h("span", { class: "dot session", "aria-hidden": "true" }), "a session that moves ", h("span", { class: "dot content", "aria-hidden": "true" }), "content that comes to a node. A box leads to the events of its member."));
    map.hidden = true;
    let now: ClusterMap | null = null;
    asked.into.append(h("div", { class: "title" }, h("p", { class: "soft" }, h("bdi", {}, asked.has.cluster?.directory ?? "")), hot, heading), told.box, warnings, ways, map, below, told_events.box, lists, said);
    const map_told = renewed(asked, told, async () => {
      now = await get<ClusterMap>("cluster", {}, asked.signal);
      hot.textContent = now.hottest.words;
      heading.textContent = now.heading;
      swap(warnings, ...(now.warnings.length > 0 ? [h("section", { class: "card wrong" }, h("ul", { class: "warnings" }, now.warnings.map((words) => h("li", {}, words))))] : []));
      map.hidden = false;
      drawing.renew(now, node, swap);
      swap(below, h("section", { class: "card" }, h("h2", {}, "What it is asked for most"), paths(asked, now), h("p", { class: "soft" }, `Files: ${now.atoms.words}`)));
    });
    const events_told = renewed(asked, told_events, async () => {
      const events = await get<Events>("events", { node, most }, asked.signal);
      swap(ways, h("section", { class: "card" }, moved(events)));
      swap(lists, ...list(events, node, most));
      flights.take(events.events);
    });
    await Promise.all([map_told, events_told]);
    const keys: Key[] = [
      { keys: ["n"], words: "the events of the next member", act: () => turn(now, node, 1) },
      { keys: ["p"], words: "the events of the member before", act: () => turn(now, node, -1) },
      { keys: ["a"], words: "the events of all members", act: () => go("cluster") },
      { keys: ["j", "ArrowDown"], words: "the next event", act: () => move(lists, 1) },
      { keys: ["k", "ArrowUp"], words: "the event before", act: () => move(lists, -1) },
    ];
    return { keys, end: () => drawing.end() };
  },
};
