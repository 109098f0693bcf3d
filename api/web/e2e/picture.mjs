// Pictures of the dashboard, on a cluster of its own with something to show. node e2e/picture.mjs PROGRAM DIR makes the two of
// the documents; with --all after it, every page in every size and colour scheme, and what axe finds there; with names after
// that, these pages and scenes alone.
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openBrowser, signIn } from "./browser.mjs";
import { startFleet } from "./fleet.mjs";
import { lookAtAll, settled } from "./look.mjs";
import { scenes } from "./scenes.mjs";
import { asSession, heading } from "./steps.mjs";

const [program = "bin/probity", out = "docs/img", mode, ...only] = process.argv.slice(2);

/** upload sends a list as the page would. */
async function upload(page, name, text, more = {}) {
  return page.evaluate(
    async ({ name, text, more }) => {
      const { csrf_token } = await (await fetch("/v1/dash/session")).json();
      const form = new FormData();
      form.set("name", name);
      for (const [k, v] of Object.entries(more)) form.set(k, v);
      form.set("file", new File([text], name.toLowerCase().replaceAll(" ", "-") + ".csv"));
      const r = await fetch("/v1/verify/bulk", { method: "POST", headers: { "X-CSRF-Token": csrf_token }, body: form });
      return (await r.json()).job_id;
    },
    { name, text, more },
  );
}

/** ended waits for the end of a job. */
async function ended(page, id) {
  for (;;) {
    const { status } = (await asSession(page, "GET", `/v1/verify/bulk/${id}?wait=20`)).body;
    if (["completed", "cancelled", "failed"].includes(status)) return;
  }
}

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
    await page.setViewportSize({ width: 1200, height: 940 });
    for (const [name, place, title, colorScheme] of [
      ["job", `lists/${things.job}`, "Spring customers", "light"],
      ["cluster", "operator/cluster", "Cluster", "dark"],
    ]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.goto(`${fleet.base}/app/${place}`);
      await heading(page, title);
      await settled(page);
      await page.mouse.move(0, 0);
      await page.screenshot({ path: join(out, name + ".png") });
    }
  }
} finally {
  await close();
  await fleet.stop();
  await rm(dir, { recursive: true, force: true });
}
