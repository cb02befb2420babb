// Real runs, a real console and Debian's Chromium for the tests.

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const WEIR = process.env.WEIR ?? "";
if (!WEIR) throw new Error("WEIR names no program: scripts/test-console sets it");

// Texts that are no markup: a name of a directory, of a command and of a process.
export const HOSTILE = `<script>document.title='taken'<\u2044script>"'&\u202egpj.exe`;
export const HOSTILE_COMMAND = `<img src=x onerror="document.title='taken'">\u202e${"long ".repeat(2000)}`;
export const HOSTILE_PROCESS = "<b id=taken>";

export async function free_port() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

function record(folder, name, options, server) {
  const made = spawnSync(WEIR, ["explain", "--run", join(folder, name), ...options, "--", ...server], { encoding: "utf8", cwd: folder });
  if (made.status !== 0) throw new Error(`weir explain ended with ${made.status}: ${made.stderr}`);
}

// Two runs of weir serve, one slower by TLS of many connections, and one of a process with a hostile name.
export async function recorded() {
  const folder = mkdtempSync(join(tmpdir(), "weir-console-"));
  const [site, runs] = [join(folder, "site"), join(folder, "runs")];
  mkdirSync(site);
  mkdirSync(runs);
  for (const [name, size] of [["index.html", 40], ["large.txt", 200_000]]) writeFileSync(join(site, name), "x".repeat(size));
  for (const [name, connections] of [["before", "2"], ["after", "32"]]) {
    const port = await free_port();
    record(runs, name, ["--load", `http://127.0.0.1:${port}/`, "-c", connections, "-d", "1500ms"], [WEIR, "serve", "--listen", `127.0.0.1:${port}`, site]);
  }
  const python = join(folder, HOSTILE_PROCESS);
  copyFileSync(realpathSync("/usr/bin/python3"), python);
  chmodSync(python, 0o755);
  const port = await free_port();
  const path = `/${encodeURIComponent("<script>")}/${"a".repeat(10_000)}`;
  record(runs, "named", ["--load", `http://127.0.0.1:${port}${path}`, "-c", "2", "-d", "1s"], [python, "-m", "http.server", "--bind", "127.0.0.1", "-d", site, String(port)]);
  const hostile = join(runs, HOSTILE);
  cpSync(join(runs, "named"), hostile, { recursive: true });
  const manifest = join(hostile, "manifest.jsonl");
  const lines = readFileSync(manifest, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
  for (const line of lines) if (line.entry === "source") line.command = [HOSTILE_COMMAND];
  writeFileSync(manifest, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return { folder, runs, hostile };
}

// A run of at least so many events and some more: it is made longer until it has them.
export async function long_run(events) {
  const folder = mkdtempSync(join(tmpdir(), "weir-console-"));
  const [site, runs] = [join(folder, "site"), join(folder, "runs")];
  mkdirSync(site);
  mkdirSync(runs);
  writeFileSync(join(site, "index.html"), "x".repeat(40));
  for (let seconds = 10; seconds <= 80; seconds *= 2) {
    const port = await free_port();
    rmSync(join(runs, "long"), { recursive: true, force: true });
    record(runs, "long", ["--load", `http://127.0.0.1:${port}/`, "-c", "10", "-d", `${seconds}s`], [WEIR, "serve", "--listen", `127.0.0.1:${port}`, site]);
    const lines = readFileSync(join(runs, "long", "manifest.jsonl"), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
    if (lines.reduce((sum, line) => sum + (line.entry === "segment" ? line.records : 0), 0) > 1.15 * events) return { folder, runs };
  }
  throw new Error(`no run of ${events} events could be made`);
}

// A running server that tells of itself at a socket in a folder of its own.
export function served(folder, ...options) {
  return served_at({ folder, admin: "unix:admin.sock", asked: { socketPath: join(folder, "admin.sock"), headers: { Host: "w" } } }, ...options);
}

// The same over TCP, with the token of the folder's file `token`; `within` is the address of its own console.
export async function served_over_tcp(folder, ...options) {
  const port = await free_port();
  const admin = `127.0.0.1:${port}`;
  const server = await served_at({ folder, admin, asked: { host: "127.0.0.1", port } }, "--admin-token", "token", ...options);
  return { ...server, admin, within: `http://${admin}/console/` };
}

async function served_at({ folder, admin, asked }, ...options) {
  const port = await free_port();
  const child = spawn(WEIR, ["serve", "--listen", `127.0.0.1:${port}`, "--admin", admin, ...options, "site"], { cwd: folder, stdio: "ignore" });
  const ended = new Promise((done) => child.once("exit", done));
  const answers = (options) => new Promise((done) => {
    const sent = request({ path: "/", ...options }, (answer) => done(answer.resume() !== null));
    sent.on("error", () => done(false));
    sent.end();
  });
  for (let tries = 0; !(await answers({ port, host: "127.0.0.1" })) || !(await answers(asked)); tries++) {
    if (tries > 600) throw new Error("weir serve does not answer");
    await new Promise((later) => setTimeout(later, 100));
  }
  const end = (signal = "SIGTERM") => {
    child.kill(signal);
    return ended;
  };
  return { port, origin: `http://127.0.0.1:${port}`, end };
}

// A running console.
export async function console_of(runs, ...options) {
  const child = spawn(WEIR, ["console", ...options, runs], { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise((done, failed) => {
    child.stdout.once("data", (bytes) => done(String(bytes)));
    child.once("exit", (code) => failed(new Error(`weir console ended with ${code}`)));
  });
  const address = line.split(" ").find((word) => word.startsWith("http://"));
  const { host, origin, pathname } = new URL(address);
  const end = () => new Promise((done) => {
    child.once("exit", (code) => done(code));
    child.kill("SIGINT");
  });
  return { address, host, origin, pathname, end };
}

export async function browser() {
  return chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
}

// A page that notes what it asks of others, and each error.
export async function page_of(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && !/status of 4\d\d/.test(message.text()) && faults.push(`told: ${message.text()}`));
  page.on("request", (request) => !request.url().startsWith(address) && !request.url().startsWith("data:") && faults.push(`asked of others: ${request.url()}`));
  return { page, faults, context };
}

export async function visit(page, address, hash) {
  await page.goto(`${address}#/runs`);
  await page.goto(`${address}${hash}`);
  await ready(page);
}

export async function ready(page) {
  await page.waitForFunction(() => document.body.dataset.ready === "true", null, { timeout: 120_000 });
  await page.waitForTimeout(50);
}
