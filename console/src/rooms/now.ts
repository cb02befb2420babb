// What each running server does at this moment, side by side, and which one does not answer.

import { get, type Now } from "../api.ts";
import { h, name, type Child } from "../dom.ts";
import { bytes, count, rate, time } from "../format.ts";
import { EVERY_MS, swap, why } from "../live.ts";
import { link } from "../place.ts";
import type { Asked, Room } from "../room.ts";
import { move, table, type Column } from "../table.ts";

const COLUMNS: Column[] = [{ name: "Server" }, { name: "Requests", number: true }, { name: "4xx", number: true }, { name: "5xx", number: true }, { name: "Refused", number: true }, { name: "p99", number: true }, { name: "Sent", number: true }, { name: "Connections", number: true }, { name: "It says" }];
// So long is a silent server waited for before the others are shown.
const FIRST_MS = 1000;

type Told = { kind: "asked" } | { kind: "now"; now: Now } | { kind: "silent"; words: string };

function row(address: string, index: number, told: Told): Child[] {
  const server = index === 0 ? undefined : index + 1;
  const head = h("a", { href: link("activity", { server }), "data-key": `server ${index + 1}`, title: "its activity" }, name(address, 60));
  const dashes = COLUMNS.slice(2).map(() => "-");
  if (told.kind === "asked") return [head, ...dashes, "asked, no answer yet"];
  if (told.kind === "silent") return [head, ...dashes, h("span", { class: "verdict longer" }, told.words)];
  const { now } = told;
  const p99 = now.p99_us === null ? h("span", { title: now.timed === null ? "known a second after the first question" : "no success in this time, or the server keeps no history" }, "-") : time(now.p99_us * 1e3);
  const errors = h("span", { class: now.server_errors_per_s > 0 ? "verdict longer" : undefined }, rate(now.server_errors_per_s));
  const connections = h("a", { href: link("connections", { server }) }, count(now.connections));
  return [head, rate(now.requests_per_s), rate(now.client_errors_per_s), errors, rate(now.refused_per_s), p99, now.sent_bytes_per_s === 0 ? "0\u00a0/s" : `${bytes(Math.round(now.sent_bytes_per_s))}/s`, connections, "answers"];
}

// Asks one server again and again; the promise is over with the first answer.
function follow(asked: Asked, index: number, take: (told: Told) => void): Promise<void> {
  return new Promise((first) => {
    const turn = async (): Promise<void> => {
      if (asked.signal.aborted) return first();
      try {
        if (!document.hidden) take({ kind: "now", now: await get<Now>("now", { server: index + 1 }, asked.signal) });
      } catch (error) {
        if (!asked.signal.aborted) take({ kind: "silent", words: why(error) });
      }
      first();
      window.setTimeout(() => void turn(), EVERY_MS);
    };
    void turn();
  });
}

export const now: Room = {
  name: "now",
  title: "Now",
  of_run: false,
  key: "N",
  async show(asked) {
    const { servers } = asked.has;
    const all: Told[] = servers.map(() => ({ kind: "asked" }));
    const into = h("div", { class: "stack" });
    const draw = () => swap(into, h("section", { class: "card" }, table("The servers now", COLUMNS, servers.map((one, index) => row(one.address, index, all[index] ?? { kind: "asked" })))));
    asked.into.append(h("div", { class: "title" }, h("h1", {}, servers.length === 1 ? "The server now" : "The servers now")), into,
      h("p", { class: "soft" }, "The last ten seconds. 5xx are errors of the server; refused are those that its rules or bounds wanted. p99 is of successes, at most a sixteenth too large."));
    draw();
    const first = servers.map((_, index) => follow(asked, index, (told) => {
      all[index] = told;
      if (!asked.signal.aborted) draw();
    }));
    await Promise.race([Promise.all(first), new Promise((done) => setTimeout(done, FIRST_MS))]);
    return {
      keys: [
        { keys: ["j", "ArrowDown"], words: "the next server", act: () => move(into, 1) },
        { keys: ["k", "ArrowUp"], words: "the server before", act: () => move(into, -1) },
      ],
    };
  },
};
