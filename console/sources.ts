// A digest of what the page is built from, by which a test of the program tells a stale bundle without Node.

import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

const FOLDERS = ["console/src", "crates/cli/src/view"];
const FILES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "sources.ts"];
const ENDS = [".ts", ".css", ".js"];

// FNV-1a of 64 bits over names and contents, each followed by a zero.
export function digest(root: string): string {
  const files = FOLDERS.flatMap((folder) => below(join(root, folder))).filter((file) => ENDS.some((end) => file.endsWith(end)));
  files.push(...FILES.map((file) => join(root, "console", file)));
  const named = files.map((file): [string, string] => [relative(root, file).split(sep).join("/"), file]);
  named.sort(([a], [b]) => (a < b ? -1 : 1));
  let [high, low] = [0xcbf29ce4, 0x84222325];
  for (const [name, file] of named) {
    for (const bytes of [Buffer.from(`${name}\0`), readFileSync(file), Buffer.from("\0")]) {
      for (const byte of bytes) {
        low = (low ^ byte) >>> 0;
        // Times 2^40 + 0x1b3, in halves that numbers hold exactly.
        const product = low * 0x1b3;
        high = (high * 0x1b3 + (low << 8 >>> 0) + Math.floor(product / 2 ** 32)) % 2 ** 32;
        low = product % 2 ** 32;
      }
    }
  }
  const hex = (number: number) => number.toString(16).padStart(8, "0");
  return hex(high) + hex(low);
}

function below(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.flatMap((entry) => (entry.isDirectory() ? below(join(folder, entry.name)) : [join(folder, entry.name)]));
}
