// The dashboard in a real browser, on a real server, before a pretend mail internet: what customers and operators do, from
// signing in to signing out. node e2e/run.mjs [PROGRAM]; it is skipped, with the reason, where something is missing.
import assert from "node:assert/strict";
import { spawn, execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { findBrowser, openBrowser, signIn } from "./browser.mjs";
import { findings, overflow, settled } from "./look.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const program = resolve(process.argv[2] ?? join(here, "../../../bin/probity"));
const rows = 20_000;

function skip(why) {
  console.log(`dashboard test skipped: ${why}`);
  process.exit(0);
}

if (!findBrowser()) skip("there is no chromium on this machine (Debian: apt-get install chromium)");
if (!existsSync(program)) skip("the program is not built (make build)");
if (!existsSync(join(here, "../dist/index.html"))) skip("the dashboard is not built (make web build)");

/** startServer runs a demo of its own and tells where it is and who may sign in. Its internet takes one port for UDP and TCP,
 * which another program may have for one of them: then it is begun again. */
async function startServer(dir) {
  for (let tries = 1; ; tries++) {
    try {
      return await startOnce(dir);
    } catch (e) {
      if (tries === 5 || !e.message.includes("address already in use")) throw e;
    }
  }
}

async function startOnce(dir) {
  const server = spawn(program, ["demo", "--rows", "300", "--dir", join(dir, "demo"), "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  await new Promise((up, down) => {
    server.stderr.on("data", (b) => {
      said += b;
      if (said.includes("Everything stays up")) up();
    });
    server.on("exit", (code) => down(new Error(`the server ended with ${code}: ${said}`)));
    setTimeout(() => down(new Error(`the server is not up after a minute: ${said}`)), 60_000).unref();
  });
  const [, base, key, email, password] = /API is at (\S+): key (\S+), login (\S+), password (\S+?)\.\n/.exec(said);
  return { server, base, key, email, password };
}

async function stopServer(server) {
  server.removeAllListeners("exit");
  if (server.exitCode !== null) return;
  const ended = new Promise((done) => server.once("exit", done));
  server.kill("SIGTERM");
  await ended;
}

const steps = [];
const step = (name, run) => steps.push([name, run]);
const bearer = (key) => ({ headers: { Authorization: `Bearer ${key}` } });
const nav = (page, name) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
const heading = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();

step("a wrong password is refused in words", async ({ page, base, email }) => {
  await page.goto(base + "/app/lists");
  await page.getByLabel("E-mail address").fill(email);
  await page.locator("input[type=password]").fill("not the password");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("The e-mail address or the password is wrong").waitFor();
});

step("signing in leads where the link led", async ({ page, password }) => {
  await page.locator("input[type=password]").fill(password);
  await page.keyboard.press("Enter");
  await heading(page, "Lists");
});

step("an operator makes a customer", async (t) => {
  const { page } = t;
  await nav(page, "Users");
  await page.getByRole("button", { name: "Add a user" }).click();
  await page.getByRole("dialog").getByLabel("E-mail address").fill("cleo@customer.example");
  await page.getByRole("dialog").getByLabel("First credits").fill("50000");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  t.customer = { email: "cleo@customer.example", password: await page.locator("[role=dialog] pre").textContent() };
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("cell", { name: "cleo@customer.example", exact: true }).waitFor();
});

step("signing out ends the session, in the interface as well", async ({ page, base }) => {
  const cookies = (await page.context().cookies()).map((c) => `${c.name}=${c.value}`).join("; ");
  assert.ok((await page.context().cookies()).every((c) => c.httpOnly && c.sameSite === "Strict"));
  await page.getByRole("button", { name: /^Account/ }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await heading(page, "Sign in");
  assert.equal((await fetch(base + "/v1/dash/session", { headers: { Cookie: cookies } })).status, 401);
});

step("a customer signs in, by keyboard alone", async ({ page, base, customer }) => {
  await page.goto(base + "/");
  await page.getByLabel("E-mail address").waitFor();
  await page.keyboard.type(customer.email);
  await page.keyboard.press("Tab");
  await page.keyboard.type(customer.password);
  await page.keyboard.press("Enter");
  await heading(page, "Overview");
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");
});

step("a customer can reach no operator page", async ({ page, base }) => {
  assert.equal(await page.getByRole("link", { name: "Users" }).count(), 0);
  await page.goto(base + "/app/operator/users");
  await page.getByText("Only an admin may open this page").waitFor();
  for (const path of ["/v1/admin/users", "/v1/dash/admin/jobs", "/v1/dash/admin/node", "/v1/dash/admin/probes"]) {
    assert.equal(await page.evaluate((p) => fetch(p).then((r) => r.status), path), 403, path);
  }
});

step("a customer can see no other's job", async ({ page, base, key }) => {
  const { jobs } = await (await fetch(base + "/v1/verify/bulk", bearer(key))).json();
  await page.goto(`${base}/app/lists/${jobs[0].job_id}`);
  await page.getByText("There is no such job").waitFor();
  for (const path of [`/v1/verify/bulk/${jobs[0].job_id}/results`, `/v1/dash/jobs/${jobs[0].job_id}/rows`]) {
    assert.equal(await page.evaluate((p) => fetch(p).then((r) => r.status), path), 404, path);
  }
});

step("another page cannot make the browser change anything", async ({ page }) => {
  assert.equal(await page.evaluate(() => fetch("/v1/dash/logout", { method: "POST" }).then((r) => r.status)), 403);
});

step("a key is made, shown once, and works", async (t) => {
  const { page, base } = t;
  await nav(page, "API keys");
  await page.getByRole("button", { name: "Create a key" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("shop");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  t.live = await page.locator("[role=dialog] pre").textContent();
  assert.match(t.live, /^prb_live_[0-9A-Za-z]{38}$/);
  await page.getByRole("button", { name: "I have it" }).click();
  await page.getByRole("cell", { name: "shop", exact: true }).waitFor();
  assert.ok(!(await page.content()).includes(t.live), "it is shown once");
  const { balance } = await (await fetch(base + "/v1/credits", bearer(t.live))).json();
  assert.equal(balance, 50_000);
});

step("one address is verified, with its evidence", async ({ page, list }) => {
  const address = list.split("\n")[1].match(/[^,"\s]+@[^,"\s]+/)[0];
  await nav(page, "Verify one");
  await page.getByLabel("E-mail address").fill(address);
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await page.getByRole("heading", { name: "Evidence" }).waitFor({ timeout: 30_000 });
  assert.equal(JSON.parse(await page.getByLabel("The answer as JSON").textContent()).email, address);
  await page.getByLabel("The call as a curl command").getByText("/v1/verify/single").waitFor();
});

step("dialogs and answers are right for axe too", async ({ page, base }) => {
  assert.deepEqual(await findings(page), [], "a verdict");
  await page.goto(base + "/app/settings/keys");
  await page.getByRole("button", { name: "Create a key" }).click();
  await page.getByRole("dialog").getByLabel("Name").waitFor();
  await page.waitForTimeout(400); // until it has faded in: half of a fade has half of the contrast
  assert.deepEqual(await findings(page), [], "a dialog");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Create a key", "the focus is where it was");
});

step("a list is shown before it is sent", async ({ page, file }) => {
  await nav(page, "Lists");
  await page.locator("input[type=file]").setInputFiles(file);
  await page.getByRole("region", { name: "First rows of the list" }).waitFor();
  await page.getByText(`${rows.toLocaleString("en-US")} rows`).waitFor();
});

step("an upload goes on while other pages are looked at", async ({ page, file }) => {
  const cdp = await page.context().newCDPSession(page);
  const size = (await readFile(file)).length;
  await cdp.send("Network.enable");
  await cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: size / 5 });
  await page.getByRole("button", { name: "Upload and verify" }).click();
  const bar = page.getByRole("progressbar", { name: /^Upload of/ });
  await bar.waitFor();
  await nav(page, "Docs");
  await heading(page, "Docs");
  assert.ok(await bar.isVisible(), "progress is shown on another page");
  await nav(page, "Overview");
  await page.getByRole("link", { name: "Open the job" }).waitFor({ timeout: 60_000 });
  await cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
});

step("the job is followed to its end without reloading", async (t) => {
  const { page } = t;
  await page.getByRole("link", { name: "Open the job" }).click();
  await page.getByText("completed", { exact: true }).waitFor({ timeout: 120_000 });
  t.job = page.url().split("/").at(-1);
  await page.getByRole("button", { name: /Close the note/ }).click();
});

step("downloads are the interface's bytes", async ({ page, base, live, job }) => {
  const digest = (b) => createHash("sha256").update(b).digest("hex");
  for (const [name, query] of [
    ["Everything", ""],
    ["Safe to send", "?status=VALID"],
    ["Undeliverable", "?status=INVALID"],
  ]) {
    const coming = page.waitForEvent("download");
    await page.getByRole("link", { name: new RegExp(`^${name}`) }).click();
    const got = await readFile(await (await coming).path());
    const want = Buffer.from(await (await fetch(`${base}/v1/verify/bulk/${job}/results${query}`, bearer(live))).arrayBuffer());
    assert.equal(digest(got), digest(want), name);
    if (!query) assert.equal(got.toString().trimEnd().split("\n").length >= rows + 1, true);
  }
});

step("rows are looked up", async ({ page }) => {
  await page.getByLabel("Letters of the address").fill("gmail.com");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.getByRole("region", { name: "Rows found" }).getByText("gmail.com").first().waitFor();
});

step("nothing on the pages is wrong for axe, or too wide", async ({ page, base, job }) => {
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      for (const place of ["", `lists/${job}`, "lists", "verify", "docs", "settings/keys", "settings/callbacks", "settings/usage", "settings/account"]) {
        await page.goto(`${base}/app/${place}`);
        await page.locator("h1").waitFor();
        await settled(page);
        assert.deepEqual(await findings(page), [], `${place} ${width} ${scheme}`);
        assert.equal(await overflow(page), 0, `${place} ${width} is too wide`);
      }
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
});

step("the first load is small and quick", async ({ page, base }) => {
  await page.goto("about:blank");
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
  let bytes = 0;
  let requests = 0;
  const charts = [];
  const names = new Map();
  cdp.on("Network.requestWillBeSent", (e) => names.set(e.requestId, e.request.url));
  cdp.on("Network.loadingFinished", (e) => {
    const url = names.get(e.requestId) ?? "";
    if (/DayBars|Donut|Chart/.test(url)) charts.push(url);
    else {
      bytes += e.encodedDataLength;
      requests++;
    }
  });
  const begun = Date.now();
  await page.goto(base + "/app/settings/keys");
  await heading(page, "API keys");
  const took = Date.now() - begun;
  await settled(page);
  console.log(`    ${requests} requests, ${Math.round(bytes / 1000)} KB, ${took} ms to the page`);
  assert.ok(bytes < 250_000, `${bytes} bytes`);
  assert.equal(charts.length, 0, "charts are loaded where there are some");
  assert.ok(requests < 40, `${requests} requests`);
  assert.ok(took < 10_000, `${took} ms`);
  await cdp.detach();
});

step("a revoked key is refused at once", async ({ page, base, live }) => {
  await page.getByRole("button", { name: "Revoke shop" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke shop" }).click();
  await page.getByText("No keys yet").waitFor();
  assert.equal((await fetch(base + "/v1/credits", bearer(live))).status, 401);
});

step("a session that ends elsewhere ends the page", async ({ page, base, customer }) => {
  const login = await fetch(base + "/v1/dash/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(customer) });
  const visit = await login.json();
  const cookie = login.headers.get("set-cookie").split(";")[0];
  const ended = await fetch(base + "/v1/dash/sessions", { method: "DELETE", headers: { Cookie: cookie, "X-CSRF-Token": visit.csrf_token } });
  assert.equal(ended.status, 204);
  await page.getByText("Your session has ended").waitFor({ timeout: 20_000 });
});

step("an operator sees probes and jobs of all, and nobody's rows", async ({ page, base, email, password, job }) => {
  await signIn(page, base, email, password);
  await nav(page, "Probes");
  await page.getByRole("region", { name: "Recent probes" }).waitFor();
  await nav(page, "Jobs of all");
  await page.getByRole("cell", { name: "cleo@customer.example", exact: true }).first().waitFor();
  assert.equal(await page.evaluate((id) => fetch(`/v1/verify/bulk/${id}/results`).then((r) => r.status), job), 404);
  await nav(page, "Cluster");
  await page.getByText("Outcomes of probes").waitFor();
  await nav(page, "Providers");
  await page.getByLabel("Find a provider").fill("google");
  await page.getByRole("cell", { name: "Google", exact: true }).waitFor();
});

const dir = await mkdtemp(join(tmpdir(), "probity-dashboard-"));
let up;
let browser;
try {
  up = await startServer(dir);
  const { stdout: list } = await promisify(execFile)(program, ["sim", "list", "--rows", String(rows), "--seed", "7"], { maxBuffer: 64 << 20 });
  const file = join(dir, "list.csv");
  await writeFile(file, list);
  browser = await openBrowser();
  const page = browser.context.pages()[0];
  page.setDefaultTimeout(20_000);
  const broken = [];
  page.on("pageerror", (e) => broken.push(e.message));
  page.on("console", (m) => /Content Security Policy/.test(m.text()) && broken.push(m.text()));
  const t = { ...up, page, list, file };
  for (const [name, run] of steps) {
    const begun = Date.now();
    try {
      await run(t);
    } catch (e) {
      await page.screenshot({ path: join(here, "failed.png") }).catch(() => {});
      throw new Error(`${name}: ${e.message} (at ${page.url()}; see e2e/failed.png)`, { cause: e });
    }
    console.log(`ok  ${name} (${Date.now() - begun} ms)`);
  }
  assert.deepEqual(broken, [], "the pages threw nothing, and asked for nothing that their policy forbids");
} finally {
  await browser?.close();
  if (up) await stopServer(up.server);
  await rm(dir, { recursive: true, force: true });
}
