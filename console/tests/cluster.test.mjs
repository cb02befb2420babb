// The room of a cluster, on three real nodes and a director in network namespaces, in Debian's Chromium. As root.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { looks } from "./looks.mjs";
import { browser, console_of, page_of, visit, WEIR } from "./support.mjs";

const STAND = fileURLToPath(new URL("../../scripts/cluster-stand", import.meta.url));
const HOSTILE = "<img src=x onerror=\"document.title='taken'\">\u202egpj";
let [folder, stand, chromium, front, n1] = [];

// The cluster: where its members are, what it is called, and what ends it.
async function begun() {
  const child = spawn(STAND, [], { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, WEIR } });
  const line = await new Promise((done, failed) => {
    let told = "";
    child.stdout.on("data", (bytes) => {
      told += bytes;
      const found = told.match(/^ready (.*)$/m);
      if (found) done(found[1]);
    });
    child.once("exit", (code) => failed(new Error(`cluster-stand ended with ${code}: ${told}`)));
  });
  const [tag, work, service] = line.split(" ");
  const at = (member, ...command) => spawn("ip", ["netns", "exec", `${tag}-${member}`, ...command], { stdio: "ignore" });
  const end = () => new Promise((done) => {
    child.removeAllListeners("exit");
    child.once("exit", done);
    child.stdin.end();
  });
  return { at, work, service, run: (line) => child.stdin.write(`${line}\n`), end };
}

const weir = (...args) => spawnSync(WEIR, args, { encoding: "utf8" });
const download = (port, rate = "1M") => stand.at("client", "curl", "-sS", "--limit-rate", rate, "--local-port", String(port), "-o", "/dev/null", `http://${stand.service}/film.bin`);
const at_node = (node) => join(stand.work, `n${node}`);

// Asks again until it is so.
async function until(what, is_so) {
  for (let tries = 0; tries < 300; tries++) {
    const found = await is_so();
    if (found) return found;
    await new Promise((later) => setTimeout(later, 100));
  }
  throw new Error(`it does not come about: ${what}`);
}

const holder = (port) => until(`a node has the session of ${port}`, () => [1, 2, 3].find((node) => weir("cluster", "sessions", at_node(node)).stdout.includes(`:${port} `)));

// Moves a session to a node that keeps its file.
function moved(port) {
  return until(`the session of ${port} moves`, async () => {
    const from = await holder(port);
    const to = [1, 2, 3].find((node) => node !== from && weir("cluster", "move", at_node(from), `10.79.0.2:${port}`, "--to", `n${node}`).status === 0);
    return to && { from: `n${from}`, to: `n${to}` };
  });
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "weir-cluster-room-"));
  mkdirSync(join(folder, "runs"));
  stand = await begun();
  front = await console_of(join(folder, "runs"), "--cluster", join(stand.work, "front"));
  n1 = await console_of(join(folder, "runs"), "--cluster", at_node(1));
  chromium = await browser();
}, { timeout: 120_000 });

after(async () => {
  await chromium?.close();
  for (const shown of [front, n1]) if (shown) assert.equal(await shown.end(), 0, "Ctrl-C ends it with 0");
  await stand?.end();
  if (folder) rmSync(folder, { recursive: true });
});

async function opened(shown, hash, options = {}) {
  const all = await page_of(chromium, shown.address, options);
  await visit(all.page, shown.address, hash);
  return all;
}

test("the room shows a real cluster in both colours and all widths, and nothing from outside is markup", { timeout: 300_000 }, async () => {
  const client = download(42_001);
  await moved(42_001);
  for (let count = 0; count < 20; count++) stand.run(`at client curl -sS -o /dev/null --globoff 'http://${stand.service}/%3Cimg%20src=x%20onerror=alert(1)%3E.txt'`);
  // What a damaged or a forged file holds.
  appendFileSync(join(stand.work, "front", "events.jsonl"), `${JSON.stringify({ at_us: Date.now() * 1000, monotonic_us: 1, what: HOSTILE, from: HOSTILE, to: HOSTILE, why: HOSTILE })}\ndamage\n`);
  const { page, context } = await opened(front, "#/cluster");
  await page.waitForFunction(() => document.body.innerText.includes("<img src=x onerror=alert(1)>"), null, { timeout: 60_000 });
  assert.match(await page.locator("main").innerText(), /1 line could not be read/);
  await context.close();
  await looks(chromium, front.address, { cluster: "#/cluster", "cluster-node": "#/cluster?node=n2" });
  client.kill();
});

test("a session that moves flies once, is told in words, and stands in what moved", { timeout: 120_000 }, async () => {
  const client = download(42_002);
  await holder(42_002);
  const still = await opened(front, "#/cluster");
  const { page, faults, context } = await opened(front, "#/cluster", { reducedMotion: "no-preference" });
  const dots = page.waitForSelector(".map > .dot.session", { state: "attached", timeout: 60_000 });
  const { from, to } = await moved(42_002);
  await dots;
  assert.equal(await page.locator(".map").getAttribute("data-flown"), "1");
  await page.waitForSelector(".map > .dot.session", { state: "detached" });
  assert.match(await page.locator("p.unseen").innerText(), new RegExp(`A session moved from ${from} to ${to}`));
  await page.waitForTimeout(4500);
  assert.equal(await page.locator(".map").getAttribute("data-flown"), "1", "asked again, it does not fly again");
  assert.match(await page.locator(".moved-words").innerText(), new RegExp(`${from} \u2192 ${to}: \\d session`));
  // Who wants no motion gets none.
  assert.equal(await still.page.locator(".map").getAttribute("data-flown"), "1");
  assert.equal(await still.page.locator(".map > .dot").count(), 0);
  await still.page.waitForFunction(() => document.querySelectorAll(".member.moved").length === 0);
  assert.deepEqual([...faults, ...still.faults], []);
  await still.context.close();
  await context.close();
  client.kill();
});

test("the hottest node is named with its reason, and a box leads to its events", { timeout: 120_000 }, async () => {
  const clients = [1, 2, 3, 4].map((number) => download(43_000 + number, "5M"));
  const { page, context } = await opened(front, "#/cluster");
  await page.waitForFunction(() => /^(n\d is the hottest node: |No node stands out; most has n\d: ).*(go out|CPUs|requests|under way)/.test(document.querySelector("h1").textContent), null, { timeout: 60_000 });
  const words = await page.locator("h1").innerText();
  assert.match(words, /\(the next one, n\d: /);
  await page.keyboard.press("n");
  await page.waitForFunction(() => location.hash === "#/cluster?node=front" && document.body.dataset.ready === "true");
  await page.keyboard.press("n");
  await page.waitForFunction(() => location.hash === "#/cluster?node=n1" && document.body.dataset.ready === "true");
  const where = await page.locator("table", { hasText: "Why, and how long" }).locator("tbody tr td:nth-child(3)").allInnerTexts();
  assert.ok(where.length > 0 && where.every((text) => text.includes("n1")), where.join());
  await page.keyboard.press("a");
  await page.waitForFunction(() => location.hash === "#/cluster");
  await visit(page, front.address, "#/cluster?node=n9");
  await page.waitForSelector("[role=alert]:has-text('the members are front, n1, n2, n3')");
  for (const client of clients) client.kill();
  await context.close();
});

test("at a node the map tells which files nodes have, and that its events are its own", { timeout: 120_000 }, async () => {
  const { page, context } = await opened(n1, "#/cluster");
  await page.waitForFunction(() => /Files\s*\d+ of \d+/.test(document.querySelector("[data-member=n1]").innerText), null, { timeout: 60_000 });
  assert.match(await page.locator("main").innerText(), /n1 has \d+ contents? of .* in all/);
  assert.match(await page.locator("main").innerText(), /Told by n1: a node tells the moves in which it took part/);
  await context.close();
});

test("a member that goes is told in words, and the events stay", { timeout: 120_000 }, async () => {
  const { page, context } = await opened(n1, "#/cluster");
  stand.run('kill -9 "${servers[3]}" "${keepers[3]}"');
  await page.waitForSelector(".member.silent", { timeout: 60_000 });
  assert.match(await page.locator(".warnings").innerText(), /n3 is silent for \d+ s: what is shown of it is from before/);
  stand.run('kill -9 "${servers[1]}" "${keepers[1]}"');
  await page.waitForSelector("[role=alert]:has-text('n1')", { timeout: 60_000 });
  assert.ok((await page.locator("table", { hasText: "Why, and how long" }).locator("tbody tr").count()) > 0);
  await context.close();
});
