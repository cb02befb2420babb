// What a running server does, minute by minute, with what was done to it.

import { get, type Activity, type Mark } from "../api.ts";
import { Curves, letter } from "../curves.ts";
import { h, name, type Child } from "../dom.ts";
import { bytes, count, counted, moment, per_minute, time } from "../format.ts";
import { note, renewed, same_server, swap, title } from "../live.ts";
import { go, link } from "../place.ts";
import type { Asked, Key, Room } from "../room.ts";
import { table } from "../table.ts";

// Hours that are a click away, and the steps in which they are shown: minutes, then ten, an hour, three.
const SPANS: [number, string, number][] = [[1, "1 h", 60], [24, "24 h", 144], [168, "7 d", 168], [672, "28 d", 224]];
const MOST_HOURS = 672;
const MARKS_TOLD = 50;
const WORDS: Record<string, string> = { start: "start", stop: "stop", lost: "ended without a word", followed: "was followed by another", reload: "reload", reload_refused: "reload refused", deploy: "deploy" };

function figures(told: Activity): HTMLElement {
  const { whole } = told;
  const all: [string, Child, string][] = [
    ["requests", count(whole.requests), `${counted(whole.open_peak, "connection")} at most`],
    ["sent", bytes(whole.sent_bytes), "heads included"],
    ["4xx", count(whole.client_errors), "the client's fault"],
    ["5xx", count(whole.server_errors), "the server's fault"],
    ["slowest", whole.timed > 0 ? time(whole.max_us * 1e3) : "-", "of successes"],
    ["up", time(whole.up_s * 1e9), `in steps of ${time(told.step_s * 1e9)}`],
  ];
  return h("dl", { class: "figures" }, all.map(([title, value, more]) => h("div", {}, h("dt", {}, title), h("dd", {}, value), h("dd", { class: "soft" }, more))));
}

function marks(all: Mark[]): HTMLElement | string {
  if (all.length === 0) return "";
  const latest = all.slice(-MARKS_TOLD).reverse();
  const rows = latest.map((mark) => [letter(mark), WORDS[mark.kind] ?? mark.kind, moment(mark.unix_ms, false), name(mark.words, 120)]);
  return h("section", { class: "card" }, h("h2", {}, "What was done"), table("Marks", [{ name: "Mark" }, { name: "What" }, { name: "At" }, { name: "In words" }], rows),
    all.length > MARKS_TOLD && h("p", { class: "soft" }, `and ${count(all.length - MARKS_TOLD)} before these: weir activity --json has all`));
}

function wrongs(told: Activity): HTMLElement | null {
  const { failing, waiting_minutes, lost_minutes } = told.writing;
  const all = [
    failing !== null && `The server cannot write its file: ${failing}; ${count(waiting_minutes)} minutes wait in memory.`,
    lost_minutes > 0 && `${count(lost_minutes)} minutes were lost, as the file could not be written for a day.`,
    told.torn_records > 0 && `${count(told.torn_records)} records were torn, and are left out.`,
  ].filter((one) => one !== false);
  return all.length > 0 ? h("section", { class: "card wrong" }, all.map((one) => h("p", {}, one))) : null;
}

function spans(asked: Asked, now: number): HTMLElement {
  const links = SPANS.map(([hours, words]) => h("li", {}, h("a", { href: link("activity", same_server(asked, { hours })), "aria-current": hours === now ? "true" : undefined }, words)));
  const other = h("input", { type: "number", min: 1, max: MOST_HOURS, name: "hours", value: String(now), "aria-label": `Hours, 1 to ${MOST_HOURS}` });
  const form = h("form", { class: "row" }, other, h("span", { class: "soft" }, "hours"), h("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go("activity", same_server(asked, { hours: other.value }));
  });
  return h("div", { class: "row" }, h("ul", { class: "chips spans", "aria-label": "How long" }, links), form);
}

// One span longer or shorter.
function turn(asked: Asked, now: number, by: number): void {
  const other = by > 0 ? SPANS.find(([hours]) => hours > now) : [...SPANS].reverse().find(([hours]) => hours < now);
  if (other) go("activity", same_server(asked, { hours: other[0] }));
}

export const activity: Room = {
  name: "activity",
  title: "Activity",
  of_run: false,
  key: "A",
  async show(asked) {
    const hours = Number(asked.place.given["hours"] ?? 24);
    const steps = SPANS.find(([span]) => span >= hours)?.[2] ?? 224;
    const [told, top, below, said] = [note(), h("div", { class: "stack" }), h("div", { class: "stack" }), h("p", { class: "unseen", role: "status" })];
    const card = h("section", { class: "card" }, h("p", { class: "soft" }, "A click on a step, or arrow keys and Enter, leads to its requests, where the history still has them. Times of a minute come when it is over. Times are of this browser's clock."));
    card.hidden = true;
    asked.into.append(title(asked, "Activity"), spans(asked, hours), told.box, top, card, below, said);
    let [curves, now]: [Curves | null, Activity | null] = [null, null];
    const chosen = (index: number) => {
      const step = now?.steps[index];
      if (now && step) go("last", same_server(asked, { from_unix_s: step.begin_unix_s, to_unix_s: step.begin_unix_s + now.step_s }));
    };
    await renewed(asked, told, async () => {
      now = await get<Activity>("activity", same_server(asked, { hours, steps }), asked.signal);
      swap(top, ...[wrongs(now), figures(now)].filter((one) => one !== null));
      if (curves) curves.renew(now);
      else {
        curves = new Curves(now, chosen);
        card.append(curves.box);
        card.hidden = false;
      }
      const list = marks(now.marks);
      swap(below, ...(typeof list === "string" ? [] : [list]));
    });
    let place: number | null = null;
    const move = (by: number) => {
      if (!curves || !now) return;
      place = curves.move(by);
      const step = now.steps[place];
      if (step) said.textContent = `from ${moment(step.begin_unix_s * 1000, false)}: ${per_minute(step.requests_per_min)}, ${count(step.requests)} requests, ${count(step.server_errors)} of 5xx, p99 ${step.timed > 0 ? time(step.p99_us * 1e3) : "not known"}`;
    };
    const keys: Key[] = [
      { keys: ["ArrowLeft"], words: "the step before", act: () => move(-1) },
      { keys: ["ArrowRight"], words: "the next step", act: () => move(1) },
      { keys: ["Enter"], words: "the requests of the step", act: () => (place === null ? asked.tell("Choose a step by the arrow keys first.") : chosen(place)) },
      { keys: ["-"], words: "a longer time", act: () => turn(asked, hours, 1) },
      { keys: ["+", "="], words: "a shorter time", act: () => turn(asked, hours, -1) },
    ];
    return { keys, end: () => curves?.end() };
  },
};
