// What stands beside the lanes: the legend, what was found, and the steps of the chosen request.

import { time, number, RUNNING, UNKNOWN, state_words } from "./draw.js";
import * as locks from "./locks.js";
import * as objects from "./objects.js";

const LEGEND = [
  ["runs", "run"], ["waits for a CPU", "wait_cpu"], ["lock", "wait_lock"], ["sleeps", "wait_timer"], ["process", "wait_process"],
  ["disk", "wait_disk"], ["anything else", "edge"], ["socket, other descriptor (a line)", "idle"], ["not known", "unattributed"],
];
const MOST_FOUND = 40;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function legend(list, has_locks, has_remarks) {
  list.replaceChildren(
    ...LEGEND.map(([words, name]) => {
      const item = element("li", words);
      item.style.setProperty("--colour", `var(--${name})`);
      return item;
    }),
  );
  if (has_remarks) list.append(element("li", "triangle and line: the server's rules decided something", { class: "plain" }));
  if (has_locks) list.append(element("li", "lane of a lock: who holds it, in the holder's colour, while others wait", { class: "plain" }));
}

// Classes of requests, locks and tasks that match, each a button.
export function found(list, whole, query, choose) {
  const has = (text) => text.toLowerCase().includes(query);
  const classes = Object.entries(whole.classes).filter(([name]) => has(name)).sort((a, b) => b[1].count - a[1].count);
  const tasks = whole.tasks.filter((task) => has(`${task.name} ${number(task.pid)}`));
  const items = classes.slice(0, MOST_FOUND).map(([name, one]) => [`${name} - ${one.count} requests, slowest ${time(one.slowest[0][1])}`, () => choose.request(one.slowest[0])]);
  items.push(...lanes_with(whole, has).map((lock) => [`${lock.name} - waited for ${lock.waits} times, ${time(lock.waited_ns)} in all, the longest ${time(lock.longest_ns)}`, () => choose.lock(lock)]));
  const remarks = whole.remarks.filter((remark) => has(`${remark.sort} ${remark.text}`));
  items.push(...remarks.slice(0, MOST_FOUND).map((remark) => [`${remark.sort} at ${time(remark.at_ns)}: ${remark.text}`, () => choose.remark(remark)]));
  items.push(...tasks.slice(0, MOST_FOUND).map((task) => [`${task.name || "?"} ${number(task.pid)} - ran ${time(task.run_ns)}, waited ${time(task.ready_ns)} for a CPU`, () => choose.task(task)]));
  list.hidden = query === "";
  list.replaceChildren(
    ...items.map(([text, act]) => {
      const item = document.createElement("li");
      const button = element("button", text, { type: "button" });
      button.addEventListener("click", act);
      item.append(button);
      return item;
    }),
  );
  if (items.length === 0) list.replaceChildren(element("li", "Nothing has this in its name."));
  return { tasks, first: items[0]?.[1] };
}

function lanes_with(whole, has) {
  return locks.lanes_of(whole).filter((lock) => has(lock.name));
}

// The steps of a request.
export function show(panel, request, place, by_pid) {
  panel.hidden = !request;
  if (!request) return panel.replaceChildren();
  const who = (pid) => (pid ? `${by_pid.get(pid)?.name || "task"} ${number(pid)}` : "");
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const [name, kind] of [["From", "n"], ["Time", "n"], ["Part", ""], ["Task", ""], ["Spent on", ""]]) head.append(element("th", name, { scope: "col", class: kind }));
  const body = table.createTBody();
  for (const step of request.steps) {
    const row = body.insertRow();
    row.append(
      element("td", time(step.from_ns - request.from_ns), { class: "n" }),
      element("td", time(step.ns), { class: "n" }),
      element("td", step.part, { class: "part" }),
      element("td", who(step.pid)),
      element("td", step.on || who(step.on_pid)),
    );
    row.cells[2].style.setProperty("--colour", `var(--${step.part})`);
  }
  panel.replaceChildren(element("h2", `${place}: ${request.name} - ${time(request.response_ns)}${request.status ? `, status ${request.status}` : ""}`), table);
}

// What a box says when it is pointed at.
export function words(box, by_pid, choice) {
  if (box.row.sort === "object") return objects.words(box, choice);
  const span = `${time(box.to - box.from)} from ${time(box.from)}`;
  const task = (pid) => (pid === 0 ? "idle" : pid === UNKNOWN ? "not known" : `${by_pid.get(pid)?.name || "task"} ${number(pid)}`);
  if (box.remark) return `${box.remark.sort} at ${time(box.remark.at_ns)}\n${box.remark.text}`;
  if (box.request) return `${box.request.name}\n${box.request.status ? `status ${box.request.status}` : "failed"}, ${span}`;
  if (box.step) return `${box.step.part} of the chosen request, ${span}${box.step.pid ? `\nwith ${task(box.step.pid)}` : ""}`;
  if (box.count) return `${box.count} requests ended, the longest took ${time(box.longest)}`;
  if (box.row.sort === "lock") return locks.words(box, span, task);
  const line = (key) => (box.row.sort === "cpu" ? task(key) : state_words(key));
  if (box.shares) {
    const lines = [];
    for (let index = 0; index < box.shares.length; index += 2) lines.push(`${Math.round(box.shares[index + 1] / 2.55)} % ${line(box.shares[index])}`);
    return `${box.row.label}, ${span}\n${lines.join("\n")}`;
  }
  return `${box.row.label}: ${line(box.key)}, ${span}${box.waker ? `\nwoken by ${task(box.waker)}` : ""}`;
}

export { RUNNING };
