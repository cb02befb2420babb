// The viewer: a window of time over the whole run, moved by keys, pointer and search.

import { AXIS, Drawing, time } from "./draw.js";
import { lanes_of } from "./locks.js";
import * as objects from "./objects.js";
import { found, legend, show, words } from "./panel.js";
import { Tiles, lanes_of_objects, walk } from "./tiles.js";

const MOST_ROWS = 400;
const LEAST_NS = 200;
const $ = (id) => document.getElementById(id);
const [lanes, overview, status, hint, what, panel] = ["lanes", "overview", "status", "hint", "what", "panel"].map($);

const whole = await fetch("whole.json").then((answer) => answer.json());
const drawing = new Drawing(lanes);
const view = {
  whole,
  from: 0,
  to: whole.duration_ns,
  scroll: 0,
  gutter: 150,
  request: null,
  by_pid: new Map(whole.tasks.map((task) => [task.pid, task])),
  tiles: new Tiles(whole, () => redraw()),
  // Which chart is shown: "lanes" or "objects".
  chart: "lanes",
  choice: null,
  object_tiles: null,
};
let shown_tasks = whole.tasks;
let asking = null;
let chosen = -1;
let asked = false;

function order(tasks) {
  // Threads of a process stand together, processes by who comes first.
  const places = new Map();
  for (const task of tasks) if (!places.has(task.tgid || task.pid)) places.set(task.tgid || task.pid, places.size);
  return [...tasks].sort((a, b) => places.get(a.tgid || a.pid) - places.get(b.tgid || b.pid)).slice(0, MOST_ROWS);
}

function lay_out(tasks = shown_tasks) {
  shown_tasks = tasks;
  view.layout = view.chart === "objects" ? view.choice.layout() : Drawing.layout(whole.cpus, lanes_of(whole), order(tasks));
  view.scroll = Math.max(0, Math.min(view.scroll, view.layout.height - lanes.clientHeight + AXIS));
}

function redraw() {
  if (asked) return;
  asked = true;
  // What is on the screen is not what was asked for until it is drawn.
  document.body.dataset.ready = "false";
  requestAnimationFrame(() => {
    asked = false;
    view.gutter = lanes.clientWidth < 640 ? 112 : 150;
    drawing.draw(view);
    draw_overview();
    tell();
  });
}

function tell() {
  const tasks = view.layout.rows.filter((row) => row.sort === "task").length;
  const locks = whole.locks.length > 0 ? ` ${whole.locks.length} locks,` : "";
  const more = whole.tasks.length > tasks ? ` of ${whole.tasks.length}` : "";
  const source = view.chart === "objects" ? view.object_tiles : view.tiles;
  if (view.chart === "objects") status.textContent = source.failed || `${time(view.to - view.from)} from ${time(view.from)}; ${view.choice.chosen.length} of ${view.choice.told.objects.length} objects, ${view.choice.told.kept} interactions${view.choice.told.left_out ? `, ${view.choice.told.left_out} more are not told` : ""}`;
  else status.textContent = source.failed || `${time(view.to - view.from)} from ${time(view.from)}; ${whole.requests} requests, ${tasks}${more} tasks,${locks} ${whole.events} events; ${whole.host}`;
  document.body.dataset.marks = JSON.stringify(drawing.marked);
  document.body.dataset.named = String(drawing.request_names);
  document.body.dataset.chart = view.chart;
  document.body.dataset.ready = String(asking === null && [view.tiles, source].every((one) => one.under_way === 0 && one.wanted.length === 0));
}

function draw_overview() {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [overview.clientWidth, 56];
  overview.width = Math.round(width * ratio);
  overview.height = Math.round(height * ratio);
  const context = overview.getContext("2d");
  context.scale(ratio, ratio);
  const scale = width / whole.duration_ns;
  const top = whole.tiles.length - 1;
  const most = Math.log10(Math.max(10, whole.longest_ns));
  for (let index = 0; index < whole.tiles[top]; index++) {
    const tile = view.tiles.best(top, index);
    if (!tile) continue;
    for (const lane of tile.cpus.values()) {
      walk(lane, tile.bucket_ns, tile.from, 0, whole.duration_ns, (from, to, shares, place, count) => {
        let busy = 0;
        for (let at = 0; at < count; at++) if (shares[place + 2 * at] !== 0) busy += shares[place + 2 * at + 1] / 255;
        const high = (busy * 22) / tile.cpus.size;
        context.fillStyle = drawing.colours.idle;
        context.globalAlpha = 1 / tile.cpus.size + 0.2;
        context.fillRect(from * scale, height - high * tile.cpus.size, Math.max(0.6, (to - from) * scale), high * tile.cpus.size);
      });
    }
    context.globalAlpha = 1;
    context.fillStyle = drawing.colours.accent;
    for (let place = 0; place < tile.requests.length; place += 3) {
      const at = (tile.from + tile.requests[place] * tile.bucket_ns) * scale;
      const high = Math.max(1, ((Math.log10(Math.max(1, tile.requests[place + 2])) - 3) / Math.max(1, most - 3)) * 30);
      context.fillRect(at, 33 - high, Math.max(1, tile.bucket_ns * scale), Math.min(high, 2.5));
    }
  }
  view.tiles.next();
  context.fillStyle = drawing.colours.mark;
  const x = view.from * scale;
  const wide = Math.max(3, (view.to - view.from) * scale);
  context.fillRect(x, 0, wide, height);
  context.strokeStyle = drawing.colours.accent;
  context.strokeRect(x + 0.5, 0.5, wide - 1, height - 1);
}

function move(from, to) {
  const span = Math.min(whole.duration_ns, Math.max(LEAST_NS, to - from));
  view.from = Math.max(0, Math.min(from, whole.duration_ns - span));
  view.to = view.from + span;
  const chosen = view.chart === "objects" ? `&objects=${view.choice.chosen.join(".")}` : "";
  history.replaceState(null, "", `#from=${Math.round(view.from)}&to=${Math.round(view.to)}${chosen}`);
  redraw();
}

function zoom(factor, at = (view.from + view.to) / 2) {
  move(at - (at - view.from) / factor, at + (view.to - at) / factor);
}

function pan(share) {
  const by = share * (view.to - view.from);
  move(view.from + by, view.to + by);
}

function scroll(by) {
  view.scroll = Math.max(0, Math.min(view.scroll + by, view.layout.height - lanes.clientHeight + AXIS));
  redraw();
}

function slowest(step) {
  if (whole.slowest.length === 0) return void (status.textContent = "The run holds no request.");
  chosen = (chosen + step + whole.slowest.length) % whole.slowest.length;
  choose(whole.slowest[chosen], `Slowest ${chosen + 1} of ${whole.slowest.length}`);
}

function choose(request, place) {
  view.request = request;
  show(panel, request, place, view.by_pid);
  if (view.chart === "objects") return move(request.from_ns - 0.15 * request.response_ns, request.from_ns + 1.15 * request.response_ns);
  const own = request.steps.map((step) => step.pid).find((pid) => view.by_pid.has(pid));
  if (own) reveal(own);
  move(request.from_ns - 0.15 * request.response_ns, request.from_ns + 1.15 * request.response_ns);
  status.textContent = `${place}: ${request.name}, ${time(request.response_ns)}`;
}

function reveal(id, sort = "task") {
  const row = view.layout.rows.find((one) => one.sort === sort && one.id === id);
  if (!row) return;
  const height = lanes.clientHeight - AXIS;
  if (row.top < view.scroll || row.top + row.height > view.scroll + height) view.scroll = Math.max(0, Math.min(row.top - height / 3, view.layout.height - height));
  redraw();
}

// Shows objects and their interactions, these where any are named, or CPUs and tasks again.
async function show_chart(chart, lines = null) {
  if (chart === "objects" && !view.choice) {
    if (asking) return;
    status.textContent = "Reading the run for its objects, once";
    document.body.dataset.ready = "false";
    asking = fetch("objects.json");
    try {
      const answer = await asking;
      if (!answer.ok) throw new Error(await answer.text());
      view.choice = new objects.Choice(await answer.json());
    } catch (error) {
      return void (status.textContent = String(error.message).trim());
    } finally {
      asking = null;
    }
    view.object_tiles = new Tiles(whole, () => redraw(), (name) => `objects/${name}/${view.choice.chosen.join(".")}`, lanes_of_objects);
  }
  view.chart = chart;
  view.scroll = 0;
  const is_objects = chart === "objects";
  if (is_objects && lines) view.choice.set(lines);
  $("chart").setAttribute("aria-pressed", String(is_objects));
  $("pick").hidden = !is_objects;
  if (!is_objects) pick(false);
  if (is_objects) objects.legend($("legend"));
  else legend($("legend"), whole.locks.length > 0, whole.remarks.length > 0);
  choice_changed();
}

function choice_changed() {
  view.object_tiles?.forget();
  lay_out();
  move(view.from, view.to);
}

// Opens or closes the list of objects.
function pick(open) {
  $("choice").hidden = !open;
  $("pick").setAttribute("aria-expanded", String(open));
  if (open) objects.choose($("choice"), view.choice, what.value.trim().toLowerCase(), choice_changed);
}

function search() {
  const query = what.value.trim().toLowerCase();
  if (view.chart === "objects") {
    pick(query !== "" || !$("choice").hidden);
    const found = query === "" ? null : view.choice.told.objects.find((object) => `${object.class} ${object.name}`.toLowerCase().includes(query));
    return { first: found && (() => { view.choice.set([...view.choice.chosen, found.line]); choice_changed(); reveal(found.line, "object"); }) };
  }
  const result = found($("found"), whole, query, {
    request: ([from_ns, response_ns]) => {
      const known = whole.slowest.find((one) => one.from_ns === from_ns && one.response_ns === response_ns);
      if (known) choose(known, "Found");
      else move(from_ns - 0.15 * response_ns, from_ns + 1.15 * response_ns);
    },
    task: (task) => {
      move(task.first_ns, task.last_ns);
      reveal(task.pid);
    },
    remark: (remark) => {
      const half = Math.min(5e8, whole.duration_ns / 4);
      move(remark.at_ns - half, remark.at_ns + half);
      status.textContent = remark.text;
    },
    lock: (lock) => {
      move(lock.longest_from_ns - lock.longest_ns / 2, lock.longest_from_ns + 1.5 * lock.longest_ns);
      reveal(lock.id, "lock");
    },
  });
  lay_out(query === "" || result.tasks.length === 0 ? whole.tasks : result.tasks);
  redraw();
  return result;
}

const keys = {
  "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), _: () => zoom(0.5),
  ArrowLeft: (event) => pan(event.shiftKey ? -0.9 : -0.2), ArrowRight: (event) => pan(event.shiftKey ? 0.9 : 0.2),
  ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60), PageUp: () => scroll(-lanes.clientHeight * 0.8), PageDown: () => scroll(lanes.clientHeight * 0.8),
  0: () => move(0, whole.duration_ns), Home: () => pan(-1e9), End: () => pan(1e9),
  o: () => show_chart(view.chart === "objects" ? "lanes" : "objects"), c: () => view.chart === "objects" && pick($("choice").hidden),
  n: () => slowest(1), p: () => slowest(-1), "/": () => what.focus(), "?": () => $("keys").showModal(),
  Escape: () => {
    view.request = null;
    chosen = -1;
    show(panel, null);
    what.value = "";
    if (view.chart === "objects") pick(false);
    search();
    lanes.focus();
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const typing = event.target === what;
  if (typing && event.key === "Enter") {
    event.preventDefault();
    search().first?.();
    return lanes.focus();
  }
  if (typing && event.key !== "Escape") return;
  if (event.target.closest("#panel, #found, #choice") && event.key.startsWith("Arrow")) return;
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act(event);
});
what.addEventListener("input", search);
$("search").addEventListener("submit", (event) => event.preventDefault());
for (const [id, act] of [["in", () => zoom(2)], ["out", () => zoom(0.5)], ["all", () => move(0, whole.duration_ns)], ["slow", () => slowest(1)], ["chart", () => keys.o()], ["pick", () => keys.c()], ["help", () => $("keys").showModal()]]) {
  $(id).addEventListener("click", act);
}

// Pointers: one drags, two pinch, the wheel scrolls or, with Ctrl, zooms.
const pointers = new Map();
let dragged = 0;
const ns_at = (x) => view.from + (x - view.gutter) / drawing.scale;
lanes.addEventListener("pointerdown", (event) => {
  lanes.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  dragged = 0;
});
lanes.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return point(event);
  hint.hidden = true;
  const [x, y] = [event.offsetX, event.offsetY];
  dragged += Math.abs(x - before[0]) + Math.abs(y - before[1]);
  if (pointers.size === 1) {
    scroll(before[1] - y);
    move(view.from - (x - before[0]) / drawing.scale, view.to - (x - before[0]) / drawing.scale);
  } else {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const factor = Math.max(8, Math.abs(x - other[0])) / Math.max(8, Math.abs(before[0] - other[0]));
    zoom(Math.min(4, Math.max(0.25, factor)), ns_at((x + other[0]) / 2));
  }
  pointers.set(event.pointerId, [x, y]);
});
for (const end of ["pointerup", "pointercancel"]) lanes.addEventListener(end, (event) => pointers.delete(event.pointerId));
lanes.addEventListener("pointerleave", () => (hint.hidden = true));
lanes.addEventListener("click", (event) => {
  const box = drawing.at(event.offsetX, event.offsetY);
  if (dragged > 4 || !box) return;
  status.textContent = words(box, view.by_pid, view.choice).replaceAll("\n", "; ");
  if (box.row.sort === "object") return;
  if (box.row.sort !== "task" && box.key > 0) reveal(box.key);
  if (box.wait) reveal(box.wait.waiter);
  const known = box.request && whole.slowest.find((one) => one.from_ns === Math.round(box.from) && one.name === box.request.name);
  if (known) choose(known, "Chosen");
});
lanes.addEventListener("dblclick", (event) => zoom(4, ns_at(event.offsetX)));
lanes.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 200), ns_at(event.offsetX));
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 800);
  else scroll(event.deltaY);
}, { passive: false });

function point(event) {
  const box = drawing.at(event.offsetX, event.offsetY);
  hint.hidden = !box;
  if (!box) return;
  hint.textContent = words(box, view.by_pid, view.choice);
  hint.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${event.clientY + 20 + hint.offsetHeight > innerHeight ? event.clientY - hint.offsetHeight - 12 : event.clientY + 20}px`;
}

function overview_to(event) {
  const at = (event.offsetX / overview.clientWidth) * whole.duration_ns;
  const span = view.to - view.from < whole.duration_ns ? view.to - view.from : whole.duration_ns / 10;
  move(at - span / 2, at + span / 2);
}
overview.addEventListener("pointerdown", (event) => {
  overview.setPointerCapture(event.pointerId);
  overview_to(event);
});
overview.addEventListener("pointermove", (event) => event.buttons && overview_to(event));

function of_address() {
  const told = new URLSearchParams(location.hash.slice(1));
  const [from, to] = [Number(told.get("from") ?? 0), Number(told.get("to") ?? whole.duration_ns)];
  if (Number.isFinite(from) && Number.isFinite(to) && to > from) move(from, to);
  const lines = told.get("objects");
  if (lines !== null) show_chart("objects", lines.split(".").map(Number));
}
addEventListener("hashchange", of_address);
addEventListener("resize", () => {
  lay_out();
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawing.read_colours();
  redraw();
});

const notes = [...whole.damage];
if (whole.lost > 0) notes.push(`${whole.lost} events were lost: the lanes show them as not known`);
if (whole.left_out > 0) notes.push(`${whole.left_out} events of tasks beyond the 65,536th are left out`);
if (whole.remarks_left_out > 0) notes.push(`${whole.remarks_left_out} decisions are left out`);
if (whole.waits_left_out > 0) notes.push(`${whole.waits_left_out} waits for locks are not told one by one`);
$("told").textContent = notes.join("; ");
legend($("legend"), whole.locks.length > 0, whole.remarks.length > 0);
lay_out(whole.tasks);
of_address();
lanes.focus();
