// The rooms of business transactions, on a real agent and a real server that reports its requests and scripts to it.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { looks } from "./looks.mjs";
import { browser, console_of, page_of, served, visit, WEIR } from "./support.mjs";

const HOSTILE = "<script>document.title='taken'<\u2044script>\u202egpj";
const APPLICATION = `<img src=x onerror="document.title='taken'">`;
let [folder, arm, agent, server, shown, chromium] = [];

async function until(what, is_so) {
  for (let tries = 0; tries < 300; tries++) {
    const found = await is_so();
    if (found) return found;
    await new Promise((later) => setTimeout(later, 100));
  }
  throw new Error(`it does not come about: ${what}`);
}

async function begun() {
  agent = spawn(WEIR, ["agent", "--state", join(folder, "state")], { stdio: "ignore" });
  await until("the agent answers", () => spawnSync(WEIR, ["arm", "list"]).status === 0);
}

function ended(child) {
  return new Promise((done) => {
    child.once("exit", done);
    child.kill();
  });
}

function asked(path) {
  return new Promise((done, failed) => get(`${server.origin}${path}`, { agent: false }, (answer) => answer.resume().on("end", () => done(answer.statusCode))).on("error", failed));
}

// The id of the first kept request that failed.
function failed_request() {
  const told = spawnSync(WEIR, ["arm", "export", "--whole", "--state", join(folder, "state"), "--application", APPLICATION], { encoding: "utf8" });
  return told.stdout.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line)).find((one) => one.status === "failed")?.id;
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "weir-transactions-"));
  chmodSync(folder, 0o755);
  for (const name of ["site", "site/cgi-bin", "runs", "arm"]) mkdirSync(join(folder, name));
  arm = join(folder, "arm");
  chmodSync(arm, 0o1777);
  process.env.WEIR_ARM_DIR = arm;
  writeFileSync(join(folder, "site", "a.txt"), "hello");
  writeFileSync(join(folder, "site", "cgi-bin", "fails.sh"), "#!/bin/sh\nsleep 0.1\nprintf 'Status: 500\\r\\nContent-Type: text/plain\\r\\n\\r\\n'\necho no\n");
  chmodSync(join(folder, "site", "cgi-bin", "fails.sh"), 0o755);
  writeFileSync(join(folder, "rules"), `Arm On\nArmApplication '${APPLICATION.replaceAll("'", "\\'")}'\nArmMatch ^/a "${HOSTILE.replaceAll('"', '\\"')}"\n`);
  await begun();
  server = await served(folder, "--arm", "rules", "--cgi");
  shown = await console_of(join(folder, "runs"), `--arm=${arm}`);
  chromium = await browser();
  for (let count = 0; count < 20; count++) await asked("/a.txt");
  for (let count = 0; count < 5; count++) assert.equal(await asked("/cgi-bin/fails.sh"), 500);
  await until("the agent keeps what failed", failed_request);
}, { timeout: 120_000 });

after(async () => {
  await chromium?.close();
  if (shown) assert.equal(await shown.end(), 0, "Ctrl-C ends it with 0");
  await server?.end();
  if (agent) await ended(agent);
  if (folder) rmSync(folder, { recursive: true });
});

async function opened(hash) {
  const all = await page_of(chromium, shown.address);
  await visit(all.page, shown.address, hash);
  return all;
}

test("the rooms show real transactions in both colours and all widths, and no name is markup", { timeout: 300_000 }, async () => {
  const id = failed_request();
  const given = new URLSearchParams({ application: APPLICATION, seconds: "60" });
  const going = setInterval(() => void asked("/a.txt"), 200);
  await looks(chromium, shown.address, { transactions: "#/transactions?seconds=60", "transactions-of": `#/transactions?${given}`, transaction: `#/transaction?id=${id}` });
  clearInterval(going);
});

test("what takes the time comes first; a failure leads to its tree across two processes", { timeout: 120_000 }, async () => {
  const { page, faults, context } = await opened("#/transactions?seconds=60");
  for (let count = 0; count < 3; count++) await asked("/cgi-bin/fails.sh");
  const top = page.locator("table", { hasText: "Share of time" });
  await page.waitForFunction(() => /fails.sh/.test(document.querySelector("tbody tr td")?.textContent ?? ""), null, { timeout: 30_000 });
  assert.match(await top.locator("tbody tr").first().innerText(), /[45]\d.*%/);
  await top.locator("tr", { hasText: APPLICATION }).filter({ hasText: "fails.sh" }).locator("td:nth-child(7) a").click();
  await page.waitForFunction(() => location.hash.includes("only=failed") && document.body.dataset.ready === "true");
  const kept = page.locator("table", { hasText: "Ended" });
  await kept.locator("tbody tr").first().waitFor();
  assert.ok((await kept.locator("tbody tr td:nth-child(4)").allInnerTexts()).every((text) => text === "failed"));
  await kept.locator("tbody tr a").first().click();
  await page.waitForFunction(() => location.hash.startsWith("#/transaction?id=") && document.body.dataset.ready === "true");
  const rows = page.locator("tbody tr");
  assert.equal(await rows.count(), 2);
  const [parent, child] = await Promise.all([0, 1].map((row) => rows.nth(row).locator(".branch").evaluate((branch) => ({ text: branch.textContent, left: parseFloat(getComputedStyle(branch).paddingLeft) }))));
  assert.ok(child.left > parent.left && child.text.includes("weir scripts") && parent.text.includes("this one") && parent.text.includes(APPLICATION), JSON.stringify([parent, child]));
  assert.match(await page.locator("main").innerText(), /2 transactions in 2 processes/);
  // The bar of the child lies within that of its parent.
  const bars = await page.locator(".lane span").evaluateAll((all) => all.map((one) => one.getBoundingClientRect()).map(({ left, right }) => [left, right]));
  assert.ok(bars[1][0] >= bars[0][0] - 1 && bars[1][1] <= bars[0][1] + 1 && bars[1][1] > bars[1][0], JSON.stringify(bars));
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/transactions?application=") && document.body.dataset.ready === "true");
  assert.deepEqual(faults, []);
  await context.close();
});

test("the keys sort and filter, and the address holds it", { timeout: 120_000 }, async () => {
  const { page, context } = await opened("#/runs");
  await page.keyboard.press("Shift+B");
  await page.waitForFunction(() => location.hash === "#/transactions" && document.body.dataset.ready === "true");
  await page.keyboard.press("s");
  await page.waitForFunction(() => location.hash.includes("sort=rate") && document.body.dataset.ready === "true");
  await page.keyboard.press("f");
  await page.waitForFunction(() => location.hash.includes("only=failed") && location.hash.includes("sort=rate") && document.body.dataset.ready === "true");
  await page.keyboard.press("a");
  await page.waitForFunction(() => !location.hash.includes("only"));
  await visit(page, shown.address, "#/transaction?id=00000000000000000000000000000001");
  await page.waitForSelector("[role=alert]:has-text('the agent keeps those of the last seconds')");
  await visit(page, shown.address, "#/transaction?id=x");
  await page.waitForSelector("[role=alert]:has-text('hexadecimal digits')");
  await context.close();
});

test("an agent that goes is told of with the remedy, and shown again when it is back", { timeout: 120_000 }, async () => {
  const { page, context } = await opened("#/transactions");
  await ended(agent);
  await page.waitForSelector("[role=alert]:has-text('start one with `weir agent`')");
  await begun();
  await page.waitForFunction(() => [...document.querySelectorAll("[role=alert]")].every((one) => one.hidden), null, { timeout: 30_000 });
  assert.match(await page.locator("table", { hasText: "Ended" }).innerText(), /fails.sh/, "what was kept outlives the agent");
  await context.close();
});
