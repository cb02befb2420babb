// The time chart of chosen objects: when each was busy, asked for or paused, and who asked whom.

import { time } from "./draw.js";
import { walk } from "./tiles.js";

// A row: what the object does, who waits for it, and below what it is at as a requester.
export const OBJECT = 36;
const [BUSY, BUSY_HIGH, ASKED, ASKED_HIGH, ASKS, ASKS_HIGH] = [1, 19, 21, 5, 28, 7];
const MOST_SHOWN = 200;
const MOST_CHOSEN = 64;
// States in buckets, as the tiles have them.
const [PENDING, WORKS] = [1, 2];
const [PAUSES, READY, RUNS] = [1, 2, 3];
// Clients above, then tasks, then what they use; CPUs are last.
const ORDER = ["client", "external", "timer", "task", "function", "socket", "listener", "question"];

function place(object) {
  const at = ORDER.indexOf(object.class);
  return object.class === "cpu" ? 99 : at < 0 ? ORDER.length : at;
}

// What there is to choose from, and what is chosen.
export class Choice {
  constructor(told) {
    this.told = told;
    this.lines = new Map(told.objects.map((object) => [object.line, object]));
    this.chosen = told.chosen.filter((line) => this.lines.has(line));
  }

  set(lines) {
    const known = [...new Set(lines)].filter((line) => this.lines.has(line));
    this.chosen = known.slice(0, MOST_CHOSEN);
  }

  toggle(line) {
    this.set(this.chosen.includes(line) ? this.chosen.filter((other) => other !== line) : [...this.chosen, line]);
  }

  // The rows, from top to bottom.
  layout() {
    const objects = this.chosen.map((line) => this.lines.get(line));
    objects.sort((a, b) => place(a) - place(b) || a.class.localeCompare(b.class) || a.name.localeCompare(b.name, "en", { numeric: true }));
    const rows = objects.map((object, index) => ({ sort: "object", id: object.line, object, label: label(object), top: 4 + index * (OBJECT + 4), height: OBJECT }));
    return { rows, height: 4 + rows.length * (OBJECT + 4) };
  }
}

export function label(object) {
  return object.class === "task" ? object.name : `${object.class} ${object.name}`;
}

function colour(drawing, line) {
  const object = drawing.view.choice.lines.get(line);
  if (!object) return drawing.colours.edge;
  if (object.class === "task") return drawing.of_task(object.pid, drawing.view.by_pid.get(object.pid));
  if (object.class === "client" || object.class === "external") return drawing.colours.accent;
  return `hsl(${(line * 137.508) % 360} 40% ${drawing.dark ? 46 : 64}%)`;
}

// The interactions of an exact tile, one after the other.
function each(tile, take) {
  for (let at = 0; at < tile.happened.length; at += 6) {
    const [interaction, requester, object, requested, accepted, finished] = tile.happened.slice(at, at + 6);
    take({ interaction, requester, object, requested, accepted, finished });
  }
}

export function row(drawing, own, tile, begin, end) {
  if (!tile.exact) return buckets(drawing, own, tile, begin, end);
  const { context } = drawing;
  const y = drawing.y(own);
  const bar = (from, to, top, high, fill, one) => {
    if (from < 0 || to < 0) return null;
    const [a, b] = [Math.max(begin, from), Math.min(end, to)];
    if (b < a || (b === a && from !== to)) return null;
    const [x, width] = [drawing.x(a), Math.max(0.7, (b - a) * drawing.scale)];
    context.fillStyle = fill;
    context.fillRect(x, y + top, width > 4 ? width - 0.5 : width, high);
    drawing.boxes.push({ row: own, y: y + top, high, from, to, happened: one });
    return [x, width];
  };
  each(tile, (one) => {
    if (one.object === own.id) {
      bar(one.requested, one.accepted, ASKED, ASKED_HIGH, drawing.part("wait_lock"), one);
      const busy = bar(one.accepted, one.finished, BUSY, BUSY_HIGH, colour(drawing, one.requester), one);
      if (busy) named(drawing, one.requester, ...busy, y + BUSY + BUSY_HIGH / 2);
      if (one.requested >= 0 && one.accepted < 0) bar(one.requested, one.requested, ASKED, ASKED_HIGH, drawing.colours.ink, one);
      if (one.accepted >= 0 && one.finished < 0) bar(one.accepted, one.accepted, BUSY, BUSY_HIGH, drawing.colours.ink, one);
    }
    if (one.requester === own.id) {
      const told = drawing.view.choice.told.interactions[one.interaction];
      if (told.pattern === "cpu") {
        bar(one.requested, one.accepted, ASKS, ASKS_HIGH, drawing.part("wait_cpu"), one);
        bar(one.accepted, one.finished, ASKS, ASKS_HIGH, drawing.running, one);
      } else if (told.answers) {
        bar(one.requested < 0 ? one.accepted : one.requested, one.finished, ASKS + 2, ASKS_HIGH - 4, drawing.part("wait_process"), one);
      } else if (told.pattern === "contention" || told.pattern === "busy-wait") {
        bar(one.requested, one.accepted, ASKS, ASKS_HIGH, drawing.part("wait_lock"), one);
      }
    }
  });
}

function named(drawing, line, x, width, middle) {
  const object = drawing.view.choice.lines.get(line);
  if (!object || width < 44) return;
  const { context } = drawing;
  const on_accent = object.class === "client" || object.class === "external";
  context.fillStyle = drawing.dark === on_accent ? "#000" : "#fff";
  context.textAlign = "left";
  const text = object.name;
  if (context.measureText(text).width + 8 < width) context.fillText(text, x + 4, middle);
}

// From afar: the share of each bucket in which it was at something.
function buckets(drawing, own, tile, begin, end) {
  const { context } = drawing;
  const shares_of = (lane, shares, at, count, state) => {
    for (let index = 0; index < count; index++) if (shares[at + 2 * index] === state) return shares[at + 2 * index + 1] / 255;
    return 0;
  };
  const y = drawing.y(own);
  for (const [lanes, parts] of [
    [tile.busy, [[WORKS, BUSY, BUSY_HIGH, drawing.colours.accent], [PENDING, ASKED, ASKED_HIGH, drawing.part("wait_lock")]]],
    [tile.asks, [[RUNS, ASKS, ASKS_HIGH, drawing.running], [READY, ASKS, ASKS_HIGH, drawing.part("wait_cpu")], [PAUSES, ASKS, ASKS_HIGH, drawing.part("wait_process")]]],
  ]) {
    const lane = lanes.get(own.id);
    if (!lane) continue;
    walk(lane, tile.bucket_ns, tile.from, begin, end, (from, to, shares, at, count) => {
      const [x, width] = [drawing.x(from), Math.max((to - from) * drawing.scale, 0.7)];
      // Above each other, so that the parts of a bucket add up.
      let used = 0;
      for (const [state, top, high, fill] of parts) {
        const share = shares_of(lane, shares, at, count, state);
        if (share === 0) continue;
        const own_high = Math.max(1, share * high);
        const from_top = top === ASKS || top === BUSY ? Math.max(0, high - used - own_high) : high - own_high;
        context.fillStyle = fill;
        context.fillRect(x, y + top + from_top, width, Math.min(own_high, high));
        if (top === ASKS) used += own_high;
      }
      if (width > 2) drawing.boxes.push({ row: own, y: y + parts[0][1], high: parts[0][2], from, to, lane: lanes === tile.busy ? "busy" : "asks", shares: shares.slice(at, at + 2 * count) });
    });
  }
}

// Requests from who asks to what is asked, accepts, and finishes back, where both rows are in sight.
export function arrows(drawing, tiles, visible) {
  const rows = new Map(visible.filter((one) => one.sort === "object").map((one) => [one.id, one]));
  const { from: begin, to: end } = drawing.view;
  const all = [];
  const seen = new Set();
  for (const { tile, from, to } of tiles.filter((one) => one.tile.exact)) {
    each(tile, (one) => {
      const [asks, object] = [rows.get(one.requester), rows.get(one.object)];
      if (!asks || !object || asks === object) return;
      const told = drawing.view.choice.told.interactions[one.interaction];
      const inside = (at) => at >= begin && at <= end && at >= from && at < to;
      const add = (at, tail, head, sort) => {
        // An interaction stands in each tile that it reaches into.
        const name = `${at} ${tail.id} ${head.id} ${sort}`;
        if (inside(at) && !seen.has(name) && seen.add(name)) all.push([drawing.x(at), tail, head, sort]);
      };
      // A task asks for any CPU; which one it gets is known when it has it.
      if (told.pattern === "cpu") return add(one.accepted, asks, object, "accept");
      if (one.requested >= 0) add(one.requested, asks, object, "request");
      if (one.accepted >= 0) add(one.accepted, asks, object, "accept");
      if (one.finished >= 0 && (told.answers || told.pattern.endsWith("-io"))) add(one.finished, object, asks, "finish");
    });
  }
  document.body.dataset.arrows = String(all.length);
  // Where they would cover each other they tell nothing.
  if (all.length > (drawing.width - drawing.left) / 4) return;
  for (const [x, tail, head, sort] of all) arrow(drawing, x, tail, head, sort);
}

function arrow(drawing, x, tail, head, sort) {
  const { context } = drawing;
  const down = tail.top < head.top;
  // It begins at what the one is at as a requester and ends at what the other does as an object, or the other way round.
  const edge = (one, is_object) => drawing.y(one) + (is_object ? BUSY + BUSY_HIGH / 2 : ASKS + ASKS_HIGH / 2);
  const [begin, end] = [edge(tail, sort === "finish"), edge(head, sort !== "finish")];
  context.strokeStyle = context.fillStyle = drawing.colours.ink;
  context.globalAlpha = 0.75;
  context.setLineDash(sort === "finish" ? [3, 3] : []);
  context.beginPath();
  // Of an accept the head alone: who is accepted is told by the request.
  if (sort !== "accept") {
    context.moveTo(x, begin);
    context.lineTo(x, end);
    context.stroke();
  }
  context.setLineDash([]);
  context.beginPath();
  if (sort === "accept") {
    context.moveTo(x + 5, end);
    context.lineTo(x, end - 4);
    context.lineTo(x, end + 4);
  } else {
    context.moveTo(x, end);
    context.lineTo(x - 3, end + (down ? -5 : 5));
    context.lineTo(x + 3, end + (down ? -5 : 5));
  }
  context.fill();
  context.globalAlpha = 1;
}

const AS_OBJECT = { [PENDING]: "asked for", [WORKS]: "busy" };
const AS_REQUESTER = { [PAUSES]: "paused for what it asked", [READY]: "waited for a CPU", [RUNS]: "had a CPU" };

// What a box says when it is pointed at.
export function words(box, choice) {
  const span = `${time(box.to - box.from)} from ${time(box.from)}`;
  if (!box.happened) {
    const of = box.lane === "busy" ? AS_OBJECT : AS_REQUESTER;
    const lines = [];
    for (let at = 0; at < box.shares.length; at += 2) if (of[box.shares[at]]) lines.push(`${Math.round(box.shares[at + 1] / 2.55)} % ${of[box.shares[at]]}`);
    return `${box.row.label}, ${span}\n${lines.join("\n") || "nothing told"}`;
  }
  const { interaction, requester, object, requested, accepted, finished } = box.happened;
  const name = (line) => (choice.lines.has(line) ? label(choice.lines.get(line)) : "an object that is not listed");
  const told = choice.told.interactions[interaction];
  const at = (words, ns) => (ns >= 0 ? `${words} at ${time(ns)}` : `${words}: not recorded`);
  const waited = requested >= 0 && accepted >= 0 ? `, waited ${time(accepted - requested)}` : "";
  const used = accepted >= 0 && finished >= 0 ? `, took ${time(finished - accepted)}` : "";
  return `${told.name}: ${name(requester)} asks ${name(object)}${waited}${used}\n${at("request", requested)}; ${at("accept", accepted)}; ${at("finish", finished)}`;
}

const LEGEND = [
  ["busy, in the requester's colour", "accent"], ["asked for, not taken up yet", "wait_lock"], ["below: has a CPU", "run"],
  ["waits for a CPU", "wait_cpu"], ["pauses for an answer", "wait_process"], ["waits for a lock", "wait_lock"],
];

export function legend(list) {
  const items = LEGEND.map(([text, name]) => {
    const item = document.createElement("li");
    item.textContent = text;
    item.style.setProperty("--colour", `var(--${name})`);
    return item;
  });
  const plain = document.createElement("li");
  plain.className = "plain";
  plain.textContent = "arrow: request; triangle: accept; dashed arrow: finish";
  list.replaceChildren(...items, plain);
}

// The objects that match, each with a box to choose it.
export function choose(list, choice, query, changed) {
  const has = (object) => `${object.class} ${object.name}`.toLowerCase().includes(query);
  const found = choice.told.objects.filter(has).sort((a, b) => choice.chosen.includes(b.line) - choice.chosen.includes(a.line));
  const items = found.slice(0, MOST_SHOWN).map((object) => {
    const item = document.createElement("li");
    const own = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = choice.chosen.includes(object.line);
    box.disabled = !box.checked && choice.chosen.length >= MOST_CHOSEN;
    box.addEventListener("change", () => {
      choice.toggle(object.line);
      changed();
    });
    const names = (of) => of.map((index) => choice.told.interactions[index].name).join(", ");
    const as = [];
    if (object.asked_in.length) as.push(`asked by ${names(object.asked_in)}: busy ${time(object.busy_ns)}, waited for ${time(object.waited_for_ns)}, ${object.accepts} accepts`);
    if (object.asks_in.length) as.push(`asks by ${names(object.asks_in)}: ${object.asks} times`);
    own.append(box, ` ${label(object)} - ${as.join("; ")}`);
    item.append(own);
    return item;
  });
  const more = found.length - items.length;
  const rest = more > 0 ? `${more} more: search for them` : found.length === 0 ? "No object has this in its name." : "";
  if (rest) {
    const item = document.createElement("li");
    item.textContent = rest;
    items.push(item);
  }
  list.replaceChildren(...items);
  return found[0];
}
