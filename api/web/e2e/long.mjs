// A very long list from the browser: what the page's processes hold in memory while it is sent, whether the progress is true, and
// what is seen after a reload. node e2e/long.mjs PROGRAM [ROWS]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { openBrowser, signIn } from "./browser.mjs";
import { startFleet } from "./fleet.mjs";
import { asSession, nav } from "./steps.mjs";

const [program = "bin/probity", rows = "5000000"] = process.argv.slice(2);
const mb = (n) => `${Math.round(n / 1e6)} MB`;

/** memory samples the browser's processes until it is told to stop; it returns the most of each kind, and what they had at first. */
function memory(context, page) {
  const most = {};
  let first;
  let on = true;
  const loop = (async () => {
    const whole = await context.browser()?.newBrowserCDPSession();
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable");
    while (on) {
      const now = {};
      const { metrics } = await session.send("Performance.getMetrics").catch(() => ({ metrics: [] }));
      now["JS heap"] = metrics.find((m) => m.name === "JSHeapUsedSize")?.value ?? 0;
      for (const { type, id } of (await whole.send("SystemInfo.getProcessInfo")).processInfo) {
        const rss = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${id}/status`, "utf8").catch(() => ""))?.[1] ?? 0;
        now[type] = Math.max(now[type] ?? 0, rss * 1024);
      }
      first ??= now;
      for (const [k, v] of Object.entries(now)) most[k] = Math.max(most[k] ?? 0, v);
      await new Promise((done) => setTimeout(done, 200));
    }
  })();
  return async () => {
    on = false;
    await loop;
    return { first, most };
  };
}

/** follow notes the progress bar until it has gone. */
async function follow(page, until) {
  const seen = [];
  const bar = page.getByRole("progressbar", { name: /^Upload of/ });
  for (;;) {
    const text = await bar.getAttribute("aria-valuetext", { timeout: 1000 }).catch(() => null);
    if (text === null ? seen.length > 0 : until(text)) return seen;
    if (text === null) continue;
    const percent = Number(/^(\d+) %/.exec(text)?.[1] ?? 100);
    if (percent !== seen.at(-1)) seen.push(percent);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const dir = await mkdtemp(join(tmpdir(), "probity-long-"));
const file = join(dir, "long.csv");
const list = spawn(resolve(program), ["sim", "list", "--rows", rows], { stdio: ["ignore", "pipe", "inherit"] });
await pipeline(list.stdout, createWriteStream(file));
await mkdir(join(dir, "fleet"));
const { size } = await stat(file);
const fleet = await startFleet(resolve(program), join(dir, "fleet"), [], ["--initial-credits", "20000000"]);
const { context, close } = await openBrowser();
try {
  context.setDefaultTimeout(300_000);
  const page = context.pages()[0];
  await signIn(page, fleet.base, fleet.email, fleet.password);
  await nav(page, "Jobs");
  const stop = memory(context, page);
  let began = Date.now();
  await page.locator("input[type=file]").setInputFiles(file);
  await page.getByRole("region", { name: "First rows of the list" }).waitFor();
  console.log(`${rows} rows, ${mb(size)}: looked at in ${Date.now() - began} ms`);

  const cdp = await context.newCDPSession(page);
  const pace = (bytes) => cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
  await cdp.send("Network.enable");
  await pace(size / 10); // a second
  page.once("dialog", (d) => d.accept());
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  await follow(page, (text) => Number(/^(\d+) %/.exec(text)?.[1]) >= 30);
  await page.reload();
  await pace(-1);
  await cdp.detach();
  const words = await page.getByText(/Upload interrupted at \d+ %|The upload had finished/).textContent();
  console.log(`reloaded: "${words}"`);
  assert.equal((await asSession(page, "GET", "/v1/verify/bulk")).body.jobs.length, 0, "nothing was kept");

  began = Date.now();
  await page.getByLabel(/^The file .* again$/).setInputFiles(file);
  const seen = await follow(page, (text) => !/%$/.test(text));
  const sent = Date.now() - began;
  assert.deepEqual(seen, seen.toSorted((a, b) => a - b), "progress never runs back");
  await page.getByRole("link", { name: "Open the job" }).click();
  console.log(`sent in ${sent} ms with ${seen.length} steps of progress, accepted after ${Date.now() - began} ms`);
  const { first, most } = await stop();
  for (const kind of Object.keys(most)) console.log(`memory, ${kind}: ${mb(first[kind] ?? 0)} at first, ${mb(most[kind])} at most`);
  assert.ok(most["JS heap"] < 64e6 && most.renderer - first.renderer < 200e6 && most.browser - first.browser < 200e6, "the list is not held in memory");

  await page.reload();
  await page.getByText(/of 5,000,000 rows|rows/).first().waitFor();
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("button", { name: "Cancel" }).first().waitFor();
  const id = page.url().split("/").at(-1);
  const job = (await asSession(page, "GET", `/v1/verify/bulk/${id}`)).body;
  console.log(`after another reload its page shows the job, which is ${job.status}: ${job.total_rows} rows, ${job.unique_addresses} distinct addresses`);
  assert.equal(job.total_rows, Number(rows));
} finally {
  await close();
  await fleet.stop();
  await rm(dir, { recursive: true, force: true });
}
