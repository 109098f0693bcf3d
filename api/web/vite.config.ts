import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The server serves /assets/ with names that change with their content, and index.html with a nonce of its own.
// What stands in dist beside them (the fallback page) is not ours to delete: build.sh clears what we made before.
export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "dist",
    emptyOutDir: false,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1600,
    rolldownOptions: { input: ["index.html", "docs.html"] },
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    alias: { "tus-js-client": "tus-js-client/lib.es5/browser/index.js" }, // as browsers get it, not Node
  },
});
