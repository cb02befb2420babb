// What a room is: it fills the page for a state of the address, and may have keys of its own.

import type { Has, State } from "./api.ts";
import { get, post } from "./api.ts";
import { h } from "./dom.ts";
import { count } from "./format.ts";
import type { Place } from "./place.ts";

export interface Key { keys: string[]; words: string; act: (event: KeyboardEvent) => void }
export interface Shown { keys?: Key[]; end?: () => void }
export interface Asked { into: HTMLElement; place: Place; has: Has; signal: AbortSignal; tell: (text: string) => void }
export interface Room {
  name: string;
  title: string;
  // Whether it shows one run, which stands in the address as `run`.
  of_run: boolean;
  // The key of a room that is not in the order of the numbers: one of a running server.
  key?: string;
  // The room in the navigation to which a room belongs that is not there itself.
  under?: string;
  // Of what a room of what runs now is, if not of the server.
  of?: (has: Has) => string | undefined;
  show: (asked: Asked) => Promise<Shown>;
}

const LOOK_MS = 250;
const STEPS = { answer: "explaining it", chart: "making levels of detail", requests: "making tables of its requests" };

// Opens a run, shows how far reading is, and comes back once what is needed is there.
export async function opened(asked: Asked, run: string, needs: keyof State["has"], events = 0): Promise<State> {
  let state = await post<State>("open", { run }, "", asked.signal);
  if (state.has[needs]) return state;
  const words = h("p", {});
  const bar = h("progress", { "aria-label": "How far reading the run is" });
  const box = h("section", { class: "card progress" }, h("h2", {}, "Reading ", h("bdi", {}, run)), words, bar,
    h("p", { class: "soft" }, "A run is read once; what is made of it is kept beside it, so that it opens at once the next time."));
  asked.into.replaceChildren(box);
  while (!state.has[needs]) {
    if (state.state === "failed") throw new Error(state.error ?? "the run cannot be read");
    const step = state.step ? STEPS[state.step] : "waiting for another run to be read";
    words.textContent = `${step}${state.events ? `: ${count(state.events)} events` : ""}`;
    if (state.events && events > 0) {
      bar.max = Math.max(events, state.events);
      bar.value = state.events;
    } else bar.removeAttribute("value");
    await new Promise((done) => setTimeout(done, LOOK_MS));
    state = await get<State>("state", { run }, asked.signal);
  }
  asked.into.replaceChildren();
  return state;
}

export function run_of(place: Place): string {
  const run = place.given["run"];
  if (!run) throw new Error("No run is chosen: the room Runs lists them.");
  return run;
}
