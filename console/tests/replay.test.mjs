// The room Replay on what a real server recorded, in Debian's Chromium.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { looks } from "./looks.mjs";
import { browser, console_of, page_of, served, visit } from "./support.mjs";

const AT_WORK = 'atom "/**" { rule quiet: during if rate@client > 1000000rps then shed 5% until rate@client < 1rps; }\n';
const ANOTHER = 'atom "/**" {\n    rule busy: during if rate@client > 5rps then shed 50% until rate@client < 1rps;\n}\n';
let [folder, shown, chromium] = [];

const asked = (server) => new Promise((done, failed) => get(`${server.origin}/a.txt`, { agent: false }, (answer) => answer.resume().on("end", done)).on("error", failed));

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "weir-replay-"));
  for (const name of ["site", "runs"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "site", "a.txt"), "hello");
  writeFileSync(join(folder, "work.policy"), AT_WORK);
  const log = join(folder, "log.jsonl");
  const server = await served(folder, "--policy", "work.policy", "--tick", "100ms", "--decisions", log);
  const until = Date.now() + 30_000;
  const has_rate = () => { try { return readFileSync(log, "utf8").includes('"rate"'); } catch { return false; } };
  while (!has_rate()) {
    assert.ok(Date.now() < until, "nothing is recorded");
    await asked(server);
  }
  for (let count = 0; count < 60; count++) await asked(server);
  await server.end();
  shown = await console_of(join(folder, "runs"), "--decisions", log);
  chromium = await browser();
}, { timeout: 120_000 });

after(async () => {
  await chromium?.close();
  if (shown) assert.equal(await shown.end(), 0, "Ctrl-C ends it with 0");
  if (folder) rmSync(folder, { recursive: true });
});

test("another policy is replayed by its key, and the link holds it", { timeout: 120_000 }, async () => {
  const { page, faults, context } = await page_of(chromium, shown.address);
  await page.goto(shown.address);
  await page.waitForFunction(() => location.hash === "#/replay" && document.body.dataset.ready === "true");
  await page.keyboard.press("e");
  await page.locator("textarea").fill(ANOTHER);
  await page.keyboard.press("Escape");
  await page.keyboard.press("r");
  await page.waitForSelector("h2:has-text('What it would have done')");
  assert.match(await page.locator("main").innerText(), /busy/);
  const address = page.url();
  const again = await page_of(chromium, shown.address);
  await again.page.goto(address);
  await again.page.waitForSelector("h2:has-text('What it would have done')");
  await visit(again.page, shown.address, `#/replay?policy=${encodeURIComponent('atom "/<img src=x onerror=alert(1)>" { x }')}`);
  await again.page.waitForSelector("[role=alert] pre");
  assert.match(await again.page.locator("[role=alert]").innerText(), /policy:1:/);
  assert.equal(await again.page.locator("main img").count(), 0);
  assert.deepEqual(faults, []);
  await context.close();
  await again.context.close();
});

test("the room is seen in both colours and all widths", { timeout: 120_000 }, async () => {
  await looks(chromium, shown.address, { replay: `#/replay?policy=${encodeURIComponent(ANOTHER)}` });
});
