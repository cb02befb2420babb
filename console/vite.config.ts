// Three files of fixed names, so that the program can hold them, and the same bytes for the same sources.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { digest } from "./sources.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

// The licence of the library that is part of the bundle asks to come along with it.
const licence = readFileSync(fileURLToPath(new URL("node_modules/uplot/LICENSE", import.meta.url)), "utf8").trim();

export default defineConfig({
  base: "./",
  esbuild: { legalComments: "inline" },
  build: {
    target: "es2022",
    outDir: process.env["CONSOLE_OUT"] ?? "dist",
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: { entryFileNames: "console.js", assetFileNames: "console.[ext]", inlineDynamicImports: true, banner: `/*! Holds uPlot.\n${licence}\n*/` },
    },
  },
  plugins: [{ name: "sources", transformIndexHtml: (html) => html.replace("{SOURCES}", digest(root)) }],
});
