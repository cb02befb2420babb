// The room of the loads that run now, on real loads of a real `weir serve`, and a time of a run's course, in Debian's Chromium.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { WEIR, browser, console_of, page_of, ready, served, visit } from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env.PICTURES;
let [folder, server, shown, chromium] = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "weir-loads-"));
  for (const name of ["site", "runs"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "site", "a.txt"), "hello");
  server = await served(folder);
  shown = await console_of(join(folder, "runs"));
  chromium = await browser();
}, { timeout: 300_000 });

after(async () => {
  await chromium?.close();
  if (shown) assert.equal(await shown.end(), 0, "Ctrl-C ends it with 0");
  await server?.end();
  if (folder) rmSync(folder, { recursive: true });
});

function loading(run, seconds, path = "/a.txt") {
  const child = spawn(WEIR, ["load", "--quiet", "--run", join("runs", run), "--rate", "100", "-d", `${seconds}s`, `${server.origin}${path}`], { cwd: folder, stdio: "ignore" });
  const ended = new Promise((done) => child.once("exit", done));
  return { end: (signal) => (child.kill(signal), ended), ended };
}

const state = (page, wanted) => page.waitForFunction((wanted) => [...document.querySelectorAll(".far")].some((one) => one.dataset.state === wanted), wanted, { timeout: 30_000 });
const told = (page) => page.waitForFunction(() => document.querySelector(".load .plot:not([hidden]) .u-legend") && document.querySelector(".load table") && document.querySelector(".load .figures dd")?.textContent.includes("/s"), null, { timeout: 30_000 });

test("loads that run are seen side by side in both colours and all widths, pass axe, and ask nothing of others", { timeout: 300_000 }, async () => {
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  const names = ["first", "<b id=taken>\u202egpj"];
  const loads = [loading(names[0], 120), loading(names[1], 120, "/missing")];
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of [[400, 800], [1280, 800], [2560, 1440]]) {
      const { page, faults, context } = await page_of(chromium, shown.address, { viewport: { width, height }, colorScheme });
      await visit(page, shown.address, "#/load");
      await page.waitForFunction(() => document.querySelectorAll(".load").length === 2, null, { timeout: 30_000 });
      await told(page);
      const found = await page.evaluate(() => ({ over: document.documentElement.scrollWidth - innerWidth, taken: document.getElementById("taken") !== null, directions: /[\u202a-\u202e]/.test(document.body.innerText), headings: document.querySelectorAll("h1").length }));
      assert.ok(found.over <= 0 && !found.taken && !found.directions && found.headings === 1, `${width}: ${JSON.stringify(found)}`);
      if (width === 1280) {
        await page.evaluate(AXE);
        const wrong = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }).then((told) => told.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} ${node.failureSummary}`).join(" | ")}`)));
        assert.deepEqual(wrong, [], colorScheme);
      }
      if (PICTURES) await page.screenshot({ path: join(PICTURES, `load-${width}-${colorScheme}.png`), fullPage: true });
      assert.deepEqual(faults, []);
      await context.close();
    }
  }
  // Of the second one no request succeeds.
  assert.deepEqual(await Promise.all(loads.map((load) => load.end("SIGINT"))), [0, 1]);
});

test("a load goes on by itself, is chosen by keys, and leads to its run's answer when it has ended", { timeout: 180_000 }, async () => {
  const { page, faults, context } = await page_of(chromium, shown.address);
  await visit(page, shown.address, "#/runs");
  await page.keyboard.press("7");
  await page.waitForFunction(() => location.hash === "#/load" && document.body.dataset.ready === "true");
  const load = loading("third", 8);
  await state(page, "running");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("It still runs"));
  const share = () => page.locator(".load progress").evaluate((bar) => bar.value);
  const was = await share();
  await page.waitForFunction((was) => document.querySelector(".load progress").value > was, was);
  await told(page);
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement?.dataset.key), "load third");
  await page.waitForTimeout(1500);
  assert.equal(await page.evaluate(() => document.activeElement?.dataset.key), "load third", "the focus outlives what is renewed");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash === "#/load?run=third" && document.body.dataset.ready === "true");
  await told(page);
  await page.keyboard.press("ArrowLeft");
  assert.match(await page.locator("p.unseen").last().innerText(), /\/s, 0 failed, p99/);
  await state(page, "ended");
  assert.equal(await load.ended, 0);
  await page.waitForFunction(() => document.getElementById("status").textContent === "The load of third has ended.");
  await page.waitForSelector(".to_answer");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/answer?run=third"));
  await ready(page);
  assert.equal(await page.locator(".figures dd a").first().innerText(), "800");
  assert.deepEqual(faults, []);
  await context.close();
});

test("a time of the course stands in the link, and leads to its requests", { timeout: 120_000 }, async () => {
  const { page, faults, context } = await page_of(chromium, shown.address);
  await visit(page, shown.address, "#/answer?run=third&at_s=4");
  await page.waitForSelector("h3:has-text('At ')");
  await page.waitForSelector("h3:has-text('by this browser')", { timeout: 60_000 });
  await page.locator(".plot[role=application]").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => Number(new URLSearchParams(location.hash.split("?")[1]).get("at_s")) > 4);
  const at_s = await page.evaluate(() => Number(new URLSearchParams(location.hash.split("?")[1]).get("at_s")));
  const answered = Number((await page.locator("p:has-text('answered within')").innerText()).split(" ")[0]);
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "answer-at.png"), fullPage: true });
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/requests?"));
  await ready(page);
  const { from, to } = await page.evaluate(() => {
    const given = new URLSearchParams(location.hash.split("?")[1]);
    return { from: Number(given.get("from_ns")), to: Number(given.get("to_ns")) };
  });
  assert.ok(from > 0 && to > from, `${from} ${to}`);
  const count = await page.evaluate(async ({ from, to }) => (await (await fetch(`api/1/requests?run=third&from_ns=${from}&to_ns=${to}&limit=1`)).json()).count, { from, to });
  assert.equal(count, answered, "the requests are those of the slice");
  await page.keyboard.press("Backspace");
  await page.waitForFunction((at_s) => location.hash.includes(`at_s=${at_s}`), at_s);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a load that is killed is said to have ended without a word", { timeout: 120_000 }, async () => {
  const { page, context } = await page_of(chromium, shown.address);
  const load = loading("fourth", 60);
  await visit(page, shown.address, "#/load?run=fourth");
  await state(page, "running").catch(async (error) => assert.fail(`${error}: ${await page.locator("main").innerText()}`));
  await load.end("SIGKILL");
  await state(page, "lost");
  assert.match(await page.locator(".load").innerText(), /is gone and said nothing of an end/);
  await visit(page, shown.address, "#/load?run=missing");
  await page.waitForSelector("[role=alert]:has-text('There is no run')".replace("There is", "there is"));
  await context.close();
});
