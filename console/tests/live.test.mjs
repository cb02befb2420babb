// The rooms of a running server, on a real `weir serve`, in Debian's Chromium.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, console_of, page_of, served, visit } from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env.PICTURES;
const ALL = ["--admin-may", "stop,mark", "--activity", "act", "--policy", "flood.policy", "--tick", "200ms"];
const ROOMS = ["activity?hours=1", "connections", "watch", "last", "rules"];
const HOSTILE = "/%3Cscript%3Edocument.title='taken'%3C/script%3E%E2%80%AEgpj";
let [folder, server, shown, chromium] = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "weir-live-"));
  for (const name of ["site", "runs"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "site", "a.txt"), "hello");
  writeFileSync(join(folder, "site", "large"), Buffer.alloc(64 << 20));
  writeFileSync(join(folder, "flood.policy"), `atom "/**" {
    rule busy: during if rate@atom > 100000rps
        then shed 25%
        until rate@atom < 10rps;
}
`);
  server = await served(folder, ...ALL);
  shown = await console_of(join(folder, "runs"), "--admin", `unix:${join(folder, "admin.sock")}`);
  chromium = await browser();
}, { timeout: 300_000 });

after(async () => {
  await chromium?.close();
  if (shown) assert.equal(await shown.end(), 0, "Ctrl-C ends it with 0");
  await server?.end();
  if (folder) rmSync(folder, { recursive: true });
});

function asked(path) {
  return new Promise((done, failed) => get(`${server.origin}${path}`, { agent: false }, (answer) => answer.resume().on("end", done)).on("error", failed));
}

// A client that reads only a beginning; whether it was cut off.
function slow() {
  return new Promise((begun) => get(`${server.origin}/large`, { agent: false }, (answer) => {
    answer.pause();
    const ended = new Promise((done) => answer.once("aborted", () => done("cut off")).once("error", () => done("cut off")));
    begun({ ended, close: () => answer.destroy(), go_on: () => answer.resume() });
  }).on("error", () => {}));
}

async function opened(hash, options = {}) {
  const all = await page_of(chromium, shown.address, options);
  await visit(all.page, shown.address, hash);
  return all;
}

const came = (page, least) => page.waitForFunction((least) => Number(document.querySelector("[data-came]")?.dataset.came) >= least, least);
const calm = (page) => page.waitForFunction(() => [...document.querySelectorAll("[role=alert]")].every((one) => one.hidden));

test("each live room shows a real server in both colours and all widths, passes axe, and asks nothing of others", { timeout: 300_000 }, async () => {
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  await asked(HOSTILE);
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of [[400, 800], [1280, 800], [2560, 1440]]) {
      const { page, faults, context } = await page_of(chromium, shown.address, { viewport: { width, height }, colorScheme });
      for (const room of ROOMS) {
        await visit(page, shown.address, `#/${room}`);
        if (room === "watch") {
          await page.waitForTimeout(300);
          await Promise.all([asked("/a.txt"), asked(HOSTILE)]);
          await came(page, 2);
          await page.locator(".watched summary").first().click();
        }
        assert.equal(await page.locator("[role=alert]:visible").count(), 0, `${room}: ${await page.locator("main").innerText()}`);
        assert.equal(await page.locator("h1").count(), 1, room);
        const found = await page.evaluate(() => ({ over: document.documentElement.scrollWidth - innerWidth, scripts: document.querySelectorAll("main script").length, title: document.title, directions: /[\u202a-\u202e]/.test(document.body.innerText) }));
        assert.ok(found.over <= 0 && found.scripts === 0 && !found.title.startsWith("taken") && !found.directions, `${room} at ${width}: ${JSON.stringify(found)}`);
        if (width === 1280) {
          await page.evaluate(AXE);
          const wrong = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }).then((told) => told.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} ${node.failureSummary}`).join(" | ")}`)));
          assert.deepEqual(wrong, [], `${room}, ${colorScheme}`);
        }
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `live-${room.split("?")[0]}-${width}-${colorScheme}.png`) });
      }
      assert.deepEqual(faults, []);
      await context.close();
    }
  }
});

test("without a hash it begins with Activity; capital letters are the keys of the rooms", { timeout: 120_000 }, async () => {
  const { page, faults, context } = await page_of(chromium, shown.address);
  await page.goto(shown.address);
  await page.waitForFunction(() => location.hash === "#/activity" && document.body.dataset.ready === "true");
  for (const [key, room] of [["C", "connections"], ["W", "watch"], ["L", "last"], ["R", "rules"], ["A", "activity"]]) {
    await page.keyboard.press(`Shift+${key}`);
    await page.waitForFunction((room) => location.hash === `#/${room}` && document.body.dataset.ready === "true", room);
  }
  await page.keyboard.press("+");
  await page.waitForFunction(() => location.hash.endsWith("hours=1") && document.body.dataset.ready === "true");
  await page.keyboard.press("-");
  await page.waitForFunction(() => location.hash.endsWith("hours=24"));
  assert.deepEqual(faults, []);
  await context.close();
});

test("Activity goes on by itself, and a step leads to its requests", { timeout: 120_000 }, async () => {
  const { page, context } = await opened("#/activity?hours=1");
  const number = async () => Number((await page.locator(".figures dd").first().innerText()).replaceAll(",", ""));
  const was = await number();
  for (let count = 0; count < 7; count++) await asked("/a.txt");
  await page.waitForFunction((least) => Number(document.querySelector(".figures dd").textContent.replaceAll(",", "")) >= least, was + 7);
  assert.match(await page.locator("table", { hasText: "In words" }).innerText(), /start/);
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator("p.unseen").innerText(), /requests/);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/last?from_unix_s=") && document.body.dataset.ready === "true");
  await visit(page, shown.address, "#/activity?hours=1");
  const box = await page.locator(".u-over").first().boundingBox();
  await page.mouse.move(box.x + box.width - 3, box.y + box.height / 2);
  await page.mouse.click(box.x + box.width - 3, box.y + box.height / 2);
  await page.waitForFunction(() => location.hash.startsWith("#/last?from_unix_s="));
  await context.close();
});

test("Connections shows what is under way, and ends it after a question", { timeout: 120_000 }, async () => {
  const client = await slow();
  const { page, context } = await opened("#/connections");
  await page.waitForSelector("text=GET /large");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.waitForTimeout(2500);
  assert.ok(await page.evaluate(() => document.activeElement?.matches("a[data-key]")), "the focus outlives what is renewed");
  await page.keyboard.press("x");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("Ended: 1 connection"));
  client.go_on();
  assert.equal(await client.ended, "cut off");
  await context.close();
});

test("Watch unfolds by Enter, pauses by Space, is bounded, and ends with its page", { timeout: 180_000 }, async () => {
  const { page, faults, context } = await opened("#/watch?show=timing&filter=path%3D/a.txt");
  await page.waitForTimeout(500);
  await asked("/a.txt");
  await came(page, 1);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForSelector("details[open] .steps");
  assert.match(await page.locator(".steps").innerText(), /timing\s+decision/);
  await page.keyboard.press(" ");
  await asked("/a.txt");
  await came(page, 2);
  assert.deepEqual([await page.locator(".watched li").count(), await page.locator("details[open]").count()], [1, 1], "paused, and still unfolded");
  await page.keyboard.press(" ");
  await page.waitForFunction(() => document.querySelectorAll(".watched li").length === 2);
  for (let told = 0; told < 1100; told = Number(await page.locator("[data-came]").getAttribute("data-came"))) {
    await Promise.all(Array.from({ length: 20 }, () => asked("/a.txt")));
  }
  assert.equal(await page.locator(".watched li").count(), 1000);
  assert.match(await page.locator("[data-came]").innerText(), /1,000 are shown, [1-9]\d* older ones are no longer/);
  await visit(page, shown.address, "#/watch?filter=stauts%3D5xx");
  await page.waitForSelector("[role=alert]:has-text('is no key of a filter')");
  // Four places of watches are free again soon after their pages went.
  for (let count = 0; count < 6; count++) {
    await visit(page, shown.address, "#/watch");
    await calm(page);
  }
  assert.deepEqual(faults, []);
  await context.close();
});

test("Last requests are filtered in the words of the command", { timeout: 120_000 }, async () => {
  await asked("/not-there");
  const { page, context } = await opened("#/last");
  await page.keyboard.press("/");
  await page.keyboard.type("status=404 path=/not-there");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("filter=") && document.body.dataset.ready === "true");
  await page.waitForFunction(() => {
    dispatchEvent(new KeyboardEvent("keydown", { key: "r" }));
    return document.querySelector("tbody tr td")?.textContent.includes("/not-there");
  }, null, { polling: 500 });
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "127.0.0.1");
  await visit(page, shown.address, "#/last?filter=stauts%3D404");
  await page.waitForSelector("[role=alert]:has-text('is no key of a filter')");
  await context.close();
});

test("a server that goes is told of, and shown again when it is back", { timeout: 120_000 }, async () => {
  const { page, context } = await opened("#/connections");
  const watching = await opened("#/watch");
  await server.end("SIGKILL");
  await page.waitForSelector("[role=alert]:has-text('no server answers there')");
  await watching.page.waitForSelector("[role=alert]:visible");
  rmSync(join(folder, "admin.sock"), { force: true });
  // Without the right to end something there is no button for it.
  server = await served(folder);
  await calm(page);
  await calm(watching.page);
  const client = await slow();
  await page.waitForSelector("text=GET /large");
  assert.equal(await page.locator("button.stop").count(), 0);
  client.close();
  await visit(page, shown.address, "#/activity");
  await page.waitForSelector("[role=alert]:has-text('--activity FILE')");
  await visit(page, shown.address, "#/rules");
  await page.waitForSelector("[role=alert]:has-text('--policy FILE')");
  await watching.context.close();
  await context.close();
});
