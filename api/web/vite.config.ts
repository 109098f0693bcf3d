import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The server serves /assets/ with names that change with their content, and index.html with a nonce of its own.
// What stands in dist beside them (the fallback page) is not ours to delete: build.sh clears what we made before.
// The pages of the dashboard load two scripts first: early, which is small and fetches what the page at this address needs, and base,
// which has all that any page needs. The API's reference is a build of its own, as it shares nothing with them.
const dashboard = {
  input: "index.html",
  output: {
    codeSplitting: {
      groups: [
        { name: "early", test: /src.(early|routes)\.ts|preload-helper|rolldown.runtime/, priority: 1 },
        { name: "base", tags: ["$initial" as const] },
      ],
    },
  },
};

export default defineConfig(({ mode }) => ({
  plugins: [react()],
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
