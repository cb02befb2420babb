// What holds for each room: both colours, all widths, one heading, axe, no markup from outside, nothing asked of others.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { page_of, visit } from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env.PICTURES;

export async function looks(chromium, address, rooms) {
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of [[400, 800], [1280, 800], [2560, 1440]]) {
      const { page, faults, context } = await page_of(chromium, address, { viewport: { width, height }, colorScheme });
      for (const [name, hash] of Object.entries(rooms)) {
        await visit(page, address, hash);
        assert.equal(await page.locator("[role=alert]:visible").count(), 0, `${name}: ${await page.locator("main").innerText()}`);
        assert.equal(await page.locator("h1").count(), 1, name);
        const found = await page.evaluate(() => ({ over: document.documentElement.scrollWidth - innerWidth, made: document.querySelectorAll("main script, main img, main b").length, title: document.title, directions: /[\u202a-\u202e]/.test(document.body.innerText) }));
        assert.ok(found.over <= 0 && found.made === 0 && !found.title.startsWith("taken") && !found.directions, `${name} at ${width}: ${JSON.stringify(found)}`);
        if (width === 1280) {
          await page.evaluate(AXE);
          const wrong = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }).then((told) => told.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} ${node.failureSummary}`).join(" | ")}`)));
          assert.deepEqual(wrong, [], `${name}, ${colorScheme}`);
        }
        if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      }
      assert.deepEqual(faults, []);
      await context.close();
    }
  }
}
