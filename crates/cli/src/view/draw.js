// Draws the window: an axis, requests, a lane for each CPU, each lock and each task.

import * as locks from "./locks.js";
import * as objects from "./objects.js";
import { UNKNOWN, walk } from "./tiles.js";

export { UNKNOWN };
export const RUNNING = 16;
// Parts whose colours the states of a task have, by code; 5 waits for a socket or another descriptor, mostly idle.
const STATES = ["unattributed", "wait_cpu", "wait_lock", "wait_timer", "wait_process", "idle", "wait_disk", "other"];
const IDLE = 5;
const OTHER = 7;
const WORDS = [
  "not known", "could run, waits for a CPU", "waits for a lock", "sleeps", "waits for a process or a signal",
  "waits for a socket, a pipe or another descriptor", "waits for a disk", "waits, for what is not told",
];
export const AXIS = 22;
const REQUESTS = 78;
// A request's bar with its name, and from one to the next.
const BAR = 12;
const BARS = 13;
// The least that a time mark needs, where there is little room and where there is more.
const [NARROW, WIDE] = [72, 110];
const CPU = 22;
const TASK = 18;
const GAP = 10;

// Of several hosts each has CPUs and tasks of its own numbers: what stands above these is the host's.
const HOSTS = JSON.parse(document.body.dataset.hosts || "[]");
const [CPUS, NUMBERS] = [1024, 1 << 24];

export function cpu_name(cpu) {
  return HOSTS.length ? `CPU ${cpu % CPUS} on ${HOSTS[Math.floor(cpu / CPUS)] ?? "?"}` : `CPU ${cpu}`;
}

// The number that a task has on its own host.
export function number(pid) {
  return HOSTS.length ? pid % NUMBERS : pid;
}

export function state_words(code) {
  return code >= RUNNING ? `runs on ${cpu_name(code - RUNNING)}` : (WORDS[code] ?? WORDS[0]);
}

export function time(ns) {
  const size = Math.abs(ns);
  const [value, unit] = size < 1e3 ? [ns, "ns"] : size < 1e6 ? [ns / 1e3, "us"] : size < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  const digits = unit === "ns" ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.max(1, Math.abs(value)))));
  return `${value.toFixed(digits)} ${unit}`;
}

export function step_for(span, most) {
  const rough = span / most;
  const decade = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * decade).find((step) => step >= rough) ?? decade * 10;
}

// A time with as many digits as ticks of this distance need.
export function tick(ns, step) {
  const [unit, name] = step >= 1e9 || ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "us"] : [1, "ns"];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  return `${(ns / unit).toFixed(digits)} ${name}`;
}

export class Drawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.boxes = [];
    this.read_colours();
  }

  read_colours() {
    const style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries(["ground", "card", "ink", "soft", "rule", "edge", "accent", "band", "idle", "mark"].map((name) => [name, colour(name)]));
    this.states = STATES.map((name) => (name === "other" ? this.colours.edge : colour(name)));
    this.running = colour("run");
    this.part = (name) => colour(name) || this.colours.edge;
    this.dark = dark;
    this.drawn = null;
  }

  // The colour of a task in a CPU's lane: its process by hue, the server's stronger than others.
  of_task(pid, task) {
    if (pid === 0) return this.colours.band;
    if (pid === UNKNOWN) return this.part("unattributed");
    const hue = ((task?.tgid || pid) * 137.508) % 360;
    return task?.traced ? `hsl(${hue} 62% ${this.dark ? 46 : 62}%)` : `hsl(${hue} 16% ${this.dark ? 38 : 76}%)`;
  }

  // The colour of a task that holds a lock; where none is known, the lock is waited for all the same.
  of_holder(pid) {
    return pid === UNKNOWN ? this.part("wait_lock") : this.of_task(pid, this.view.by_pid.get(pid));
  }

  // Rows from top to bottom: where each lies, in pixels of the whole list.
  static layout(cpus, lanes_of_locks, tasks) {
    const rows = [{ sort: "requests", label: "requests", top: 0, height: REQUESTS }];
    let top = REQUESTS + 4;
    for (const cpu of cpus) {
      rows.push({ sort: "cpu", id: cpu, label: cpu_name(cpu), top, height: CPU });
      top += CPU + 2;
    }
    if (lanes_of_locks.length > 0) top += GAP;
    for (const lock of lanes_of_locks) {
      rows.push({ sort: "lock", id: lock.id, lock, label: locks.short(lock.name), top, height: locks.LOCK });
      top += locks.LOCK + 2;
    }
    top += GAP;
    let process = null;
    for (const task of tasks) {
      if (process !== null && process !== task.tgid) top += 3;
      process = task.tgid;
      rows.push({ sort: "task", id: task.pid, task, label: `${task.name || "?"} ${number(task.pid)}`, top, height: TASK });
      top += TASK + 2;
    }
    return { rows, height: top };
  }

  draw(view) {
    const { canvas, context } = this;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = "middle";
    this.boxes = [];
    this.request_names = 0;
    this.view = view;
    this.left = view.gutter;
    this.width = width;
    this.scale = (width - this.left) / (view.to - view.from);
    [this.origin, this.begin, this.end] = [view.from, view.from, view.to];
    const tiles = this.tiles();
    const visible = this.visible(height);
    this.paint(tiles, visible, this.left, width, height);
    this.labels(visible, height);
    this.axis(width);
    const { scroll, layout, request } = view;
    this.drawn = { width, height, ratio, scroll, layout, request, span: view.to - view.from, gutter: view.gutter };
    return tiles.length > 0;
  }

  // Moves what is drawn and draws what that uncovers, where nothing but the window's place has changed since.
  pan(view) {
    const { canvas, context, drawn } = this;
    const same = drawn && ["scroll", "layout", "request", "gutter"].every((name) => drawn[name] === view[name])
      && drawn.width === canvas.clientWidth && drawn.height === canvas.clientHeight && drawn.ratio === (devicePixelRatio || 1)
      && Math.abs(view.to - view.from - drawn.span) < 1e-9 * drawn.span;
    if (!same) return this.draw(view);
    const { width, height, ratio } = drawn;
    const tiles = this.tiles();
    const moved = Math.round((this.origin - view.from) * this.scale * ratio);
    // Single events are few, and arrows lead from one place to another.
    if (Math.abs(moved) >= (width - this.left) * ratio || tiles.some(({ tile }) => tile.exact)) return this.draw(view);
    if (moved === 0) return true;
    const [left, top] = [Math.round(this.left * ratio), Math.round(AXIS * ratio)];
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.beginPath();
    context.rect(left, top, canvas.width - left, canvas.height - top);
    context.clip();
    context.drawImage(canvas, moved, 0);
    context.restore();
    this.origin -= moved / (this.scale * ratio);
    const [from, to] = moved > 0 ? [this.left, this.left + moved / ratio] : [width + moved / ratio, width];
    // What is narrower than a pixel reaches into its neighbour.
    this.begin = this.origin + (from - 2 - this.left) / this.scale;
    this.end = this.origin + (to + 2 - this.left) / this.scale;
    this.boxes = this.boxes.filter((box) => box.to >= view.from && box.from <= view.to);
    this.paint(tiles, this.visible(height), from, to, height);
    this.axis(width);
    return tiles.length > 0;
  }

  tiles() {
    const { view } = this;
    return (view.chart === "objects" ? view.object_tiles : view.tiles).in_window(view.from, view.to, 1 / this.scale);
  }

  visible(height) {
    return this.view.layout.rows.filter((row) => this.y(row) + row.height > AXIS && this.y(row) < height);
  }

  // Lanes between two places of the canvas.
  paint(tiles, visible, from, to, height) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(from, AXIS, to - from, height - AXIS);
    context.clip();
    context.fillStyle = this.colours.card;
    context.fillRect(from, AXIS, to - from, height - AXIS);
    this.grid(height);
    this.marks(height);
    for (const row of visible) {
      context.fillStyle = row.sort === "task" ? this.colours.card : this.colours.band;
      if (row.sort !== "task") context.fillRect(from, this.y(row), to - from, row.height);
      for (const one of tiles) this.row(row, one);
    }
    if (this.view.chart === "objects") objects.arrows(this, tiles, visible);
    else this.wakes(tiles, visible);
    this.remarks(visible, height);
    this.chosen(visible);
    context.restore();
  }

  x(ns) {
    return this.left + (ns - this.origin) * this.scale;
  }

  y(row) {
    return AXIS + row.top - this.view.scroll;
  }

  grid(height) {
    const step = step_for(this.view.to - this.view.from, Math.max(3, (this.width - this.left) / (this.width < 640 ? NARROW : WIDE)));
    this.step = step;
    this.context.fillStyle = this.colours.rule;
    for (let at = Math.ceil(this.begin / step) * step; at <= this.end; at += step) {
      this.context.fillRect(Math.round(this.x(at)), AXIS, 1, height);
    }
  }

  axis(width) {
    const { context } = this;
    context.fillStyle = this.colours.card;
    context.fillRect(0, 0, width, AXIS);
    context.fillStyle = this.colours.soft;
    context.textAlign = "left";
    this.marked = [];
    let free = 0;
    for (let at = Math.ceil(this.view.from / this.step) * this.step; at <= this.view.to; at += this.step) {
      const text = tick(at, this.step);
      const wide = context.measureText(text).width;
      // At either edge it moves inwards, over the lanes' names as well.
      const x = Math.max(2, Math.min(this.x(at) - wide / 2, width - wide - 2));
      if (x < free) continue;
      context.fillText(text, x, AXIS / 2);
      this.marked.push([x, x + wide]);
      free = x + wide + 8;
    }
    context.fillStyle = this.colours.edge;
    context.fillRect(0, AXIS - 1, width, 1);
  }

  labels(visible, height) {
    const { context } = this;
    context.fillStyle = this.colours.card;
    context.fillRect(0, AXIS, this.left, height);
    context.textAlign = "left";
    context.save();
    context.beginPath();
    context.rect(0, AXIS, this.left - 4, height);
    context.clip();
    for (const row of visible) {
      context.fillStyle = row.task && !row.task.traced ? this.colours.soft : this.colours.ink;
      context.fillText(row.label, 8, this.y(row) + Math.min(row.height, 20) / 2 + (row.sort === "requests" ? 2 : 0));
    }
    context.restore();
    context.fillStyle = this.colours.rule;
    context.fillRect(this.left - 1, AXIS, 1, height);
  }

  row(row, { tile, from, to }) {
    const begin = Math.max(from, this.begin);
    const end = Math.min(to, this.end);
    if (end <= begin) return;
    if (row.sort === "object") return objects.row(this, row, tile, begin, end);
    if (row.sort === "requests") return tile.exact ? this.single_requests(row, tile, begin, end) : this.request_buckets(row, tile, begin, end);
    const lane = { cpu: tile.cpus, lock: tile.locks, task: tile.tasks }[row.sort].get(row.id);
    if (!lane) {
      if (row.sort === "task" && row.task.first_ns <= end && row.task.last_ns >= begin) this.line(row, begin, end);
      return;
    }
    if (tile.exact && row.sort === "lock") locks.exact(this, row, tile, lane, begin, end);
    else if (tile.exact) this.exact(row, tile, lane, begin, end);
    else walk(lane, tile.bucket_ns, tile.from, begin, end, (a, b, shares, place, count) => this.bucket(row, a, b, shares, place, count));
  }

  // A task that did nothing: it is there, and waits as before.
  line(row, from, to) {
    this.context.fillStyle = this.colours.idle;
    this.context.fillRect(this.x(from), this.y(row) + row.height / 2, (to - from) * this.scale, 1);
  }

  // Idle, as far as one can tell: of a task outside of the server it is not recorded what it waits for.
  waits_in_a_line(row, key) {
    return key === IDLE || (key === OTHER && !row.task.traced);
  }

  bucket(row, from, to, shares, place, count) {
    const x = this.x(from);
    const width = Math.max((to - from) * this.scale, 0.7);
    const top = this.y(row);
    let y = top + row.height;
    let idle = 0;
    for (let index = 0; index < count; index++) {
      const key = shares[place + 2 * index];
      const share = shares[place + 2 * index + 1] / 255;
      if (row.sort === "task" && (key === 0 || this.waits_in_a_line(row, key))) {
        idle += key === 0 ? 0 : share;
        continue;
      }
      if (row.sort !== "task" && key === 0) continue;
      const high = Math.max(1, share * row.height);
      y -= high;
      this.context.fillStyle = this.fill(row, key);
      this.context.fillRect(x, Math.max(top, y), width, Math.min(high, row.height));
    }
    if (idle > 0.5 && y > top + row.height / 2) {
      this.context.fillStyle = this.colours.idle;
      this.context.fillRect(x, top + row.height / 2, width, 1);
    }
    if (count === 1 && width > 3) this.box(row, from, to, shares[place]);
    else if (width > 2) this.boxes.push({ row, from, to, shares: shares.slice(place, place + 2 * count) });
    if (count === 1 && row.sort !== "task") this.inner(shares[place], row, x, width);
  }

  exact(row, tile, lane, begin, end) {
    const wide = row.sort === "cpu" ? 3 : 4;
    for (let place = 1; place < lane.length; place += wide) {
      const from = Math.max(begin, tile.from + lane[place]);
      const to = Math.min(end, tile.from + lane[place + 1]);
      if (to <= from) continue;
      const key = lane[place + 2];
      const x = this.x(from);
      const width = Math.max((to - from) * this.scale, 0.7);
      if (row.sort === "task" && this.waits_in_a_line(row, key)) {
        this.line(row, from, to);
      } else if (key !== 0) {
        this.context.fillStyle = this.fill(row, key);
        this.context.fillRect(x, this.y(row), width > 4 ? width - 0.5 : width, row.height);
      }
      this.box(row, tile.from + lane[place], tile.from + lane[place + 1], key, row.sort === "task" ? lane[place + 3] : 0);
      if (row.sort === "cpu") this.inner(key, row, x, width);
    }
    if (row.sort === "task") this.touches(row, tile, begin, end);
  }

  fill(row, key) {
    if (row.sort === "lock") return this.of_holder(key);
    return row.sort === "cpu" ? this.of_task(key, this.view.by_pid.get(key)) : key >= RUNNING ? this.running : this.states[key];
  }

  inner(pid, row, x, width, middle = this.y(row) + row.height / 2) {
    const task = this.view.by_pid.get(pid);
    if (width < 44 || pid === 0 || pid === UNKNOWN) return;
    const text = task?.name || String(number(pid));
    this.context.fillStyle = this.dark ? "#fff" : "#000";
    this.context.textAlign = "left";
    if (this.context.measureText(text).width + 8 < width) this.context.fillText(text, x + 4, middle);
  }

  // Receiving and sending, as marks below and above the task's lane.
  touches(row, tile, begin, end) {
    const { context } = this;
    context.fillStyle = this.colours.ink;
    for (let place = 0; place < tile.touches.length; place += 4) {
      if (tile.touches[place + 1] !== row.id) continue;
      const at = tile.from + tile.touches[place];
      if (at < begin || at > end) continue;
      const x = this.x(at);
      const [tip, base] = tile.touches[place + 2] === 1 ? [this.y(row) + 6, this.y(row)] : [this.y(row) + row.height - 6, this.y(row) + row.height];
      context.beginPath();
      context.moveTo(x, tip);
      context.lineTo(x - 3, base);
      context.lineTo(x + 3, base);
      context.fill();
    }
  }

  request_buckets(row, tile, begin, end) {
    const most = Math.log10(Math.max(10, this.view.whole.longest_ns));
    for (let place = 0; place < tile.requests.length; place += 3) {
      const from = tile.from + tile.requests[place] * tile.bucket_ns;
      if (from + tile.bucket_ns < begin || from > end) continue;
      const longest = tile.requests[place + 2];
      const high = Math.max(2, ((Math.log10(Math.max(1, longest)) - 3) / Math.max(1, most - 3)) * (row.height - 4));
      this.context.fillStyle = this.colours.accent;
      const width = Math.max(1, tile.bucket_ns * this.scale);
      this.context.fillRect(this.x(from), this.y(row) + row.height - high, width, high);
      if (width > 2) this.boxes.push({ row, from, to: from + tile.bucket_ns, count: tile.requests[place + 1], longest });
    }
  }

  single_requests(row, tile, begin, end) {
    const rows = Math.floor(row.height / BARS);
    const ends = new Array(rows).fill(-Infinity);
    const all = [];
    for (let place = 0; place < tile.requests.length; place += 6) all.push(tile.requests.slice(place, place + 6));
    all.sort((a, b) => a[0] - b[0]);
    for (const [from, to, status, name, lane, connection] of all) {
      let at = ends.findIndex((used) => used <= from);
      if (at < 0) at = (lane + connection) % rows;
      ends[at] = to;
      const [a, b] = [Math.max(begin, tile.from + from), Math.min(end, tile.from + to)];
      if (b <= a) continue;
      const good = status >= 200 && status < 400;
      const width = Math.max(1, (b - a) * this.scale);
      const y = this.y(row) + at * BARS + 1;
      this.context.fillStyle = good ? this.colours.accent : this.part("wait_cpu");
      this.context.fillRect(this.x(a), y, width, BAR);
      this.named(tile.names[name], this.x(a), y + BAR / 2 + 0.5, width);
      this.boxes.push({ row, y, high: BARS, from: tile.from + from, to: tile.from + to, request: { name: tile.names[name], status } });
    }
  }

  // A request's name in its bar, as far as there is room for a part of it that tells something.
  named(name, x, middle, width) {
    const { context } = this;
    if (width < 40) return;
    const font = context.font;
    context.font = '10px system-ui, "DejaVu Sans", sans-serif';
    context.fillStyle = this.dark ? "#000" : "#fff";
    context.textAlign = "left";
    let text = name;
    while (text.length > 4 && context.measureText(text).width + 8 > width) text = `${text.slice(0, Math.max(3, Math.floor(text.length * 0.85) - 1))}\u2026`;
    if (context.measureText(text).width + 8 <= width) {
      context.fillText(text, x + 4, middle);
      this.request_names = (this.request_names ?? 0) + 1;
    }
    context.font = font;
  }

  // Who woke whom, where both lanes are in sight and single events are.
  wakes(tiles, visible) {
    const { context } = this;
    const rows = new Map(visible.filter((row) => row.sort === "task").map((row) => [row.id, row]));
    const arrows = [];
    for (const { tile } of tiles.filter((one) => one.tile.exact)) {
      for (const [pid, row] of rows) {
        const lane = tile.tasks.get(pid);
        for (let place = 1; lane && place < lane.length; place += 4) {
          const waker = rows.get(lane[place + 3]);
          const at = tile.from + lane[place + 1];
          if (waker && waker !== row && at >= this.view.from && at <= this.view.to) arrows.push([this.x(at), waker, row]);
        }
      }
    }
    if (arrows.length > (this.width - this.left) / 4) return;
    context.strokeStyle = context.fillStyle = this.colours.ink;
    context.globalAlpha = 0.75;
    for (const [x, waker, row] of arrows) {
      const down = waker.top < row.top;
      const begin = this.y(waker) + (down ? waker.height : 0);
      const end = this.y(row) + (down ? 0 : row.height);
      context.beginPath();
      context.moveTo(x, begin);
      context.lineTo(x, end);
      context.stroke();
      context.beginPath();
      context.moveTo(x, end);
      context.lineTo(x - 3, end + (down ? -5 : 5));
      context.lineTo(x + 3, end + (down ? -5 : 5));
      context.fill();
    }
    context.globalAlpha = 1;
  }

  // What the server told of itself, such as decisions of its rules: a line over all lanes, with a head that tells it.
  remarks(visible, height) {
    const row = visible.find((one) => one.sort === "requests");
    const { context } = this;
    for (const remark of this.view.whole.remarks) {
      if (remark.at_ns < this.begin || remark.at_ns > this.end) continue;
      const x = this.x(remark.at_ns);
      context.fillStyle = this.colours.ink;
      context.globalAlpha = 0.5;
      context.fillRect(Math.round(x), AXIS, 1, height);
      context.globalAlpha = 1;
      if (!row) continue;
      const y = this.y(row);
      context.beginPath();
      context.moveTo(x, y + 9);
      context.lineTo(x - 5, y);
      context.lineTo(x + 5, y);
      context.fill();
      this.boxes.push({ row, y, high: 10, from: remark.at_ns - 4 / this.scale, to: remark.at_ns + 4 / this.scale, remark });
    }
  }

  // The time of the chosen request, behind all lanes.
  marks(height) {
    const request = this.view.request;
    if (!request) return;
    this.context.fillStyle = this.colours.mark;
    const width = Math.max(2, request.response_ns * this.scale);
    this.context.fillRect(this.x(request.from_ns), AXIS, width, height);
  }

  // The steps of the chosen request, on the lanes of the tasks that had it.
  chosen(visible) {
    const request = this.view.request;
    if (!request) return;
    const rows = new Map(visible.filter((row) => row.sort === "task").map((row) => [row.id, row]));
    this.context.strokeStyle = this.colours.ink;
    this.context.lineWidth = 1.5;
    const first = visible.find((row) => row.sort === "requests");
    for (const step of request.steps) {
      if (first) {
        this.context.fillStyle = this.part(step.part);
        this.context.fillRect(this.x(step.from_ns), this.y(first) + first.height - 12, Math.max(0.7, step.ns * this.scale), 12);
        this.boxes.push({ row: first, y: this.y(first) + first.height - 12, high: 12, from: step.from_ns, to: step.from_ns + step.ns, step });
      }
      const row = rows.get(step.pid);
      if (!row) continue;
      const [x, width] = [this.x(step.from_ns), Math.max(1, step.ns * this.scale)];
      this.context.fillStyle = this.part(step.part);
      this.context.fillRect(x, this.y(row) + row.height - 5, width, 5);
      if (width > 5) this.context.strokeRect(x, this.y(row), width, row.height);
    }
    this.context.lineWidth = 1;
  }

  box(row, from, to, key, waker) {
    this.boxes.push({ row, from, to, key, waker });
  }

  // What lies at a point of the canvas.
  at(x, y) {
    if (x < this.left || y < AXIS) return null;
    const ns = this.origin + (x - this.left) / this.scale;
    const near = 2 / this.scale;
    for (let index = this.boxes.length - 1; index >= 0; index--) {
      const box = this.boxes[index];
      const top = box.y ?? this.y(box.row);
      if (y >= top && y < top + (box.high ?? box.row.height) && ns >= box.from - near && ns <= box.to + near) return box;
    }
    return null;
  }
}
