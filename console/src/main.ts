// The page: which room is shown, its keys, dark and light.

import "uplot/dist/uPlot.min.css";
import "./console.css";
import { get, Refused, type Has } from "./api.ts";
import { clean, h, required, short } from "./dom.ts";
import { help } from "./help.ts";
import { server_of } from "./live.ts";
import { know } from "./parts.ts";
import { go, here, link } from "./place.ts";
import type { Key, Room, Shown } from "./room.ts";
import { activity } from "./rooms/activity.ts";
import { answer } from "./rooms/answer.ts";
import { chart } from "./rooms/chart.ts";
import { cluster } from "./rooms/cluster.ts";
import { compare } from "./rooms/compare.ts";
import { connections } from "./rooms/connections.ts";
import { last } from "./rooms/last.ts";
import { load } from "./rooms/load.ts";
import { now } from "./rooms/now.ts";
import { replay } from "./rooms/replay.ts";
import { request } from "./rooms/request.ts";
import { requests } from "./rooms/requests.ts";
import { rules } from "./rooms/rules.ts";
import { runs } from "./rooms/runs.ts";
import { sql } from "./rooms/sql.ts";
import { transaction } from "./rooms/transaction.ts";
import { transactions } from "./rooms/transactions.ts";
import { watch } from "./rooms/watch.ts";
import { choose_theme, next_theme, theme } from "./theme.ts";

// All rooms that this page can show; what the console has of them is in the navigation.
const ROOMS: Room[] = [runs, answer, requests, chart, compare, sql, load, request, now, activity, connections, watch, last, rules, cluster, transactions, transaction, replay];

const [head, into, status] = [required("head", HTMLElement), required("room", HTMLElement), required("status", HTMLElement)];
let has: Has;
let leaving = new AbortController();
let shown: Shown = {};
// The run that was looked at last, so that the navigation stays with it.
let run: string | undefined;
// The server that was looked at last, by its number; none is the first.
let server: string | undefined;

const tell = (text: string) => (status.textContent = clean(text));
const rooms = () => ROOMS.filter((room) => has.rooms.includes(room.name));
const visited = () => rooms().filter((room) => !room.under && (run !== undefined || !room.of_run));

// What the address of a room holds wherever it is reached from.
const kept = (room: Room) => (room.of_run ? { run } : room.key && !room.of && room.name !== "now" ? { server } : {});
const home = () => link(has.rooms.includes("runs") ? "runs" : "now");

const general: Key[] = [
  { keys: ["1", "2", "3", "4", "5", "6", "7"], words: "go to a room, in the order of the navigation", act: (event) => visit(Number(event.key)) },
  { keys: ["t"], words: "dark, light, or as the browser has it", act: () => paint(next_theme()) },
  { keys: ["Backspace"], words: "back to where you were", act: () => history.back() },
  { keys: ["?"], words: "these keys", act: () => help(shown.keys ?? [], general) },
];

function visit(number: number): void {
  const room = rooms().filter((room) => !room.under && !room.key)[number - 1];
  if (!room) return;
  if (room.of_run && run === undefined) return void tell("Choose a run first.");
  go(room.name, room.of_run ? { run } : {});
}

// The same room of another server.
function turn(number: number): void {
  const place = here();
  const of = rooms().find((room) => room.name === place.room);
  if (!of?.key || of.name === "now") return void tell("Choose a room of the servers first.");
  go(place.room, { ...place.given, server: number === 1 ? undefined : number });
}

function choice(): HTMLElement | null {
  const room = rooms().find((room) => room.name === here().room);
  if (has.servers.length < 2 || !room?.key || room.name === "now") return null;
  const chosen = Number(server ?? 1);
  const made = h("select", { "aria-label": "Server", title: "The server (s: the next one)", class: "server" }, has.servers.map((one, index) => h("option", { value: index + 1, selected: index + 1 === chosen }, `${index + 1}: ${short(one.address, 40)}`)));
  made.addEventListener("change", () => turn(Number(made.value)));
  return made;
}

function paint(chosen: string): void {
  choose_theme(chosen);
  navigate();
  dispatchEvent(new Event("repaint"));
}

function navigate(): void {
  const current = rooms().find((room) => room.name === here().room)?.under ?? here().room;
  const item = (room: Room) => h("li", {}, h("a", { href: link(room.name, kept(room)), class: room.key ? "live" : undefined, title: room.key ? `of ${room.of ? "what runs now" : "the running server"} (${room.key})` : undefined, "aria-current": room.name === current ? "page" : undefined }, room.title));
  head.replaceChildren(
    h("a", { class: "brand", href: home() }, "weir console"),
    h("nav", { "aria-label": "Rooms" }, h("ul", {}, visited().map(item))),
    h("div", { class: "row ends" },
      choice(),
      run === undefined ? null : h("bdi", { class: "chosen", title: clean(run).slice(0, 2000) }, short(run, 28)),
      h("button", { type: "button", onclick: () => paint(next_theme()), title: "Dark, light, or as the browser has it (t)" }, { dark: "Dark", light: "Light", auto: "Auto" }[theme()] ?? "Auto"),
      h("button", { type: "button", onclick: () => help(shown.keys ?? [], general), title: "Keys (?)", "aria-label": "Keys" }, "?")),
  );
}

async function enter(): Promise<void> {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  shown.end?.();
  shown = {};
  const place = here();
  run = place.given["run"] ?? place.given["run1"] ?? run;
  const room = rooms().find((one) => one.name === place.room);
  // Old links name no server, and mean the first.
  if (room?.key && !room.of && room.name !== "now") server = place.given["server"];
  const of = room?.of ? room.of(has) : room?.key ? server_of(has, place.given["server"])?.address : run;
  document.title = `${room?.title ?? "Not here"}${of ? ` - ${short(of, 40)}` : ""} - weir console`;
  document.body.dataset["room"] = place.room;
  document.body.dataset["ready"] = "false";
  navigate();
  tell("");
  into.replaceChildren(h("p", { class: "soft" }, "Loading"));
  const fresh = h("div", { class: "within" });
  try {
    if (!room) throw new Error(`There is no room ${short(place.room, 40)} here.`);
    into.replaceChildren(fresh);
    const entered = await room.show({ into: fresh, place, has, signal, tell });
    if (signal.aborted) return entered.end?.();
    shown = entered;
    if (!into.contains(document.activeElement)) into.focus({ preventScroll: true });
  } catch (error) {
    if (signal.aborted) return;
    const text = error instanceof Error ? error.message : String(error);
    const lost = error instanceof TypeError ? "The console does not answer: it has ended, or this page is from one before." : text;
    into.replaceChildren(h("section", { class: "card wrong", role: "alert" }, h("h1", {}, error instanceof Refused && error.status === 404 ? "Not here" : "This cannot be shown"), h("p", {}, lost), h("p", {}, h("a", { href: home() }, has.rooms.includes("runs") ? "All runs" : "The server now"))));
  } finally {
    if (!signal.aborted) document.body.dataset["ready"] = "true";
  }
}

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const target = event.target instanceof HTMLElement ? event.target : document.body;
  const typing = target.matches("input:not([type=checkbox]), textarea, select");
  if (typing && event.key !== "Escape") return;
  if (typing) {
    target.blur();
    into.focus({ preventScroll: true });
  }
  // A link or a button does by Enter what it always does; a table scrolls by its arrows.
  if (event.key === "Enter" && target.matches("a, button, summary")) return;
  const key = [...(shown.keys ?? []), ...general].find((one) => one.keys.includes(event.key));
  if (!key) return;
  event.preventDefault();
  key.act(event);
}

async function begin(): Promise<void> {
  choose_theme(theme());
  try {
    has = await get<Has>("has");
  } catch (error) {
    return into.replaceChildren(h("p", { class: "card wrong", role: "alert" }, error instanceof Error ? error.message : String(error)));
  }
  know(has.parts);
  // A server's own console has no rooms with numbers.
  if (!has.rooms.includes("runs")) general.shift();
  for (const room of rooms()) if (room.key) general.push({ keys: [room.key], words: `the room ${room.title} of ${room.of ? "what runs now" : "the running server"}`, act: () => go(room.name, kept(room)) });
  if (has.servers.length > 1) general.push({ keys: ["s"], words: "the same room of the next server", act: () => turn((Number(server ?? 1) % has.servers.length) + 1) });
  const of_server = has.servers.length > 1 || !has.rooms.includes("runs") ? "now" : "activity";
  const first = has.server ? of_server : has.cluster ? "cluster" : has.agent ? "transactions" : has.replay ? "replay" : undefined;
  if (first && location.hash === "") history.replaceState(null, "", link(first));
  addEventListener("hashchange", () => void enter());
  addEventListener("keydown", pressed);
  // The address holds the state of the page, so this link may not be one to a part of it.
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault();
    into.focus();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(theme()));
  await enter();
}

void begin();
