// Lanes of locks: who holds each while somebody waits for it, and who waits.

import { UNKNOWN } from "./tiles.js";

const MOST_LANES = 24;
const MOST_ABREAST = 3;
const BAR = 4;
export const LOCK = 26;

// The locks that get lanes: those with a known holder come first.
export function lanes_of(whole) {
  return (whole.locks ?? []).slice(0, MOST_LANES);
}

// The end of a path tells more than its begin.
export function short(name) {
  const path = name.match(/ (\S*\/)([^/]+)$/);
  return path ? path[2] : name;
}

// Who held a lock in which stretch, from its waits: (from, to, who waited, who held it when the wait began) each.
function holders(lane) {
  const changes = [];
  for (let place = 1; place < lane.length; place += 4) {
    if (lane[place + 1] <= lane[place]) continue;
    changes.push([lane[place], 1, lane[place + 3]], [lane[place + 1], 0, lane[place + 2]]);
  }
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const found = [];
  let [waiters, holder, since] = [0, UNKNOWN, 0];
  for (const [at, begins, who] of changes) {
    if (waiters > 0 && at > since) found.push([since, at, holder]);
    since = at;
    if (begins) {
      if (who !== 0) holder = who;
      else if (waiters === 0) holder = UNKNOWN;
      waiters++;
    } else {
      waiters--;
      if (holder !== UNKNOWN) holder = who;
    }
  }
  return found;
}

// Single waits: below who holds it, above a bar for each who waits.
export function exact(drawing, row, tile, lane, begin, end) {
  const { context } = drawing;
  const place_of = (from, to) => {
    const [a, b] = [Math.max(begin, tile.from + from), Math.min(end, tile.from + to)];
    return b > a ? [drawing.x(a), Math.max(0.7, (b - a) * drawing.scale)] : null;
  };
  const top = drawing.y(row) + MOST_ABREAST * BAR + 1;
  for (const [from, to, holder] of holders(lane)) {
    const place = place_of(from, to);
    if (!place) continue;
    context.fillStyle = drawing.of_holder(holder);
    context.fillRect(place[0], top, place[1], row.height - MOST_ABREAST * BAR - 1);
    drawing.boxes.push({ row, y: top, high: row.height - MOST_ABREAST * BAR - 1, from: tile.from + from, to: tile.from + to, key: holder });
    drawing.inner(holder, row, ...place, top + (row.height - MOST_ABREAST * BAR) / 2);
  }
  const ends = new Array(MOST_ABREAST).fill(-Infinity);
  context.fillStyle = drawing.part("wait_lock");
  for (let at = 1; at < lane.length; at += 4) {
    const [from, to, waiter, holder] = lane.slice(at, at + 4);
    const place = place_of(from, to);
    if (!place) continue;
    // Where more wait than there is room for, the last bar stands for all of them.
    const free = ends.findIndex((used) => used <= from);
    const index = free < 0 ? MOST_ABREAST - 1 : free;
    ends[index] = Math.max(ends[index], to);
    const y = drawing.y(row) + (MOST_ABREAST - 1 - index) * BAR;
    context.fillRect(place[0], y, place[1], BAR - 1);
    drawing.boxes.push({ row, y, high: BAR, from: tile.from + from, to: tile.from + to, wait: { waiter, holder } });
  }
}

// What a box of a lock's lane says when it is pointed at.
export function words(box, span, task) {
  const holder = (key) => (key === 0 ? "nobody waits" : key === UNKNOWN ? "waited for; who holds it is not known" : `held by ${task(key)} while others wait`);
  if (box.wait) return `${task(box.wait.waiter)} waits for ${box.row.lock.name}, ${span}\n${box.wait.holder ? `held by ${task(box.wait.holder)} when it began to wait` : "who holds it is not known"}`;
  if (!box.shares) return `${box.row.lock.name}: ${holder(box.key)}, ${span}`;
  const lines = [];
  for (let index = 0; index < box.shares.length; index += 2) lines.push(`${Math.round(box.shares[index + 1] / 2.55)} % ${holder(box.shares[index])}`);
  return `${box.row.lock.name}, ${span}\n${lines.join("\n")}`;
}
