// Pictures of the dashboard, on a cluster of its own with something to show. node e2e/pictures.mjs PROGRAM DIR makes those of the
// documents; with --all after it, every page in every size and colour scheme, and what axe finds there; with names after
// that, these pages and scenes alone.
import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openBrowser, signIn } from "./browser.mjs";
import { startFleet } from "./fleet.mjs";
import { lookAtAll, settled } from "./look.mjs";
import { scenes } from "./scenes.mjs";
import { asSession, ended, upload } from "./steps.mjs";

const [program = "bin/probity", out = "docs/img", mode, ...only] = process.argv.slice(2);

/** furnish makes what there is to see, and returns it. */
async function furnish(page, fleet) {
  const list = await fleet.list(20_000);
  const some = (n) => list.split("\n").slice(0, n + 1).join("\n");
  await asSession(page, "POST", "/v1/dash/keys", { name: "Web shop" });
  await asSession(page, "POST", "/v1/dash/keys", { name: "Staging", test: true });
  const users = [];
  for (const email of ["bo@example.com", "cleo@example.com"]) users.push((await asSession(page, "POST", "/v1/admin/users", { email, credits: 50 })).body);
  await asSession(page, "POST", "/v1/admin/suppressions", { name: "example.org", note: "asked by its postmaster" });
  // So much is asked in a minute here that the usual limit would show.
  const { user } = (await asSession(page, "GET", "/v1/dash/session")).body;
  await asSession(page, "PUT", `/v1/admin/users/${user.id}/limits`, { single_per_minute: 120 });
  const job = await upload(page, "Spring customers", list);
  const fair = await upload(page, "Trade fair", some(700), { callback_url: "https://receiver.invalid/hook" });
  await ended(page, fair);
  await ended(page, job);
  const paused = await upload(page, "Newsletter", await fleet.list(60_000));
  const addresses = [...list.matchAll(/[^,"\s]+@[^,"\s]+/g)].map((m) => m[0]).slice(0, 20);
  for (const email of [...addresses, ...(await fleet.refused(list))]) {
    await asSession(page, "POST", "/v1/verify/single", { email, details: true });
  }
  await asSession(page, "POST", `/v1/verify/bulk/${paused}/pause`);
  return { list: some(2000), job, fair, paused, bo: users[0] };
}

/** pictures are those of the documents: their names, the scenes or pages that they are of, how light these are, and
 * where they begin, if not at the top. */
const pictures = (at, named) => [
  ["overview", at(""), "light"],
  ["verify", named("verify-answer"), "light"],
  ["upload", named("lists-preview"), "light"],
  ["job", named("job"), "light"],
  ["job-receivers", at(`lists/${named.things.job}?tab=receivers`), "light", "[role=tablist]"],
  ["job-paused", named("job-paused"), "dark"],
  ["callback", named("job-callback"), "light", "[role=tablist]"],
  ["logs", at("logs?tab=verifications"), "light"],
  ["usage", at("settings/usage"), "light"],
  ["operations", at("operator"), "light"],
  ["cluster", at("operator/cluster"), "dark"],
  ["docs", async (page) => {
      await page.goto(`${named.base}/docs#tag/verify/POST/v1/verify/single`);
      await page.getByRole("heading", { name: "Verify one address" }).first().waitFor();
      await page.waitForLoadState("networkidle");
    }, "light"],
];

const most = 150_000; // bytes of a picture: it is downloaded with every copy of the project

async function draw(page, base, things) {
  const all = new Map(scenes(base, things));
  const named = Object.assign((name) => all.get(name), { base, things });
  const at = (place) => (page) => page.goto(`${base}/app/${place}`);
  await page.setViewportSize({ width: 1100, height: 780 });
  for (const [name, show, colorScheme, from] of pictures(at, named)) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.goto("about:blank");
    await show(page);
    await page.locator("h1").first().waitFor();
    await settled(page);
    await page.mouse.move(0, 0);
    // The head of the page stays above what is scrolled to.
    if (from) await page.locator(from).evaluate((e) => scrollTo({ top: e.getBoundingClientRect().top + scrollY - 80, behavior: "instant" }));
    const path = join(out, name + ".png");
    await page.screenshot({ path });
    const { size } = await stat(path);
    if (size > most) throw new Error(`${path} has ${size} bytes; ${most} are the most`);
  }
}

const dir = await mkdtemp(join(tmpdir(), "probity-picture-"));
const fleet = await startFleet(resolve(program), dir, []);
const { context, close } = await openBrowser();
try {
  await mkdir(out, { recursive: true });
  const page = context.pages()[0];
  context.setDefaultTimeout(120_000);
  await signIn(page, fleet.base, fleet.email, fleet.password);
  const things = await furnish(page, fleet);
  if (mode === "--all") process.exitCode = (await lookAtAll(page, fleet.base, out, scenes(fleet.base, things), only)) === 0 ? 0 : 1;
  else {
    await page.goto(`${fleet.base}/app/operator`);
    await page.getByRole("img", { name: /^Answers in the last 24 hours: [1-9]/ }).waitFor();
    await draw(page, fleet.base, things);
  }
} finally {
  await close();
  await fleet.stop();
  await rm(dir, { recursive: true, force: true });
}
