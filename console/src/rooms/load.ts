// The loads that run now, and those that ended while the console was open: how far each is, and what it does.

import { get, post, type Load, type LoadHead, type LoadPoint, type LoadState, type Loads } from "../api.ts";
import { h, name, type Child } from "../dom.ts";
import { bytes, count, moment, percent, rate, time } from "../format.ts";
import { note, renewed, swap, why, type Note } from "../live.ts";
import { LoadCurves } from "../load_curves.ts";
import { bar, swatch } from "../parts.ts";
import { go, link, type Given } from "../place.ts";
import type { Asked, Key, Room } from "../room.ts";
import { move, table } from "../table.ts";

const EVERY_MS = 1000;
const STATES: Record<LoadState, string> = {
  running: "runs", ending: "is ending", ended: "has ended", interrupted: "was ended", failed: "could not be made",
  lost: "ended without a word", not_known: "not known from this host",
};

function is_under_way(load: LoadHead): boolean {
  return load.state === "running" || load.state === "ending";
}

function how_far(load: LoadHead): string {
  const elapsed = time(load.elapsed_s * 1e9);
  const of = [load.planned_s !== null && time(load.planned_s * 1e9), load.planned_requests !== null && `${count(load.planned_requests)} requests`].filter((one) => one !== false);
  const left = load.state === "running" && load.left_s !== null ? (load.left_s > 0 ? `, ${time(load.left_s * 1e9)} left` : ", waiting for what is under way") : "";
  return `${elapsed}${of.length > 0 ? ` of ${of.join(" or ")}` : ""}${left}`;
}

function list(told: Loads, shown: string[]): HTMLElement {
  const rows = told.loads.map((load) => [
    h("a", { href: link("load", { run: load.run }), "data-key": `load ${load.run}`, "aria-current": shown.includes(load.run) ? "true" : undefined }, name(load.run, 40)),
    STATES[load.state], how_far(load), rate(load.whole.rate_per_s), count(load.whole.failed), time(load.whole.latency_ns?.p99), name(load.target, 50)]);
  return h("section", { class: "card" }, table("Loads", [{ name: "Run" }, { name: "State" }, { name: "How far" }, { name: "Answered", number: true }, { name: "Failed", number: true }, { name: "p99", number: true }, { name: "Target" }], rows),
    told.is_cut && h("p", { class: "soft" }, "There are more folders than are looked through; name a directory further below."));
}

function figures(load: Load): HTMLElement {
  const { whole } = load;
  const last = load.points.at(-1) ?? whole;
  const errors = Object.entries(whole.errors).map(([kind, number]) => `${kind} ${count(number)}`).join(", ");
  // The key gives the focus back to the link that has it, each second.
  const to = (title: string, words: string, given: Given) => h("a", { href: link("requests", { run: load.run, ...given }), "data-key": title }, words);
  const slower = (ns: number | undefined): Given => ({ min_ns: ns === undefined ? undefined : Math.floor(ns), sort: "response" });
  const all: [string, Child, string][] = [
    ["answered", to("answered", rate(last.rate_per_s), {}), `${count(whole.requests)} so far`],
    ["median", to("median", time(last.latency_ns?.p50), slower(last.latency_ns?.p50)), `${time(whole.latency_ns?.p50)} so far`],
    ["p90", to("p90", time(last.latency_ns?.p90), slower(last.latency_ns?.p90)), `${time(whole.latency_ns?.p90)} so far`],
    ["p99", to("p99", time(last.latency_ns?.p99), slower(last.latency_ns?.p99)), `${time(whole.latency_ns?.p99)} so far`],
    ["success", to("success", percent(whole.success_rate), { sort: "status", order: "asc" }), `${count(whole.unexpected)} with another status`],
    ["failed", to("failed", count(whole.failed), { sort: "status" }), errors || "none"],
    ["received", `${bytes(Math.round(last.bytes_per_s))}/s`, `${bytes(whole.bytes)} so far`],
    ["connections", count(whole.connections), `${count(whole.waited)} arrivals waited for one`],
    ["late", count(whole.late), `${count(whole.dropped)} arrivals dropped`],
    ["generator", percent(last.generator_cpu_share), `of a CPU, waited ${percent(last.generator_runnable_share)}`],
  ];
  return h("dl", { class: "figures" }, all.map(([title, value, more]) => h("div", {}, h("dt", {}, title), h("dd", {}, value), h("dd", { class: "soft" }, name(more, 90)))));
}

const PHASES: [string, string][] = [
  ["generator", "before it was sent: waiting in the load generator"], ["connect", "making the connection, TLS with it"],
  ["first_byte", "until the first byte: the way to the server, the server, the way back"], ["body", "from the first byte to the last"]];

// Where the time of the latest requests goes, as far as the client alone knows it.
function phases(load: Load): HTMLElement {
  const { latest } = load;
  const server = is_under_way(load) ? "The server's part follows with the run's answer." : "The server's part is in the run's answer.";
  const title = h("h3", {}, "Where the time goes");
  if (!latest) return h("section", {}, title, h("p", { class: "soft" }, `Nothing is on record yet; the record comes each second. ${server}`));
  const rows = PHASES.map(([part, words]) => [h("span", {}, swatch(part), part), words, time(latest.parts_ns[part]), percent((latest.parts_ns[part] ?? 0) / latest.response_ns)]);
  return h("section", {}, title,
    h("p", { class: "soft" }, `Mean of the latest ${count(latest.responses)} answered requests on record, which ended within ${time(latest.span_ns)}: ${time(latest.response_ns)}. ${server}`),
    bar({ parts: latest.parts_ns, whole_ns: latest.response_ns, longest_ns: latest.response_ns, label: "mean response" }),
    table(`Parts of ${load.run}`, [{ name: "Part" }, { name: "What it is" }, { name: "Mean", number: true }, { name: "Share", number: true }], rows));
}

// What is said of a load that does not simply run.
function remark(load: Load): HTMLElement | null {
  const answer = h("a", { href: link("answer", { run: load.run }), class: "to_answer", "data-key": "answer" }, "its run's answer");
  if (load.silent_s !== null) return h("p", { class: "wrong" }, `It has told nothing for ${count(load.silent_s)} s: its process ${load.process.pid} is stopped, or has no CPU, or cannot write.`);
  if (is_under_way(load)) return null;
  if (load.state === "not_known") return h("p", { class: "wrong" }, "Its process is on another host or in a container: whether it still runs cannot be told here.");
  if (load.state === "lost") return h("p", {}, `Its process ${load.process.pid} is gone and said nothing of an end, as after kill -9. What was recorded until then: `, answer, ".");
  if (load.state === "failed") return h("p", {}, "The load could not be made; the terminal where it was started says why.");
  return h("p", {}, `It ${STATES[load.state]} after ${time(load.elapsed_s * 1e9)}. `, load.is_recorded ? h("span", {}, "Enter leads to ", answer, ", with the server's part.") : "Its record is being finished.");
}

// One load: its curves go on from look to look.
class Pane {
  readonly box = h("article", { class: "card load" });
  now: Load | null = null;
  private readonly curves = new LoadCurves((point) => this.chosen(point));
  private readonly top = h("div", { class: "stack" });
  private readonly below = h("div", { class: "stack" });
  private readonly told: Note = note();
  private at: LoadPoint | null = null;

  constructor(readonly run: string) {
    this.box.append(this.told.box, this.top, h("p", { class: "soft" }, "A click on an interval, or arrow keys and a, leads to what was recorded of it so far."), this.curves.box, this.below);
  }

  private chosen(point: LoadPoint): void {
    go("answer", { run: this.run, at_s: point.start_s + point.length_s / 2 });
  }

  async renew(asked: Asked): Promise<void> {
    // What cannot be read of one load leaves the other as it is.
    try {
      this.now = await get<Load>("load", { run: this.run }, asked.signal);
      this.told.fine();
    } catch (error) {
      if (asked.signal.aborted) return;
      return this.told.wrong(why(error));
    }
    const load = this.now;
    const bar = h("progress", { max: 1, value: load.share, "aria-label": "How far the load is" });
    bar.value = load.share;
    swap(this.top,
      h("div", { class: "title" }, h("p", { class: "soft" }, name(load.run, 60), ` \u00b7 since ${moment(load.begin_unix_ms, false)}`), h("h2", {}, name(load.target, 90)), h("p", { class: "soft" }, name(load.manner, 160))),
      h("p", { class: "row far", "data-state": load.state }, h("strong", {}, STATES[load.state]), h("span", {}, how_far(load))), bar,
      ...[remark(load)].filter((one) => one !== null), figures(load),
      ...(load.points_left_out > 0 ? [h("p", { class: "soft" }, `The ${count(load.points_left_out)} intervals before these are left out.`)] : []));
    this.curves.renew(load.points);
    swap(this.below, phases(load));
  }

  move(by: number): LoadPoint | null {
    return (this.at = this.curves.move(by) ?? null);
  }

  // The answer, at the interval that was chosen.
  async answer(asked: Asked): Promise<void> {
    // What was read of a run that grows is as old as its reading.
    if (this.now && is_under_way(this.now)) await post("open", { run: this.run, again: 1 }, "", asked.signal).catch((error: unknown) => asked.tell(why(error)));
    if (this.at) this.chosen(this.at);
    else go("answer", { run: this.run });
  }

  end(): void {
    this.curves.end();
  }
}

// The loads that are seen: those of the address, or the latest two that run, or the latest one.
function seen(told: Loads, given: Given): string[] {
  const named = [given["run"], given["beside"]].filter((one) => one !== undefined).map(String);
  if (named.length > 0) return [...new Set(named)];
  const running = told.loads.filter(is_under_way);
  return (running.length > 0 ? running.slice(0, 2) : told.loads.slice(0, 1)).map((load) => load.run);
}

export const load: Room = {
  name: "load",
  title: "Loads",
  of_run: false,
  async show(asked) {
    const [told, top, beside, said] = [note(), h("div", { class: "stack" }), h("div", { class: "beside" }), h("p", { class: "unseen", role: "status" })];
    asked.into.append(h("div", { class: "title" }, h("p", { class: "soft" }, "below ", h("bdi", {}, asked.has.directories.join(", "))), h("h1", {}, "Loads that run now")), told.box, top, beside, said);
    let panes: Pane[] = [];
    let was = new Map<string, LoadState>();
    await renewed(asked, told, async () => {
      const now = await get<Loads>("loads", {}, asked.signal);
      const chosen = seen(now, asked.place.given);
      // A load that was seen stays when it has ended, unless another has begun.
      const wanted = panes.length > 0 && chosen.length < panes.length && asked.place.given["run"] === undefined ? panes.map((pane) => pane.run) : chosen;
      for (const pane of panes.filter((one) => !wanted.includes(one.run))) pane.end();
      panes = wanted.map((run) => panes.find((one) => one.run === run) ?? new Pane(run));
      if (panes.some((pane, index) => beside.children[index] !== pane.box) || beside.children.length !== panes.length) beside.replaceChildren(...panes.map((pane) => pane.box));
      await Promise.all(panes.map((pane) => pane.renew(asked)));
      swap(top,
        ...(now.loads.length > 0 ? [list(now, wanted)] : [h("p", { class: "card" }, "No load runs here. ", h("code", {}, "weir load --run DIR URL"), " and ", h("code", {}, "weir explain --load URL"), " tell what they do below the directories of this console.")]),
        ...now.unreadable.map((one) => h("p", { class: "card wrong" }, name(one.run), `: ${one.error}`)));
      const states = new Map(panes.flatMap((pane): [string, LoadState][] => (pane.now ? [[pane.run, pane.now.state]] : [])));
      for (const [run, state] of states) if (was.get(run) === "running" && state !== "running") asked.tell(`The load of ${run} ${STATES[state]}.`);
      was = states;
    }, EVERY_MS);
    const moved = (by: number) => {
      const points = panes.map((pane) => pane.move(by));
      said.textContent = points.map((point) => (point ? `${time(point.start_s * 1e9)}: ${rate(point.rate_per_s)}, ${count(point.failed)} failed, p99 ${time(point.latency_ns?.p99)}` : "")).join("; ");
    };
    // The focus may be on a load of the list, else it is the first one that is seen.
    const first = () => panes[0];
    const enter = () => {
      const pane = first();
      if (!pane?.now) return asked.tell("No load is shown.");
      if (is_under_way(pane.now)) return asked.tell("It still runs: a shows the answer of what is recorded so far.");
      void pane.answer(asked);
    };
    const pair = () => {
      const run = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["key"]?.replace(/^load /, "") : undefined;
      const other = first()?.run;
      if (!run || !other || run === other) return asked.tell("Choose another load of the list by j and k first.");
      go("load", { run: other, beside: run });
    };
    const keys: Key[] = [
      { keys: ["j"], words: "the next load of the list; Enter shows it", act: () => move(top, 1) },
      { keys: ["k"], words: "the load before", act: () => move(top, -1) },
      { keys: ["b"], words: "show the load of the list beside the one that is shown", act: pair },
      { keys: ["ArrowLeft"], words: "the interval before", act: () => moved(-1) },
      { keys: ["ArrowRight"], words: "the next interval", act: () => moved(1) },
      { keys: ["Enter"], words: "the answer of the run, once the load has ended", act: enter },
      { keys: ["a"], words: "the answer of what is recorded so far; reading it takes CPU time from the load", act: () => void first()?.answer(asked) },
    ];
    return { keys, end: () => panes.forEach((pane) => pane.end()) };
  },
};
