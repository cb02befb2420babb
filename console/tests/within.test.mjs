// The console within a server's own admin address, and several servers in one console, in Debian's Chromium.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, console_of, page_of, ready, served, served_over_tcp, visit } from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env.PICTURES;
const TOKEN = "the-token-of-this-server-0123456789";
const ROOMS = ["now", "activity?hours=1", "connections", "watch", "last", "rules"];
const POLICY = `atom "/**" {
    rule busy: during if rate@atom > 100000rps
        then shed 25%
        until rate@atom < 10rps;
}
`;
let [folder, first, second, shown, chromium] = [];
const settings = ["--admin-may", "stop", "--activity", "act", "--policy", "flood.policy", "--tick", "200ms"];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "weir-within-"));
  for (const name of ["site", "runs"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "site", "a.txt"), "hello");
  writeFileSync(join(folder, "flood.policy"), POLICY);
  writeFileSync(join(folder, "token"), `${TOKEN}\n`, { mode: 0o600 });
  first = await served_over_tcp(folder, ...settings);
  second = await served(folder);
  chromium = await browser();
}, { timeout: 300_000 });

after(async () => {
  await chromium?.close();
  if (shown) assert.equal(await shown.end(), 0, "Ctrl-C ends it with 0");
  await first?.end();
  await second?.end();
  if (folder) rmSync(folder, { recursive: true });
});

const asked = (server, path) => new Promise((done, failed) => get(`${server.origin}${path}`, { agent: false }, (answer) => answer.resume().on("end", done)).on("error", failed));

async function give(page, token) {
  await page.waitForSelector("dialog.token[open]");
  await page.keyboard.type(token);
  await page.keyboard.press("Enter");
}

async function let_in(options) {
  const all = await page_of(chromium, first.within, options);
  await all.page.goto(first.within);
  await give(all.page, TOKEN);
  await ready(all.page);
  return all;
}

test("the page asks for the token, takes no wrong one, and keeps it for its tab alone", { timeout: 120_000 }, async () => {
  const { page, faults, context } = await page_of(chromium, first.within);
  const urls = [];
  page.on("request", (request) => urls.push(request.url()));
  await page.goto(first.within);
  await give(page, "not-the-token-of-the-server");
  await page.waitForSelector("dialog.token[open] [role=alert]:has-text('not the token of this server')");
  if (PICTURES) await page.screenshot({ path: join(PICTURES, "within-token.png") });
  await page.keyboard.type("t\u00f6ken");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog.token[open] [role=alert]:has-text('visible ASCII')");
  await page.locator("dialog.token input").fill(TOKEN);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash === "#/now" && document.body.dataset.ready === "true");
  assert.equal(await page.locator("dialog").count(), 0);
  const kept = await page.evaluate(() => ({ session: sessionStorage.getItem("token"), others: [JSON.stringify(localStorage), document.cookie, location.href, document.documentElement.outerHTML].join() }));
  assert.ok(kept.session === TOKEN && !kept.others.includes(TOKEN));
  assert.ok(!urls.some((url) => url.includes(TOKEN)), "no address holds it");
  await page.reload();
  await ready(page);
  assert.equal(await page.locator("dialog").count(), 0, "the tab has it still");
  const other = await context.newPage();
  await other.goto(first.within);
  await other.waitForSelector("dialog.token[open]");
  await other.keyboard.press("Escape");
  await other.waitForSelector("[role=alert]:has-text('reload the page to give it')");
  assert.equal(await other.locator("table").count(), 0, "no figure without it");
  assert.deepEqual(faults, []);
  await context.close();
});

test("each room of a server's own console, in both colours and all widths, passes axe and asks nothing of others", { timeout: 300_000 }, async () => {
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of [[400, 800], [1280, 800], [2560, 1440]]) {
      const { page, faults, context } = await let_in({ viewport: { width, height }, colorScheme });
      assert.deepEqual(await page.locator("nav a").allInnerTexts(), ["Now", "Activity", "Connections", "Watch", "Last requests", "Rules"]);
      for (const room of ROOMS) {
        await page.goto(`${first.within}#/${room}`);
        await ready(page);
        if (room === "watch") {
          await page.waitForTimeout(500);
          await asked(first, "/a.txt");
          await page.waitForFunction(() => Number(document.querySelector("[data-came]")?.dataset.came) >= 1);
        }
        if (room === "now") await page.waitForFunction(() => document.querySelector(".figures")?.innerText.includes("Connections"));
        assert.equal(await page.locator("[role=alert]:visible").count(), 0, `${room}: ${await page.locator("main").innerText()}`);
        assert.equal(await page.locator("h1").count(), 1, room);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${room} at ${width}: ${over}`);
        if (width === 1280) {
          await page.evaluate(AXE);
          const wrong = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }).then((told) => told.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} ${node.failureSummary}`).join(" | ")}`)));
          assert.deepEqual(wrong, [], `${room}, ${colorScheme}`);
        }
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `within-${room.split("?")[0]}-${width}-${colorScheme}.png`) });
      }
      assert.deepEqual(faults, []);
      await context.close();
    }
  }
});

test("a server's own console ends connections, has no rooms of runs, and its status page leads to it", { timeout: 120_000 }, async () => {
  const { page, context } = await let_in();
  const client = connect(first.port, "127.0.0.1");
  const ended = new Promise((done) => client.on("close", done).on("error", () => {}));
  client.write("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
  await new Promise((done) => client.once("data", done));
  await page.goto(`${first.within}#/connections`);
  await page.waitForSelector("button.stop");
  await page.locator("button.stop").first().click();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("Ended: 1 connection"));
  await ended;
  await page.goto(`${first.within}#/runs`);
  await page.waitForSelector("[role=alert]:has-text('no room runs here')");
  await page.goto(`http://${first.admin}/`);
  await page.waitForFunction(() => document.getElementById("live").textContent === "live");
  await page.click("#console");
  await page.waitForFunction(() => location.pathname === "/console/" && document.body.dataset.ready === "true");
  assert.equal(await page.locator("dialog").count(), 0, "both pages know the token of the tab");
  await context.close();
});

test("several servers stand side by side, are chosen by key and list, and a silent one is named", { timeout: 180_000 }, async () => {
  shown = await console_of(join(folder, "runs"), "--admin", first.admin, "--admin", `unix:${join(folder, "admin.sock")}`, "--token", join(folder, "token"));
  const { page, faults, context } = await page_of(chromium, shown.address);
  await page.goto(shown.address);
  await page.waitForFunction(() => location.hash === "#/now" && document.body.dataset.ready === "true");
  await page.waitForFunction(() => [...document.querySelectorAll("tbody tr")].filter((row) => row.innerText.includes("answers")).length === 2);
  const load = setInterval(() => void asked(second, "/a.txt").catch(() => {}), 50);
  await page.waitForFunction(() => Number.parseFloat(document.querySelectorAll("tbody tr")[1].cells[1].innerText) > 1 && /us|ms/.test(document.querySelectorAll("tbody tr")[1].cells[5].innerText));
  clearInterval(load);
  for (const [width, height] of [[400, 800], [1280, 800], [2560, 1440]]) {
    await page.setViewportSize({ width, height });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `at ${width}`);
    if (PICTURES) await page.screenshot({ path: join(PICTURES, `servers-${width}.png`) });
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash === "#/activity?server=2");
  await page.waitForSelector("[role=alert]:has-text('--activity FILE')");
  await page.keyboard.press("Shift+L");
  await page.waitForFunction(() => location.hash === "#/last?server=2" && document.body.dataset.ready === "true");
  await page.waitForSelector("td:has-text('/a.txt')");
  await page.keyboard.press("s");
  await page.waitForFunction(() => location.hash === "#/last" && document.body.dataset.ready === "true");
  assert.equal(await page.locator(".title .soft bdi").innerText(), first.admin, "without a number it is the first");
  await page.selectOption("select.server", "2");
  await page.waitForFunction(() => location.hash === "#/last?server=2" && document.body.dataset.ready === "true");
  await page.keyboard.press("/");
  await page.keyboard.type("status=404");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("filter=") && location.hash.includes("server=2"));
  await page.evaluate(AXE);
  const wrong = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }).then((told) => told.violations.map((one) => one.id)));
  assert.deepEqual(wrong, []);
  await visit(page, shown.address, "#/connections?server=3");
  await page.waitForSelector("[role=alert]:has-text('there is no server 3 here')");
  await visit(page, shown.address, "#/now");
  await second.end("SIGKILL");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr")[1].innerText.includes("no server answers there"));
  assert.match(await page.locator("tbody tr").first().innerText(), /answers/);
  rmSync(join(folder, "admin.sock"), { force: true });
  second = await served(folder);
  await page.waitForFunction(() => [...document.querySelectorAll("tbody tr")].every((row) => row.innerText.includes("answers") && !row.innerText.includes("no server")));
  assert.deepEqual(faults.filter((fault) => !fault.includes("status of 502")), []);
  await context.close();
});
