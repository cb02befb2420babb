// Who is connected to a running server, what is under way, and the end of some of that where the server allows it.

import { get, post, type Connection, type Connections } from "../api.ts";
import { h, name, type Child } from "../dom.ts";
import { bytes, count, counted, time } from "../format.ts";
import { confirmed, note, renewed, same_server, swap, title, why } from "../live.ts";
import { go, link } from "../place.ts";
import type { Asked, Room } from "../room.ts";
import { move, table, type Column } from "../table.ts";

const COLUMNS: Column[] = [{ name: "Client" }, { name: "Id" }, { name: "Protocol" }, { name: "Since", number: true }, { name: "Requests", number: true }, { name: "Received", number: true }, { name: "Sent", number: true }, { name: "State" }, { name: "Under way" }];

interface Stopped { connections: number; requests: number; silent_loops: number }

// The address of a client without its port.
function address_of(client: string): string {
  return client.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
}

function end(asked: Asked, given: Record<string, string>): void {
  const ended = async () => {
    try {
      const told = await post<Stopped>("stop", same_server(asked, given), "", asked.signal);
      const parts = [told.connections > 0 && counted(told.connections, "connection"), told.requests > 0 && counted(told.requests, "request"), told.silent_loops > 0 && `${counted(told.silent_loops, "loop")} will end it later`];
      asked.tell(`Ended: ${parts.filter((one) => one !== false).join(", ") || "nothing"}.`);
    } catch (error) {
      if (!asked.signal.aborted) asked.tell(why(error));
    }
  };
  const [kind, which] = Object.entries(given)[0] ?? ["", ""];
  const what = kind === "client" ? `all connections of ${which}` : kind === "request" ? `the request ${which}` : `the connection ${which}`;
  confirmed(`End ${what}? A response that is under way is cut off.`, "End it", () => void ended());
}

function under_way(asked: Asked, one: Connection, may_stop: boolean): Child {
  if (one.under_way.length === 0) return "";
  return h("ul", { class: "way" }, one.under_way.map((way) => h("li", {}, name(way.request ?? "a request", 90), ` ${bytes(way.sent_bytes)} sent`,
    may_stop && way.stream !== null && h("button", { type: "button", class: "small", "data-key": `request ${one.id}/${way.stream}`, "aria-label": `End request ${one.id}/${way.stream}`, onclick: () => end(asked, { request: `${one.id}/${way.stream}` }) }, "End"))));
}

function row(asked: Asked, one: Connection, may_stop: boolean): Child[] {
  const cells: Child[] = [
    h("a", { href: link("connections", same_server(asked, { client: address_of(one.client) })), "data-key": one.id, title: "the connections of this address" }, h("bdi", {}, one.client)), one.id, `${one.protocol}${one.is_secure ? " + TLS" : ""}`,
    time(one.age_ms * 1e6), count(one.requests), bytes(one.received_bytes), bytes(one.sent_bytes), one.state, under_way(asked, one, may_stop)];
  if (may_stop) cells.push(h("button", { type: "button", class: "small stop", "data-key": `connection ${one.id}`, "aria-label": `End connection ${one.id} of ${one.client}`, onclick: () => end(asked, { connection: one.id }) }, "End"));
  return cells;
}

export const connections: Room = {
  name: "connections",
  title: "Connections",
  of_run: false,
  key: "C",
  async show(asked) {
    const client = asked.place.given["client"] ?? "";
    const box = h("input", { type: "search", name: "client", value: client, placeholder: "192.0.2.7", autocomplete: "off", spellcheck: "false" });
    const form = h("form", { class: "filter", role: "search" }, h("label", {}, "Address of a client", box), h("button", { type: "submit" }, "Filter"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      go("connections", same_server(asked, { client: box.value.trim() }));
    });
    const [told, into, rights] = [note(), h("div", { class: "stack" }), h("p", { class: "soft" })];
    const head = title(asked, "Connections", rights);
    asked.into.append(head, h("section", { class: "card" }, form), told.box, into);
    await renewed(asked, told, async () => {
      const now = await get<Connections>("connections", same_server(asked, { client }), asked.signal);
      const may_stop = now.may_stop === true;
      rights.textContent = may_stop ? "The server lets connections and requests be ended here." : "Nothing can be ended here: the server was not started with --admin-may stop.";
      const columns = may_stop ? [...COLUMNS, { name: "End" }] : COLUMNS;
      const more = [now.left_out > 0 && `${counted(now.left_out, "more connection")}; an address above shows fewer.`, now.silent_loops > 0 && `${counted(now.silent_loops, "loop")} did not answer within a second.`].filter((one) => one !== false);
      const all = may_stop && client !== "" && now.connections.length > 0 && h("button", { type: "button", "data-key": "all", onclick: () => end(asked, { client }) }, `End all of ${client}`);
      swap(into, now.connections.length === 0 ? h("p", { class: "card" }, client === "" ? "No client is connected." : "No client of this address is connected.")
        : h("section", { class: "card" }, table("Connections", columns, now.connections.map((one) => row(asked, one, may_stop))), h("p", { class: "row" }, h("span", { class: "soft" }, `${counted(now.connections.length, "connection")}, the busy ones first`), all)),
        ...more.map((one) => h("p", { class: "card" }, one)));
    });
    return {
      keys: [
        { keys: ["j", "ArrowDown"], words: "the next connection", act: () => move(into, 1) },
        { keys: ["k", "ArrowUp"], words: "the connection before", act: () => move(into, -1) },
        { keys: ["x"], words: "end the connection, where the server allows it", act: () => {
          const stop = document.activeElement?.closest("tr")?.querySelector<HTMLElement>("button.stop");
          if (stop) stop.click();
          else asked.tell(into.querySelector("button.stop") ? "Choose a connection by j and k first." : "Nothing can be ended here.");
        } },
        { keys: ["/"], words: "filter by the address of a client", act: () => box.focus() },
      ],
    };
  },
};
