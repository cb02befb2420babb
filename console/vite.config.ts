// Three files of fixed names, so that the program can hold them, and the same bytes for the same sources.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { digest } from "./sources.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

export default defineConfig({
  base: "./",
  build: {
    target: "es2022",
    outDir: process.env["CONSOLE_OUT"] ?? "dist",
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: { entryFileNames: "console.js", assetFileNames: "console.[ext]", inlineDynamicImports: true },
    },
  },
  plugins: [{ name: "sources", transformIndexHtml: (html) => html.replace("{SOURCES}", digest(root)) }],
});
