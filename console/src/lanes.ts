// A window of time over a run: where it is, how it moves, and drawing it once a frame.

import { AXIS, Drawing, type Row } from "../../crates/cli/src/view/draw.js";
import { lanes_of } from "../../crates/cli/src/view/locks.js";
import { Tiles, walk } from "../../crates/cli/src/view/tiles.js";
import { address } from "./api.ts";

export interface Slow { from_ns: number; response_ns: number; name: string; status: number; steps: { from_ns: number; ns: number; part: string }[] }
export interface Task { pid: number; tgid: number; name: string; first_ns: number; last_ns: number }
export interface Whole { duration_ns: number; bucket_ns: number; tiles: number[]; cpus: number[]; tasks: Task[]; locks: unknown[]; requests: number; events: number; host: string; longest_ns: number; slowest: Slow[]; remarks: unknown[]; damage: string[]; lost: number }

const MOST_ROWS = 400;
const LEAST_NS = 200;
const OVERVIEW = 56;

export class Lanes {
  readonly drawing: Drawing;
  readonly by_pid: Map<number, Task>;
  readonly tiles: Tiles;
  from = 0;
  to: number;
  scroll = 0;
  gutter = 150;
  request: Slow | null = null;
  layout: { rows: Row[]; height: number } = { rows: [], height: 0 };
  // What the viewer's code asks of a window: its own chart of objects is not shown here.
  readonly chart = "lanes";
  readonly choice = null;
  private tasks: Task[];
  private asked = false;
  private still: HTMLCanvasElement | null = null;

  constructor(readonly whole: Whole, readonly lanes: HTMLCanvasElement, readonly overview: HTMLCanvasElement, run: string, readonly changed: () => void) {
    this.to = whole.duration_ns;
    this.by_pid = new Map(whole.tasks.map((task) => [task.pid, task]));
    this.tiles = new Tiles(whole, () => this.repaint(), (name) => {
      const [level, index] = name.split("/");
      return address("tile", { run, level, index });
    });
    this.tasks = whole.tasks;
    this.drawing = new Drawing(lanes);
    this.colours();
    this.lay_out();
  }

  // The page's choice of dark or light may be another than the browser's.
  colours(): void {
    this.drawing.read_colours();
    this.drawing.dark = document.documentElement.dataset["dark"] === "true";
  }

  lay_out(tasks = this.tasks): void {
    this.tasks = tasks;
    const places = new Map<number, number>();
    for (const task of tasks) if (!places.has(task.tgid || task.pid)) places.set(task.tgid || task.pid, places.size);
    const place = (task: Task) => places.get(task.tgid || task.pid) ?? 0;
    this.layout = Drawing.layout(this.whole.cpus, lanes_of(this.whole), [...tasks].sort((a, b) => place(a) - place(b)).slice(0, MOST_ROWS));
    this.fit();
  }

  // Keeps the lanes in sight after the canvas or their number has changed.
  fit(): void {
    this.scroll = Math.max(0, Math.min(this.scroll, this.layout.height - this.lanes.clientHeight + AXIS));
    this.repaint();
  }

  move(from: number, to: number): void {
    const span = Math.max(LEAST_NS, Math.min(this.whole.duration_ns, to - from));
    this.from = Math.max(0, Math.min(from, this.whole.duration_ns - span));
    this.to = this.from + span;
    this.redraw();
  }

  zoom(factor: number, at = (this.from + this.to) / 2): void {
    const share = (at - this.from) / (this.to - this.from);
    const span = Math.max(LEAST_NS, Math.min(this.whole.duration_ns, (this.to - this.from) / factor));
    this.move(at - share * span, at + (1 - share) * span);
  }

  pan(share: number): void {
    const by = (this.to - this.from) * share;
    this.move(this.from + by, this.to + by);
  }

  roll(by: number): void {
    if (by === 0) return;
    this.scroll = Math.max(0, Math.min(this.scroll + by, this.layout.height - this.lanes.clientHeight + AXIS));
    this.redraw();
  }

  find(query: string): number {
    const found = this.whole.tasks.filter((task) => `${task.name} ${task.pid}`.toLowerCase().includes(query));
    this.lay_out(query === "" || found.length === 0 ? this.whole.tasks : found);
    return found.length;
  }

  ns_at(x: number): number {
    return this.from + (x - this.gutter) / this.drawing.scale;
  }

  get settled(): boolean {
    return this.tiles.under_way === 0 && this.tiles.wanted.length === 0;
  }

  // Draws all of it, as tiles have come or colours have changed.
  repaint(): void {
    this.drawing.drawn = null;
    this.still = null;
    this.redraw();
  }

  redraw(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (!this.lanes.isConnected) return;
      this.gutter = this.lanes.clientWidth < 640 ? 112 : 150;
      this.drawing.pan(this);
      this.draw_overview();
      this.changed();
    });
  }

  // The whole run, drawn once; the window is laid over it.
  private draw_overview(): void {
    const { overview, whole, drawing } = this;
    const ratio = devicePixelRatio || 1;
    const width = overview.clientWidth;
    if (!this.still || this.still.width !== Math.round(width * ratio)) this.still = this.whole_run(width, ratio);
    // A canvas that is given a size is laid out anew.
    if (overview.width !== this.still.width) overview.width = this.still.width;
    if (overview.height !== this.still.height) overview.height = this.still.height;
    const context = overview.getContext("2d");
    if (!context) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, overview.width, overview.height);
    context.drawImage(this.still, 0, 0);
    context.scale(ratio, ratio);
    context.fillStyle = drawing.colours["mark"] ?? "";
    const scale = width / whole.duration_ns;
    const [x, wide] = [this.from * scale, Math.max(3, (this.to - this.from) * scale)];
    context.fillRect(x, 0, wide, OVERVIEW);
    context.strokeStyle = drawing.colours["accent"] ?? "";
    context.strokeRect(x + 0.5, 0.5, wide - 1, OVERVIEW - 1);
  }

  private whole_run(width: number, ratio: number): HTMLCanvasElement {
    const { whole, drawing } = this;
    const still = document.createElement("canvas");
    still.width = Math.round(width * ratio);
    still.height = Math.round(OVERVIEW * ratio);
    const context = still.getContext("2d");
    if (!context) return still;
    context.scale(ratio, ratio);
    const scale = width / whole.duration_ns;
    const top = whole.tiles.length - 1;
    const most = Math.log10(Math.max(10, whole.longest_ns));
    for (let index = 0; index < (whole.tiles[top] ?? 0); index++) {
      const tile = this.tiles.best(top, index);
      if (!tile) continue;
      context.fillStyle = drawing.colours["idle"] ?? "";
      context.globalAlpha = 1 / tile.cpus.size + 0.2;
      for (const lane of tile.cpus.values()) {
        walk(lane, tile.bucket_ns, tile.from, 0, whole.duration_ns, (from, to, shares, place, count) => {
          let busy = 0;
          for (let at = 0; at < count; at++) if (shares[place + 2 * at] !== 0) busy += (shares[place + 2 * at + 1] ?? 0) / 255;
          context.fillRect(from * scale, OVERVIEW - busy * 22, Math.max(0.6, (to - from) * scale), busy * 22);
        });
      }
      context.globalAlpha = 1;
      context.fillStyle = drawing.colours["accent"] ?? "";
      for (let place = 0; place < tile.requests.length; place += 3) {
        const at = (tile.from + (tile.requests[place] ?? 0) * tile.bucket_ns) * scale;
        const high = Math.max(1, ((Math.log10(Math.max(1, tile.requests[place + 2] ?? 1)) - 3) / Math.max(1, most - 3)) * 30);
        context.fillRect(at, 33 - high, Math.max(1, tile.bucket_ns * scale), Math.min(high, 2.5));
      }
    }
    this.tiles.next();
    return still;
  }
}
