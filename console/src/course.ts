// Response times in the course of a run, drawn by uPlot; a click leads to the requests of that time.

import uPlot from "uplot";
import type { Explanation, Slice } from "./api.ts";
import { h } from "./dom.ts";
import { count, time } from "./format.ts";

const HEIGHT = 240;
type Course = NonNullable<Explanation["course"]>;

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function plotted(into: HTMLElement, told: Course, chosen: (index: number) => void): uPlot {
  const slices = told.slices;
  const [ink, rule, accent, strong] = ["soft", "rule", "accent", "strong"].map(colour) as [string, string, string, string];
  const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule }, font: '12px system-ui, "DejaVu Sans", sans-serif' };
  const plot = new uPlot({
    width: Math.max(240, into.clientWidth),
    height: HEIGHT,
    scales: { x: { time: false }, y: { distr: 3 } },
    legend: { show: true },
    axes: [
      { ...axis, values: (_, all) => all.map((at) => `${+at.toFixed(3)} s`) },
      { ...axis, size: 70, values: (_, all) => all.map((ns) => (ns === null ? "" : time(ns))) },
    ],
    series: [
      { label: "at", value: (_, at) => (at === null ? "-" : `${at.toFixed(2)} s`) },
      { label: "median", stroke: accent, width: 2, value: (_, ns) => time(ns) },
      { label: "p99", stroke: strong, width: 2, dash: [6, 4], value: (_, ns) => time(ns) },
      { label: "answered", show: true, scale: "hidden", stroke: "transparent", points: { show: false }, value: (_, number) => count(number) },
    ],
    cursor: { drag: { x: false, y: false } },
  }, [slices.map((one) => one.at_s), slices.map((one) => one.p50_ns), slices.map((one) => one.p99_ns), slices.map((one) => one.answered)], into);
  plot.over.addEventListener("click", () => {
    if (typeof plot.cursor.idx === "number") chosen(plot.cursor.idx);
  });
  return plot;
}

// What is done with a slice: `to` leads to its requests, `told` shows it beside the curves. `at_s` chooses one at once.
export interface Chosen { at_s: number | null; to: (slice: Slice) => Promise<void>; told: (slice: Slice) => void }

// Draws into a section; the function that comes back removes what listens.
export function course(section: HTMLElement, told: Course, does: Chosen): () => void {
  const into = h("div", { class: "plot", role: "application", tabindex: 0, "aria-label": "Response times over time: arrow keys move, Enter shows the requests of that time" });
  const words = h("p", { class: "soft" }, `Median and p99 of the requests that ended in each ${time(told.slice_s * 1e9)}, on a logarithmic scale. Arrow keys choose a time and show what it was made of; a click, or Enter, leads to its requests.`);
  const said = h("p", { class: "unseen", role: "status" });
  section.append(words, into, said);
  const begun = (at_s: number) => Math.max(0, told.slices.filter((slice) => slice.at_s <= at_s).length - 1);
  let at = does.at_s === null ? -1 : begun(does.at_s);
  const shown = () => {
    const slice = told.slices[at];
    if (!slice) return;
    // A plot that was made just now has no scales before the next frame.
    requestAnimationFrame(() => plot.setCursor({ left: plot.valToPos(slice.at_s, "x"), top: HEIGHT / 3 }));
    does.told(slice);
  };
  const chosen = (index: number) => {
    at = index;
    const slice = told.slices[at];
    if (!slice) return;
    does.told(slice);
    void does.to(slice);
  };
  let plot = plotted(into, told, chosen);
  shown();
  into.addEventListener("keydown", (event) => {
    if (event.key === "Enter") chosen(Math.max(0, at));
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    event.stopPropagation();
    at = Math.max(0, Math.min(told.slices.length - 1, at + by));
    const slice = told.slices[at];
    shown();
    said.textContent = `at ${slice?.at_s.toFixed(2)} s: median ${time(slice?.p50_ns)}, p99 ${time(slice?.p99_ns)}, ${count(slice?.answered)} answered`;
  });
  const resized = new ResizeObserver(() => plot.setSize({ width: Math.max(240, into.clientWidth), height: HEIGHT }));
  resized.observe(into);
  const repaint = () => {
    plot.destroy();
    plot = plotted(into, told, chosen);
    shown();
  };
  addEventListener("repaint", repaint);
  return () => {
    resized.disconnect();
    removeEventListener("repaint", repaint);
    plot.destroy();
  };
}
