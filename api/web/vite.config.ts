import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** early puts the script of early.ts before all others, so that it runs as soon as it is there. */
const early: Plugin = {
  name: "early",
  transformIndexHtml: {
    order: "post",
    handler(_, { bundle }) {
      const chunk = Object.values(bundle ?? {}).find((c) => c.name === "early");
      return chunk && [{ tag: "script", attrs: { type: "module", async: true, crossorigin: true, src: `/${chunk.fileName}` }, injectTo: "head" }];
    },
  },
};

// A page of the dashboard loads two scripts first: early.ts, which is small and fetches what the page at this address begins with, and
// all that any page needs. The API's reference is a build of its own, as it shares nothing with them.
const dashboard = {
  input: "index.html",
  output: {
    codeSplitting: {
      groups: [
        { name: "early", test: /src.(early|routes|api.tabs)\.ts|preload-helper|rolldown.runtime/, priority: 1 },
        { name: "base", tags: ["$initial" as const] },
        { name: "hooks", test: /@mantine.hooks/ },
      ],
    },
  },
};

// The server serves /assets/ with names that change with their content, and index.html with a nonce of its own.
// What stands in dist beside them (the fallback page) is not ours to delete: build.sh clears what we made before.
export default defineConfig(({ mode }) => ({
  plugins: [react(), early],
  build: {
    outDir: "dist",
    emptyOutDir: false,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1600,
    rolldownOptions: mode === "docs" ? { input: "docs.html" } : dashboard,
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    alias: { "tus-js-client": "tus-js-client/lib.es5/browser/index.js" }, // as browsers get it, not Node
  },
}));
