// What moves in a cluster, as dots that fly from box to box of its map.

import { h, styled } from "./dom.ts";
import type { ClusterEvent, Flight } from "./now.ts";

const TAKES_MS = 1400;
// Dots at a time; what has no room is counted.
const MOST = 40;
// Moves of one answer begin as they came, within so long.
const SPREAD_MS = 1500;
// Moves that are remembered, so that none flies twice.
const MOST_KNOWN = 4000;

const reduced = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function middle(of: Element, within: DOMRect): [number, number] {
  const box = of.getBoundingClientRect();
  return [box.left + box.width / 2 - within.left, box.top + box.height / 2 - within.top];
}

export class Flights {
  // What was flown, and what had no room: for people who cannot see it, and for tests.
  flown = 0;
  left_out = 0;
  private under_way = 0;
  private newest_us: number | null = null;
  private readonly known = new Set<string>();

  // The map, and the box of a node in it by its name.
  constructor(private readonly map: HTMLElement, private readonly box_of: (name: string) => Element | null, private readonly say: (words: string) => void) {}

  // Events, the newest first: what came since the last time flies. At first nothing does: it is over.
  take(events: ClusterEvent[]): void {
    const before = this.newest_us;
    this.newest_us = Math.max(before ?? 0, ...events.map((event) => event.at_us));
    let first_us: number | undefined;
    for (const event of [...events].reverse()) {
      if (!event.flight) continue;
      const key = event.move ?? `${event.at_us} ${event.client ?? ""} ${event.what}`;
      if (this.known.has(key)) continue;
      if (this.known.size >= MOST_KNOWN) this.known.clear();
      this.known.add(key);
      // An event may be written a little after one with a later time.
      if (before === null || event.at_us <= before - 2e6) continue;
      first_us ??= event.at_us;
      this.fly(event.flight, Math.max(0, Math.min(SPREAD_MS, (event.at_us - first_us) / 1000)));
    }
  }

  private fly(flight: Flight, delay: number): void {
    const to = this.box_of(flight.to);
    const from = flight.from === null ? null : this.box_of(flight.from);
    if (!to) return;
    this.flown += 1;
    this.map.dataset["flown"] = String(this.flown);
    this.say(flight.of === "session" ? `A session moved from ${flight.from ?? "another node"} to ${flight.to}.` : `Content came to ${flight.to}${flight.from === null ? "" : ` from ${flight.from}`}.`);
    if (this.under_way >= MOST) {
      this.left_out += 1;
      this.map.dataset["leftOut"] = String(this.left_out);
      return;
    }
    this.under_way += 1;
    const done = () => (this.under_way -= 1);
    if (reduced() || document.hidden) this.mark([from, to], done);
    else this.animate(flight, [from ?? to, to], delay, done);
  }

  // Without motion both ends are marked for a while.
  private mark(ends: (Element | null)[], done: () => void): void {
    for (const end of ends) end?.classList.add("moved");
    setTimeout(() => {
      for (const end of ends) end?.classList.remove("moved");
      done();
    }, TAKES_MS);
  }

  private animate(flight: Flight, [from, to]: [Element, Element], delay: number, done: () => void): void {
    const within = this.map.getBoundingClientRect();
    const [[x, y], [there_x, there_y]] = [middle(from, within), middle(to, within)];
    const dot = styled(h("span", { class: `dot ${flight.of}`, "aria-hidden": "true" }), { left: `${x}px`, top: `${y}px` });
    this.map.append(dot);
    const lift = Math.min(90, 0.25 * Math.hypot(there_x - x, there_y - y));
    const frames = from === to
      ? [{ transform: "scale(1)", opacity: 1 }, { transform: "scale(4)", opacity: 0 }]
      : [{ transform: "translate(0, 0)" }, { transform: `translate(${(there_x - x) / 2}px, ${(there_y - y) / 2 - lift}px) scale(1.5)` }, { transform: `translate(${there_x - x}px, ${there_y - y}px)` }];
    dot.animate(frames, { duration: TAKES_MS, delay, fill: "backwards", easing: "ease-in-out" }).finished.catch(() => undefined).finally(() => {
      dot.remove();
      done();
    });
  }
}
