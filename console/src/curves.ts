// What a server did over hours, as curves over one time: requests, times, bytes, with the marks of what was done to it.

import uPlot from "uplot";
import type { Activity, Mark } from "./api.ts";
import { h } from "./dom.ts";
import { bytes, moment, per_minute, time } from "./format.ts";

const HEIGHT = 170;
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const TOGETHER = "activity";
const LETTERS: Record<string, string> = { start: "S", stop: "E", lost: "?", followed: "F", reload: "R", reload_refused: "!", deploy: "D" };

export function letter(mark: Mark): string {
  return LETTERS[mark.kind] ?? "*";
}

interface Curve { title: string; series: { label: string; colour: string; dash?: number[]; is_filled?: boolean; of: (step: Activity["steps"][number]) => number | null; shown: (value: number | null) => string }[]; is_log?: boolean; axis: (value: number) => string }

const per_min = (value: number | null) => per_minute(value);
const CURVES: Curve[] = [
  {
    title: "Requests a minute", axis: (value) => per_minute(value).replace(/\s\/min/, ""), series: [
      { label: "requests", colour: "accent", is_filled: true, of: (step) => step.requests_per_min, shown: per_min },
      { label: "4xx", colour: "soft", dash: [3, 3], of: (step) => step.client_errors_per_min, shown: per_min },
      { label: "5xx", colour: "strong", of: (step) => step.server_errors_per_min, shown: per_min },
    ],
  },
  {
    title: "Times of successes", is_log: true, axis: time, series: [
      { label: "median", colour: "accent", of: (step) => (step.timed > 0 ? step.p50_us * 1e3 : null), shown: time },
      { label: "p99", colour: "strong", dash: [6, 4], of: (step) => (step.timed > 0 ? step.p99_us * 1e3 : null), shown: time },
    ],
  },
  {
    title: "Bytes a minute", axis: bytes, series: [
      { label: "sent a minute", colour: "good", is_filled: true, of: (step) => step.sent_bytes_per_min, shown: (value) => bytes(value === null ? null : Math.round(value)) },
    ],
  },
];

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A line and a letter where something was done to the server.
function marks_drawn(marks: () => Mark[]): uPlot.Plugin {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = colour("soft");
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
        ctx.font = `${11 * devicePixelRatio}px system-ui, "DejaVu Sans", sans-serif`;
        ctx.textAlign = "center";
        ctx.textBaseline = "top";
        let free = -Infinity;
        for (const mark of marks()) {
          const x = plot.valToPos(mark.unix_ms / 1000, "x", true);
          if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top + 14 * devicePixelRatio);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
          // Letters that would lie over each other are in the list below.
          if (x - free < 9 * devicePixelRatio) continue;
          free = x;
          ctx.fillText(letter(mark), x, bbox.top);
        }
        ctx.restore();
      },
    },
  };
}

export class Curves {
  readonly box = h("div", { class: "curves" });
  private plots: uPlot[] = [];
  private at: number | null = null;
  private readonly resized = new ResizeObserver(() => this.fit());
  private readonly repaint = () => this.draw();
  private readonly places = CURVES.map((curve) => h("div", { class: "plot" }, h("h2", {}, curve.title)));

  constructor(private told: Activity, private readonly chosen: (step: number) => void) {
    this.box.append(...this.places);
    addEventListener("repaint", this.repaint);
    this.resized.observe(this.box);
  }

  private data(curve: Curve): uPlot.AlignedData {
    const { steps, step_s } = this.told;
    // A step stands in its middle, so that a curve lies where its requests were. Where no server ran there is a gap.
    const at = steps.map((step) => step.begin_unix_s + step_s / 2);
    return [at, ...curve.series.map((one) => steps.map((step) => (step.up_s > 0 || step.requests > 0 ? one.of(step) : null)))];
  }

  private fit(): void {
    this.hide();
    if (this.plots.length === 0) return this.draw();
    for (const plot of this.plots) plot.setSize({ width: this.width(), height: HEIGHT });
  }

  // Times come with the end of a minute: before the first one there is nothing to draw.
  private hide(): void {
    CURVES.forEach((curve, number) => (this.places[number]!.hidden = curve.is_log === true && this.told.whole.timed === 0));
  }

  private width(): number {
    return Math.max(240, this.box.clientWidth);
  }

  private draw(): void {
    for (const plot of this.plots) plot.destroy();
    const [ink, rule] = [colour("soft"), colour("rule")];
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule }, font: FONT };
    this.plots = CURVES.map((curve, number) => {
      const series = curve.series.map((one) => ({
        label: one.label, stroke: colour(one.colour), width: 2, ...(one.dash ? { dash: one.dash } : {}), ...(one.is_filled ? { fill: `${colour(one.colour)}22` } : {}),
        points: { size: 4 }, value: (_: uPlot, value: number | null) => one.shown(value),
      }));
      const plot = new uPlot({
        width: this.width(), height: HEIGHT, scales: { x: { time: true }, y: curve.is_log ? { distr: 3 } : { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        axes: [{ ...axis, space: 90, values: (_, all) => all.map((at) => moment(at * 1000, false).replace(/:\d\d$/, "")) }, { ...axis, size: 76, values: (_, all) => all.map((value) => (value === null ? "" : curve.axis(value))) }],
        series: [{ label: "at", value: (_, at) => (at === null ? "-" : moment((at - this.told.step_s / 2) * 1000, false)) }, ...series],
        cursor: { drag: { x: false, y: false }, sync: { key: TOGETHER } }, plugins: [marks_drawn(() => this.told.marks)],
      }, this.data(curve), this.places[number]);
      plot.over.addEventListener("click", () => {
        if (typeof plot.cursor.idx === "number") this.chosen(plot.cursor.idx);
      });
      return plot;
    });
    if (this.at !== null) this.move(0);
  }

  // New figures; where the cursor stands stays.
  renew(told: Activity): void {
    this.told = told;
    this.hide();
    this.plots.forEach((plot, number) => plot.setData(this.data(CURVES[number]!)));
    if (this.at !== null) this.move(0);
  }

  // Moves the cursor by so many steps; the step that it is at.
  move(by: number): number {
    const last = this.told.steps.length - 1;
    this.at = Math.max(0, Math.min(last, this.at === null ? last : this.at + by));
    const step = this.told.steps[this.at];
    for (const plot of this.plots) plot.setCursor({ left: plot.valToPos((step?.begin_unix_s ?? 0) + this.told.step_s / 2, "x"), top: HEIGHT / 3 }, false);
    return this.at;
  }

  end(): void {
    this.resized.disconnect();
    removeEventListener("repaint", this.repaint);
    for (const plot of this.plots) plot.destroy();
  }
}
