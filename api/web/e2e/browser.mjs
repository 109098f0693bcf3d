import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

// Where Debian and its kin, and others, keep the browsers. E2E_BROWSER=firefox asks for Firefox, which is driven over WebDriver BiDi.
const places = {
  chromium: [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"],
  firefox: [process.env.FIREFOX, "/usr/bin/firefox-esr"],
};
/** kind is which of them is driven. */
export const kind = process.env.E2E_BROWSER === "firefox" ? "firefox" : "chromium";

/** findBrowser is the path of a browser on this machine; undefined where there is none. */
export function findBrowser() {
  return places[kind].find((p) => p && existsSync(p));
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
  const playwright = await import("playwright-core");
  const profile = await mkdtemp(join(tmpdir(), "probity-browser-"));
  const own = kind === "firefox" ? { channel: "moz-firefox" } : { chromiumSandbox: false, args: flags };
  const context = await playwright[kind].launchPersistentContext(profile, {
    ...own,
    executablePath: findBrowser(),
    headless: true,
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

/** signIn signs a page in. It types key by key: what Playwright fills in at once in Firefox is not noticed by React. */
export async function signIn(page, base, email, password) {
  await page.goto(base + "/");
  await page.getByLabel("E-mail address").pressSequentially(email);
  await page.locator("input[type=password]").pressSequentially(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}
