// Each room on real recorded runs, in Debian's Chromium.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, console_of, HOSTILE, page_of, ready, recorded, visit } from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env.PICTURES;
let [made, shown, chromium] = [];

before(async () => {
  made = await recorded();
  shown = await console_of(made.runs);
  chromium = await browser();
}, { timeout: 600_000 });

after(async () => {
  await chromium?.close();
  if (shown) assert.equal(await shown.end(), 0, "Ctrl-C ends it with 0");
  if (made) rmSync(made.folder, { recursive: true });
});

const ROOMS = [
  ["runs", "#/runs"], ["answer", "#/answer?run=after"], ["requests", "#/requests?run=after"], ["request", "#/request?run=after&id=7"],
  ["chart", "#/chart?run=after"], ["compare", "#/compare?run1=before&run2=after"], ["sql", "#/sql?run=after&q=SELECT+part%2C+sum%28duration_ns%29+AS+all_ns+FROM+parts+GROUP+BY+1+ORDER+BY+2+DESC"],
];

async function opened(options = {}) {
  return page_of(chromium, shown.address, options);
}

async function settled(page, room) {
  if (room === "chart") await page.waitForFunction(() => document.querySelector("canvas.lanes")?.dataset.settled === "true");
  if (room === "sql") await page.waitForSelector("text=rows,");
}

test("each room shows a real run without an error and asks nothing of others", { timeout: 300_000 }, async () => {
  const { page, faults, context } = await opened();
  for (const [room, hash] of ROOMS) {
    await visit(page, shown.address, hash);
    await settled(page, room);
    assert.equal(await page.locator("[role=alert]").count(), 0, `${room}: ${await page.locator("main").innerText()}`);
    assert.equal(await page.locator("h1").count(), 1, room);
  }
  assert.deepEqual(faults, []);
  await context.close();
});

test("rooms pass axe in both colours", { timeout: 300_000 }, async () => {
  for (const colorScheme of ["light", "dark"]) {
    const { page, context } = await opened({ colorScheme });
    for (const [room, hash] of ROOMS) {
      await visit(page, shown.address, hash);
      await settled(page, room);
      // By the protocol of the browser, which the page's policy does not concern.
      await page.evaluate(AXE);
      const wrong = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }).then((told) => told.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} ${node.failureSummary}`).join(" | ")}`)));
      assert.deepEqual(wrong, [], `${room}, ${colorScheme}`);
    }
    await context.close();
  }
});

test("no room is wider than its window, from 400 to 2560 pixels", { timeout: 300_000 }, async () => {
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of [[400, 800], [1280, 800], [2560, 1440]]) {
      const { page, context } = await opened({ viewport: { width, height }, colorScheme });
      for (const [room, hash] of ROOMS) {
        await visit(page, shown.address, hash);
        await settled(page, room);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${room} at ${width} is ${over} pixels too wide`);
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `${room}-${width}-${colorScheme}.png`) });
      }
      await context.close();
    }
  }
});

test("a number leads to the requests behind it, and each state is a link", { timeout: 120_000 }, async () => {
  const { page, context } = await opened();
  await visit(page, shown.address, "#/answer?run=after");
  const told = await page.locator(".figures a").first().innerText();
  await page.locator("ol.causes a.cause").first().click();
  await page.waitForFunction(() => location.hash.startsWith("#/requests?"));
  await ready(page);
  assert.match(page.url(), /part=\w+/);
  const [name] = await page.locator("tbody tr a").first().allInnerTexts();
  await page.locator("tbody tr a").first().click();
  await page.waitForFunction(() => location.hash.startsWith("#/request?"));
  await ready(page);
  assert.ok((await page.locator("h1").innerText()).includes(name.slice(0, 4)), name);
  const link = page.url();
  const fresh = await opened();
  await fresh.page.goto(link);
  await ready(fresh.page);
  assert.equal(await fresh.page.locator("h1").innerText(), await page.locator("h1").innerText());
  await fresh.context.close();
  await visit(page, shown.address, "#/requests?run=after");
  assert.equal((await page.locator("h1").innerText()).split(" ")[0], told, "as many requests as the answer tells");
  await context.close();
});

test("the steps of a request add up to its response time", { timeout: 120_000 }, async () => {
  const { page, context } = await opened();
  await visit(page, shown.address, "#/requests?run=after");
  const wrong = await page.evaluate(async () => {
    const ask = (call) => fetch(`api/1/${call}`).then((answer) => answer.json());
    const { requests } = await ask("requests?run=after&limit=20&joined=1");
    const all = await Promise.all(requests.map((one) => ask(`request?run=after&id=${one.id}`)));
    return all.map((one) => one.request.response_ns - one.steps.reduce((sum, step) => sum + step.duration_ns, 0)).filter((apart) => apart !== 0);
  });
  assert.deepEqual(wrong, []);
  await context.close();
});

test("keys go everywhere", { timeout: 300_000 }, async () => {
  const { page, faults, context } = await opened();
  // The room that is left may still say that it is ready, until the page has taken the new address.
  const at = async (start) => {
    await page.waitForFunction((start) => location.hash.startsWith(start), start);
    await ready(page);
    await page.waitForFunction((start) => location.hash.startsWith(start) && document.body.dataset.ready === "true", start);
  };
  await visit(page, shown.address, "#/runs");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.keyboard.press("c");
  await at("#/compare?run1=");
  const first = await page.evaluate(() => new URLSearchParams(location.hash.split("?")[1]).get("run1"));
  await page.keyboard.press("x");
  await page.waitForFunction((first) => new URLSearchParams(location.hash.split("?")[1]).get("run2") === first, first);
  await visit(page, shown.address, "#/answer?run=after");
  for (const [key, start] of [["3", "#/requests"], ["4", "#/chart"], ["5", "#/compare"], ["6", "#/sql"], ["1", "#/runs"], ["2", "#/answer"], ["s", "#/requests?run=after&sort=response"]]) {
    await page.keyboard.press(key);
    await at(start);
  }
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await at("#/request?");
  const id = () => page.evaluate(() => Number(new URLSearchParams(location.hash.split("?")[1]).get("id")));
  const now = await id();
  await page.keyboard.press("n");
  await page.waitForFunction((id) => location.hash.includes(`id=${id}`), now + 1);
  await ready(page);
  await page.keyboard.press("p");
  await page.waitForFunction((id) => location.hash.endsWith(`id=${id}`), now);
  await ready(page);
  await page.keyboard.press("w");
  await at("#/chart?");
  await page.keyboard.press("Backspace");
  await at("#/request?");
  await visit(page, shown.address, "#/requests?run=after&limit=20");
  await page.keyboard.press("]");
  await at("#/requests?run=after&limit=20&offset=20".replace("run=after&limit=20", "limit=20&run=after"));
  await page.keyboard.press("[");
  await page.waitForFunction(() => location.hash.includes("offset=0"));
  await ready(page);
  await page.keyboard.press("/");
  await page.keyboard.type("GET");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("name=GET"));
  await ready(page);
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open] kbd");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  for (const dark of ["true", "false"]) {
    await page.keyboard.press("t");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.dark), dark);
  }
  assert.deepEqual(faults, []);
  await context.close();
});

test("keys move the time chart", { timeout: 120_000 }, async () => {
  const { page, context } = await opened();
  await visit(page, shown.address, "#/chart?run=after");
  await settled(page, "chart");
  const window_of = async () => {
    await page.waitForTimeout(400);
    return page.evaluate(() => ["from", "to"].map((name) => Number(new URLSearchParams(location.hash.split("?")[1]).get(name))));
  };
  const whole = await window_of();
  await page.keyboard.press("+");
  const near = await window_of();
  assert.ok(Math.abs((near[1] - near[0]) / (whole[1] - whole[0]) - 0.5) < 0.01, `${near} of ${whole}`);
  await page.keyboard.press("ArrowRight");
  const later = await window_of();
  assert.ok(later[0] > near[0]);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Home");
  assert.equal((await window_of())[0], 0);
  await page.keyboard.press("End");
  assert.equal((await window_of())[1], whole[1]);
  await page.keyboard.press("-");
  await page.keyboard.press("0");
  assert.deepEqual(await window_of(), whole);
  await page.keyboard.press("n");
  await page.waitForSelector(".panel h2");
  assert.match(await page.locator(".panel h2").innerText(), /^Slowest 1 of/);
  await page.keyboard.press("n");
  assert.match(await page.locator(".panel h2").innerText(), /^Slowest 2 of/);
  await page.keyboard.press("p");
  const [slow] = (await page.locator(".panel h2").innerText()).match(/[\d.]+\s[mu]?s/);
  await page.locator(".panel button").click();
  await page.waitForFunction(() => location.hash.startsWith("#/request?"));
  await ready(page);
  assert.ok((await page.locator(".title").innerText()).replaceAll("\u00a0", " ").includes(slow.replaceAll("\u00a0", " ")), "the chart and the tables mean the same request");
  await page.keyboard.press("w");
  await page.waitForFunction(() => location.hash.startsWith("#/chart?"));
  await ready(page);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("/");
  await page.keyboard.type("weir-loop");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.keyboard.press("r");
  await page.waitForFunction(() => location.hash.startsWith("#/requests?"));
  await context.close();
});

test("hostile names stay text", { timeout: 120_000 }, async () => {
  const { page, faults, context } = await opened();
  const run = encodeURIComponent(HOSTILE);
  for (const [room, hash] of [["runs", "#/runs"], ["answer", `#/answer?run=${run}`], ["requests", `#/requests?run=${run}`], ["request", `#/request?run=${run}&id=1`], ["chart", `#/chart?run=${run}`], ["compare", `#/compare?run1=${run}&run2=named`], ["sql", `#/sql?run=${run}&q=SELECT+DISTINCT+name%2C+process+FROM+requests%2C+tasks`]]) {
    await visit(page, shown.address, hash);
    await settled(page, room);
    assert.equal(await page.locator("[role=alert]").count(), 0, `${room}: ${await page.locator("main").innerText()}`);
    const found = await page.evaluate(() => ({
      title: document.title, scripts: document.querySelectorAll("main script, main img, #taken, head script:not([src])").length,
      directions: /[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText + document.title), over: document.documentElement.scrollWidth - innerWidth,
    }));
    assert.ok(!found.title.startsWith("taken") && found.scripts === 0 && !found.directions && found.over <= 0, `${room}: ${JSON.stringify(found)}`);
  }
  await visit(page, shown.address, `#/answer?run=${encodeURIComponent("../../../etc")}`);
  assert.match(await page.locator("[role=alert]").innerText(), /no run/);
  await visit(page, shown.address, "#/<img src=x onerror=document.title='taken'>");
  assert.match(await page.locator("[role=alert]").innerText(), /no room/);
  assert.deepEqual(faults, []);
  await context.close();
});
