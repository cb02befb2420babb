// The time chart: a whole run, from minutes down to single events.

import { legend, show as steps, words } from "../../../crates/cli/src/view/panel.js";
import { get, Refused, type Given, type Page, type Request } from "../api.ts";
import { clean, h, name } from "../dom.ts";
import { count, time } from "../format.ts";
import { Lanes, type Slow, type Whole } from "../lanes.ts";
import { go, replace } from "../place.ts";
import { pointers } from "../pointers.ts";
import { opened, run_of, type Asked, type Key, type Room } from "../room.ts";

// A request is looked for by its end, to within so many nanoseconds.
const NEAR_NS = 2000;
const TELL_MS = 150;
const LOOK_MS = 250;

function keys(view: Lanes, what: HTMLInputElement, slowest: (by: number) => void, close: () => void): Key[] {
  const page = () => view.lanes.clientHeight * 0.8;
  return [
    { keys: ["+", "="], words: "zoom in; Ctrl and the wheel, or two fingers, zoom at the pointer", act: () => view.zoom(2) },
    { keys: ["-", "_"], words: "zoom out", act: () => view.zoom(0.5) },
    { keys: ["ArrowLeft"], words: "earlier; with Shift further; dragging works, too", act: (event) => view.pan(event.shiftKey ? -0.9 : -0.2) },
    { keys: ["ArrowRight"], words: "later; with Shift further", act: (event) => view.pan(event.shiftKey ? 0.9 : 0.2) },
    { keys: ["ArrowUp", "PageUp"], words: "lanes above", act: (event) => view.roll(event.key === "PageUp" ? -page() : -60) },
    { keys: ["ArrowDown", "PageDown"], words: "lanes below", act: (event) => view.roll(event.key === "PageDown" ? page() : 60) },
    { keys: ["0"], words: "the whole run", act: () => view.move(0, view.whole.duration_ns) },
    { keys: ["Home"], words: "the begin of the run", act: () => view.pan(-1e9) },
    { keys: ["End"], words: "the end of the run", act: () => view.pan(1e9) },
    { keys: ["n"], words: "the next of the slowest requests, with its steps", act: () => slowest(1) },
    { keys: ["p"], words: "the slow request before", act: () => slowest(-1) },
    { keys: ["r"], words: "the requests that ended within the window", act: () => requests_of(view) },
    { keys: ["/"], words: "search tasks", act: () => what.focus() },
    { keys: ["Escape"], words: "close what is open", act: close },
  ];
}

function requests_of(view: Lanes): void {
  go("requests", { run: view.lanes.dataset["run"], from_ns: Math.round(view.from), to_ns: Math.round(view.to) });
}

// Requests, once the tables of the run are there: the chart is there before them. None if they cannot be read.
async function once_there(given: Given, asked: Asked): Promise<Page | null> {
  while (!asked.signal.aborted) {
    try {
      return await get<Page>("requests", given, asked.signal);
    } catch (error) {
      const is_early = error instanceof Refused && error.status === 409;
      if (!asked.signal.aborted) asked.tell(is_early ? "The tables of requests are still being made; they are shown once they are there." : error instanceof Error ? error.message : String(error));
      if (!is_early) return null;
      await new Promise((done) => setTimeout(done, LOOK_MS));
    }
  }
  return null;
}

// The request that ended at a time, or the list of those that did. Where many end at once the response time tells which.
async function request_at(run: string, end_ns: number, asked: Asked, response_ns?: number): Promise<void> {
  const given = { run, from_ns: Math.round(end_ns - NEAR_NS), to_ns: Math.round(end_ns + NEAR_NS) };
  const page = await once_there(given, asked);
  if (!page) return;
  const apart = (one: Request) => Math.abs(one.at_ns + one.response_ns - end_ns) + Math.abs(one.response_ns - (response_ns ?? one.response_ns));
  const nearest = [...page.requests].sort((a, b) => apart(a) - apart(b));
  const only = response_ns !== undefined || nearest.length === 1 ? nearest[0] : undefined;
  if (only) go("request", { run, id: only.id });
  else go("requests", given);
}

export const chart: Room = {
  name: "chart",
  title: "Time chart",
  of_run: true,
  async show(asked) {
    const run = run_of(asked.place);
    await opened(asked, run, "chart");
    const whole = await get<Whole>("whole", { run }, asked.signal);
    const lanes = h("canvas", { class: "lanes", tabindex: 0, role: "application", "data-run": run, "aria-label": "Lanes of CPUs, locks and tasks over time; ? shows the keys", "aria-describedby": "chart-told" });
    const overview = h("canvas", { class: "overview", "aria-hidden": "true" });
    const [told, hint, panel, colours] = [h("p", { id: "chart-told", class: "told" }), h("div", { class: "hint", "aria-hidden": "true" }), h("aside", { class: "panel", "aria-label": "Chosen request" }), h("ul", { class: "legend" })];
    hint.hidden = panel.hidden = true;
    const what = h("input", { type: "search", placeholder: "Search tasks (/)", "aria-label": "Search tasks", autocomplete: "off", spellcheck: "false" });
    const button = (text: string, title: string, act: () => void) => h("button", { type: "button", title, "aria-label": title, onclick: act }, text);
    const tools = h("div", { class: "row tools" }, h("h1", {}, name(run, 40)), what, button("\u2212", "Zoom out (-)", () => view.zoom(0.5)), button("+", "Zoom in (+)", () => view.zoom(2)), button("Whole", "The whole run (0)", () => view.move(0, whole.duration_ns)), button("Slowest", "The next slowest request (n)", () => slowest(1)), button("Requests", "The requests that ended within the window (r)", () => requests_of(view)));
    asked.into.append(h("div", { class: "chart" }, tools, overview, h("div", { class: "canvas" }, lanes), colours, panel, told), hint);
    let later = 0;
    const tell = () => {
      later = 0;
      if (!lanes.isConnected) return;
      told.textContent = view.tiles.failed ? clean(view.tiles.failed) : `${time(view.to - view.from)} from ${time(view.from)}; ${count(whole.requests)} requests, ${count(whole.tasks.length)} tasks, ${count(whole.events)} events${whole.lost > 0 ? `, ${count(whole.lost)} lost` : ""}; ${whole.host}`;
      lanes.dataset["settled"] = String(view.settled);
      replace({ from: Math.round(view.from), to: Math.round(view.to) });
    };
    // Words and address follow the window a little later: what they cost is not in each frame.
    const view = new Lanes(whole, lanes, overview, run, () => (later ||= window.setTimeout(tell, TELL_MS)));
    let place = -1;
    const choose = (slow: Slow | null, title: string) => {
      view.request = slow;
      steps(panel, slow, title, view.by_pid);
      if (slow) {
        panel.append(h("p", {}, button("All of this request", "The room of this request", () => void request_at(run, slow.from_ns + slow.response_ns, asked, slow.response_ns))));
        view.move(slow.from_ns - 0.15 * slow.response_ns, slow.from_ns + 1.15 * slow.response_ns);
      }
      view.redraw();
    };
    const slowest = (by: number) => {
      if (whole.slowest.length === 0) return asked.tell("No request was answered.");
      place = (place + by + whole.slowest.length) % whole.slowest.length;
      choose(whole.slowest[place] ?? null, `Slowest ${place + 1} of ${whole.slowest.length}`);
    };
    const close = () => {
      what.value = "";
      view.find("");
      choose(null, "");
      lanes.focus();
    };
    what.addEventListener("input", () => asked.tell(what.value === "" ? "" : `${view.find(what.value.trim().toLowerCase())} tasks`));
    pointers(view, {
      hover: (box, event) => {
        if (hint.hidden !== (box === null)) hint.hidden = box === null;
        if (!box) return;
        hint.textContent = words(box, view.by_pid, null).split("\n").map(clean).join("\n");
        hint.style.setProperty("left", `${Math.max(4, Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8))}px`);
        hint.style.setProperty("top", `${event.clientY + 20 + hint.offsetHeight > innerHeight ? event.clientY - hint.offsetHeight - 12 : event.clientY + 20}px`);
      },
      click: (box) => (box.request ? void request_at(run, box.to, asked) : asked.tell(words(box, view.by_pid, null).replaceAll("\n", "; "))),
    });
    legend(colours, whole.locks.length > 0, whole.remarks.length > 0);
    const [from, to] = [Number(asked.place.given["from"] ?? 0), Number(asked.place.given["to"] ?? whole.duration_ns)];
    if (to > from) view.move(from, to);
    const resized = new ResizeObserver(() => view.fit());
    resized.observe(lanes);
    const repaint = () => {
      view.colours();
      view.repaint();
    };
    addEventListener("repaint", repaint);
    lanes.focus();
    return {
      keys: keys(view, what, slowest, close),
      end: () => {
        clearTimeout(later);
        resized.disconnect();
        removeEventListener("repaint", repaint);
      },
    };
  },
};
