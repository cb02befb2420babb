// What jslib's k6-utils gives.
const host = globalThis.__weir;

export function randomIntBetween(min, max) {
  return Math.floor(Math.random() * (max - min + 1) + min);
}

export function randomItem(items) {
  return items[Math.floor(Math.random() * items.length)];
}

export function randomString(length, charset = "abcdefghijklmnopqrstuvwxyz") {
  let text = "";
  while (length-- > 0) text += charset[Math.floor(Math.random() * charset.length)];
  return text;
}

export function uuidv4(secure = false) {
  const bytes = secure ? new Uint8Array(host.randomBytes(16)) : Uint8Array.from({ length: 16 }, () => Math.floor(Math.random() * 256));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join("-");
}

export function findBetween(content, left, right, repeat = false) {
  const found = [];
  let from = 0;
  for (;;) {
    const start = content.indexOf(left, from);
    if (start < 0) break;
    const end = content.indexOf(right, start + left.length);
    if (end < 0) break;
    found.push(content.substring(start + left.length, end));
    if (!repeat) return found[0];
    from = end + right.length;
  }
  return repeat ? found : null;
}

export function parseDuration(text) {
  return host.duration(String(text));
}

export function normalDistributionStages(maxVus, durationSeconds, numberOfStages = 10) {
  const curve = (x) => Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);
  const peak = curve(0);
  const stages = [];
  const each = Math.ceil(durationSeconds / numberOfStages);
  for (let at = 0; at <= numberOfStages; at++) {
    const x = -2 + (4 * at) / numberOfStages;
    stages.push({ duration: `${at === 0 ? 1 : each}s`, target: Math.ceil((maxVus * curve(x)) / peak) });
  }
  stages.push({ duration: "1s", target: 0 });
  return stages;
}

export function getCurrentStageIndex() {
  throw new Error("getCurrentStageIndex is not there: exec.scenario.progress and stages are not told to scripts");
}
export const tagWithCurrentStageIndex = getCurrentStageIndex;
export const tagWithCurrentStageProfile = getCurrentStageIndex;

export class Httpx {
  constructor() {
    throw new Error("Httpx is not there: use k6/http");
  }
}

export async function check(value, sets, tags) {
  const k6 = host.module("k6");
  const settled = {};
  for (const name of Object.keys(sets)) {
    const one = typeof sets[name] === "function" ? sets[name](await value) : sets[name];
    settled[name] = !!(await one);
  }
  return k6.check(await value, settled, tags);
}
