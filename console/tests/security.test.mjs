// Who may ask, what an answer allows, and what a call changes.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { console_of, recorded } from "./support.mjs";

let [made, shown] = [];

before(async () => {
  made = await recorded();
  shown = await console_of(made.runs);
}, { timeout: 600_000 });

after(async () => {
  if (shown) await shown.end();
  if (made) rmSync(made.folder, { recursive: true });
});

// A request byte for byte as it is given: `fetch` would mend the path and refuse the headers.
function ask(path, { method = "GET", headers = {}, body = "" } = {}) {
  const { hostname, port } = new URL(shown.origin);
  return new Promise((done, failed) => {
    const asked = request({ hostname, port, path, method, headers: { Host: shown.host, ...headers } }, (answer) => {
      const pieces = [];
      answer.on("data", (piece) => pieces.push(piece));
      answer.on("end", () => done({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(pieces).toString() }));
    });
    asked.on("error", failed);
    asked.end(body);
  });
}

const api = (call) => `${shown.pathname}api/1/${call}`;
const OWN = { "X-Weir-Console": "1" };

// All files but those that are made of a run and may be removed.
function contents(folder) {
  const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile() && !entry.path.includes("derived"));
  return files.map((entry) => join(entry.path, entry.name)).sort().map((path) => `${path} ${statSync(path).mtimeMs} ${createHash("sha256").update(readFileSync(path)).digest("hex")}`);
}

async function open(run) {
  for (let tries = 0; tries < 600; tries++) {
    const told = JSON.parse((await ask(api(`open?run=${encodeURIComponent(run)}`), { method: "POST", headers: OWN })).body);
    if (told.state === "open") return;
    assert.notEqual(told.state, "failed", told.error);
    await new Promise((later) => setTimeout(later, 200));
  }
  assert.fail("the run does not open");
}

test("another host, another origin and no word get nothing", async () => {
  assert.equal((await ask(api("has"))).status, 200);
  for (const Host of ["evil.example", `evil.example:${new URL(shown.origin).port}`, "127.0.0.1", "localhost:1"]) {
    for (const path of [shown.pathname, api("has"), "/"]) assert.equal((await ask(path, { headers: { Host } })).status, 403, `${Host} ${path}`);
  }
  for (const Origin of ["http://evil.example", "null", shown.origin.replace("http:", "https:"), `${shown.origin}1`]) {
    assert.equal((await ask(api("has"), { headers: { Origin } })).status, 403, Origin);
    assert.equal((await ask(api("open?run=before"), { method: "POST", headers: { Origin, ...OWN } })).status, 403, Origin);
  }
  assert.equal((await ask(api("has"), { headers: { "Sec-Fetch-Site": "cross-site" } })).status, 403);
  for (const path of ["/", "/api/1/has", "/0123456789abcdef0123456789abcdef/api/1/has", shown.pathname.slice(0, -1), `/..${shown.pathname}`, `/%2e%2e${shown.pathname}`]) {
    assert.equal((await ask(path)).status, 403, path);
  }
});

test("every answer forbids what the page does not need", async () => {
  for (const path of [shown.pathname, `${shown.pathname}console.js`, api("has"), api("nothing"), "/"]) {
    const { headers } = await ask(path);
    const policy = headers["content-security-policy"];
    for (const piece of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]) assert.ok(policy.includes(piece), `${path}: ${piece}`);
    assert.ok(!policy.includes("unsafe"), path);
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.equal(headers["referrer-policy"], "no-referrer");
    assert.equal(headers["access-control-allow-origin"], undefined);
  }
});

test("GET begins nothing, and nothing changes a run", { timeout: 300_000 }, async () => {
  const was = contents(made.runs);
  for (const call of ["open?run=before", "sql?run=before"]) {
    assert.equal((await ask(api(call))).status, 405, call);
    assert.equal((await ask(api(call), { method: "HEAD" })).status, 405, call);
    assert.equal((await ask(api(call), { method: "POST" })).status, 403, `${call} without the header that a form cannot send`);
  }
  for (const call of ["answer", "whole", "choices", "state"]) assert.equal((await ask(api(`${call}?run=before`))).status, 409, call);
  assert.ok(!readdirSync(join(made.runs, "before")).includes("derived"), "GET made nothing");
  await open("before");
  for (const sql of ["DELETE FROM requests", "ATTACH '/tmp/x' AS x", "PRAGMA writable_schema = 1", "SELECT 1; DROP TABLE requests", "UPDATE requests SET id = 1", "CREATE TABLE x (y)", "SELECT load_extension('x')"]) {
    const told = await ask(api("sql?run=before"), { method: "POST", headers: OWN, body: sql });
    assert.equal(told.status, 400, `${sql}: ${told.body}`);
  }
  const told = await ask(api("sql?run=before"), { method: "POST", headers: OWN, body: "SELECT count(*) FROM requests" });
  assert.ok(JSON.parse(told.body).rows[0][0] > 0);
  assert.deepEqual(contents(made.runs), was);
});

test("names and parameters lead nowhere else", { timeout: 300_000 }, async () => {
  for (const run of ["..", "../site", "/etc", "before/../before", "before/segments", "%00", ""]) {
    const { status, body } = await ask(api(`open?run=${encodeURIComponent(run)}`), { method: "POST", headers: OWN });
    assert.ok([400, 404].includes(status), `${run}: ${status} ${body}`);
  }
  for (const path of ["../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "console.js/", "api/1/../has", "api/2/has", "api/1/", "src/main.ts"]) {
    assert.equal((await ask(`${shown.pathname}${path}`)).status, 404, path);
  }
  await open("before");
  const all = JSON.parse((await ask(api("requests?run=before"))).body).count;
  for (const text of ["' OR 1 --", "'; DROP TABLE requests; --", "\\' OR ''='"]) {
    for (const name of ["class", "name", "outcome", "client"]) {
      const told = await ask(api(`requests?run=before&${name}=${encodeURIComponent(text)}`));
      assert.equal(JSON.parse(told.body).count, 0, `${name}=${text}: ${told.body}`);
    }
    assert.equal((await ask(api(`requests?run=before&part=run&who=${encodeURIComponent(text)}`))).status, 200);
  }
  assert.equal(JSON.parse((await ask(api("requests?run=before"))).body).count, all);
  for (const call of ["requests?run=before&colour=red", "requests?run=before&limit=0", "requests?run=before&run=after", "requests?run=before&sort=id;", "tile?run=before&level=x&index=0", "has?x=1"]) {
    assert.equal((await ask(api(call))).status, 400, call);
  }
  for (const call of ["tile?run=before&level=0&index=99999999", "tile?run=before&level=-99&index=0", "request?run=before&id=999999999"]) {
    assert.equal((await ask(api(call))).status, 404, call);
  }
});
