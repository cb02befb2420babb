// What each running server does at this moment, side by side, and which one does not answer.

import { get, type Now } from "../api.ts";
import { h, name, type Child } from "../dom.ts";
import { bytes, count, rate, time } from "../format.ts";
import { EVERY_MS, swap, title, why } from "../live.ts";
import { link } from "../place.ts";
import type { Asked, Room } from "../room.ts";
import { move, table, type Column } from "../table.ts";

// So long is a silent server waited for before the others are shown.
const FIRST_MS = 1000;

type Told = { kind: "asked" } | { kind: "now"; now: Now } | { kind: "silent"; words: string };

const each_s = (value: number) => (value === 0 ? "0\u00a0/s" : rate(value));

function slow(now: Now): Child {
  if (now.p99_us !== null) return time(now.p99_us * 1e3);
  return h("span", { title: now.timed === null ? "known a second after the first question" : "no success in this time, or the server keeps no history" }, "-");
}

// What a server tells, each with its name and what it is.
function values(now: Now, server: number | undefined): [string, Child, string][] {
  return [
    ["Requests", each_s(now.requests_per_s), "all that were answered"],
    ["4xx", each_s(now.client_errors_per_s), "the client's fault"],
    ["5xx", h("span", { class: now.server_errors_per_s > 0 ? "verdict longer" : undefined }, each_s(now.server_errors_per_s)), "the server's fault"],
    ["Refused", each_s(now.refused_per_s), "as rules or bounds wanted"],
    ["p99", slow(now), "of successes, at most a sixteenth too large"],
    ["Sent", now.sent_bytes_per_s === 0 ? "0\u00a0/s" : `${bytes(Math.round(now.sent_bytes_per_s))}/s`, "heads included"],
    ["Connections", h("a", { href: link("connections", { server }) }, count(now.connections)), "open now"],
  ];
}

const NOTHING: Now = { over_s: 0, requests_per_s: 0, client_errors_per_s: 0, server_errors_per_s: 0, refused_per_s: 0, sent_bytes_per_s: 0, connections: 0, timed: null, p99_us: null };
const NAMES = values(NOTHING, undefined).map(([what]) => what);
const COLUMNS: Column[] = [{ name: "Server" }, ...NAMES.map((what) => ({ name: what, number: true })), { name: "It says" }];

function row(address: string, index: number, told: Told): Child[] {
  const server = index === 0 ? undefined : index + 1;
  const head = h("a", { href: link("activity", { server }), "data-key": `server ${index + 1}`, title: "its activity" }, name(address, 60));
  if (told.kind === "now") return [head, ...values(told.now, server).map(([, value]) => value), "answers"];
  return [head, ...NAMES.map(() => "-"), told.kind === "asked" ? "asked, no answer yet" : h("span", { class: "verdict longer" }, told.words)];
}

// One server has the room to itself.
function alone(told: Told): HTMLElement {
  if (told.kind === "silent") return h("section", { class: "card wrong", role: "alert" }, h("p", { class: "wrong" }, told.words));
  if (told.kind === "asked") return h("p", { class: "card" }, "asked, no answer yet");
  return h("dl", { class: "figures" }, values(told.now, undefined).map(([what, value, more]) => h("div", {}, h("dt", {}, what), h("dd", {}, value), h("dd", { class: "soft" }, more))));
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
    const into = h("div", { class: "stack servers" });
    const told_of = (index: number): Told => all[index] ?? { kind: "asked" };
    const draw = () => swap(into, servers.length === 1 ? alone(told_of(0)) : h("section", { class: "card" }, table("The servers now", COLUMNS, servers.map((one, index) => row(one.address, index, told_of(index))))));
    const head = servers.length === 1 ? title(asked, "The server now") : h("div", { class: "title" }, h("h1", {}, "The servers now"));
    asked.into.append(head, into, h("p", { class: "soft" }, servers.length === 1 ? "The last ten seconds." : "The last ten seconds. 5xx are errors of the server; refused are those that its rules or bounds wanted. p99 is of successes, at most a sixteenth too large."));
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
