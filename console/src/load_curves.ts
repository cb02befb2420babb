// What a load does, interval by interval, as curves over the time since its begin.

import uPlot from "uplot";
import type { LoadPoint } from "./api.ts";
import { h } from "./dom.ts";
import { bytes, rate, time } from "./format.ts";

const HEIGHT = 150;
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';

interface Line { label: string; colour: string; dash?: number[]; is_filled?: boolean; of: (point: LoadPoint) => number | null }
interface Curve { title: string; is_log?: boolean; shown: (value: number | null) => string; lines: Line[] }

const CURVES: Curve[] = [
  {
    title: "A second", shown: rate, lines: [
      { label: "answered", colour: "accent", is_filled: true, of: (point) => point.rate_per_s },
      { label: "failed", colour: "strong", of: (point) => point.failed_per_s },
    ],
  },
  {
    title: "Response times of successes", is_log: true, shown: time, lines: [
      { label: "median", colour: "accent", of: (point) => point.latency_ns?.p50 ?? null },
      { label: "p90", colour: "soft", dash: [3, 3], of: (point) => point.latency_ns?.p90 ?? null },
      { label: "p99", colour: "strong", dash: [6, 4], of: (point) => point.latency_ns?.p99 ?? null },
    ],
  },
  {
    title: "Received", shown: (value) => (value === null ? "-" : `${bytes(Math.round(value))}/s`), lines: [
      { label: "received", colour: "good", is_filled: true, of: (point) => point.bytes_per_s },
    ],
  },
];

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export class LoadCurves {
  readonly box = h("div", { class: "curves" });
  private plots: uPlot[] = [];
  private points: LoadPoint[] = [];
  private at: number | null = null;
  private readonly resized = new ResizeObserver(() => this.fit());
  private readonly repaint = () => this.draw();
  private readonly places = CURVES.map((curve) => h("div", { class: "plot" }, h("h3", {}, curve.title)));

  // Loads that are seen beside each other have their cursors together.
  constructor(private readonly chosen: (point: LoadPoint) => void) {
    this.box.append(...this.places);
    addEventListener("repaint", this.repaint);
    this.resized.observe(this.box);
  }

  private data(curve: Curve): uPlot.AlignedData {
    return [this.points.map((point) => point.start_s + point.length_s / 2), ...curve.lines.map((line) => this.points.map(line.of))];
  }

  private width(): number {
    return Math.max(240, this.box.clientWidth);
  }

  private fit(): void {
    if (this.plots.length === 0) return this.draw();
    for (const plot of this.plots) plot.setSize({ width: this.width(), height: HEIGHT });
  }

  // A logarithmic scale has no place for a load without a success.
  private hide(): void {
    CURVES.forEach((curve, number) => (this.places[number]!.hidden = this.points.length === 0 || (curve.is_log === true && !this.points.some((point) => point.latency_ns))));
  }

  private draw(): void {
    for (const plot of this.plots) plot.destroy();
    this.hide();
    const [ink, rule] = [colour("soft"), colour("rule")];
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule }, font: FONT };
    this.plots = CURVES.map((curve, number) => {
      const plot = new uPlot({
        width: this.width(), height: HEIGHT, scales: { x: { time: false }, y: curve.is_log ? { distr: 3 } : { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        axes: [{ ...axis, values: (_, all) => all.map((at) => `${+at.toFixed(3)} s`) }, { ...axis, size: 76, values: (_, all) => all.map((value) => (value === null ? "" : curve.shown(value))) }],
        series: [{ label: "at", value: (_, at) => (at === null ? "-" : `${at.toFixed(1)} s`) }, ...curve.lines.map((line) => ({
          label: line.label, stroke: colour(line.colour), width: 2, ...(line.dash ? { dash: line.dash } : {}), ...(line.is_filled ? { fill: `${colour(line.colour)}22` } : {}),
          points: { size: 4 }, value: (_: uPlot, value: number | null) => curve.shown(value),
        }))],
        cursor: { drag: { x: false, y: false }, sync: { key: "load" } },
      }, this.data(curve), this.places[number]);
      plot.over.addEventListener("click", () => {
        const point = typeof plot.cursor.idx === "number" ? this.points[plot.cursor.idx] : undefined;
        if (point) this.chosen(point);
      });
      return plot;
    });
    if (this.at !== null) this.move(0);
  }

  // New figures; where the cursor stands stays.
  renew(points: LoadPoint[]): void {
    this.points = points;
    this.hide();
    this.plots.forEach((plot, number) => plot.setData(this.data(CURVES[number]!)));
    if (this.at !== null) this.move(0);
  }

  // Moves the cursor by so many intervals; the one that it is at.
  move(by: number): LoadPoint | undefined {
    const last = this.points.length - 1;
    if (last < 0) return undefined;
    this.at = Math.max(0, Math.min(last, this.at === null ? last : this.at + by));
    const point = this.points[this.at]!;
    for (const plot of this.plots) plot.setCursor({ left: plot.valToPos(point.start_s + point.length_s / 2, "x"), top: HEIGHT / 3 }, false);
    return point;
  }

  end(): void {
    this.resized.disconnect();
    removeEventListener("repaint", this.repaint);
    for (const plot of this.plots) plot.destroy();
  }
}
