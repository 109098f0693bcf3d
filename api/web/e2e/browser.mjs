import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

// Where Debian and its kin, and others, keep the browser.
const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** findBrowser is the path of a browser on this machine; undefined where there is none. */
export function findBrowser() {
  return places.find((p) => p && existsSync(p));
}

const flags = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

/** openBrowser starts a browser that knows nothing and talks to nobody but us; close it with the function beside it. */
export async function openBrowser() {
  const { chromium } = await import("playwright-core");
  const profile = await mkdtemp(join(tmpdir(), "probity-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: findBrowser(),
    headless: true,
    chromiumSandbox: false,
    args: flags,
    acceptDownloads: true,
    viewport: { width: 1280, height: 800 },
  });
  return {
    context,
    async close() {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

/** signIn signs a page in. */
export async function signIn(page, base, email, password) {
  await page.goto(base + "/");
  await page.getByLabel("E-mail address").fill(email);
  await page.locator("input[type=password]").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}
