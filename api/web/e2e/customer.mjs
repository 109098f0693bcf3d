// What a customer does, from signing in to a revoked key.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { findings, settled } from "./look.mjs";
import { asSession, bearer, ended, heading, nav, rows, signOut, statusOf, sweep, upload } from "./steps.mjs";

const operatorPaths = ["/v1/admin/users", "/v1/admin/cluster", "/v1/dash/admin/jobs", "/v1/dash/admin/node", "/v1/dash/admin/activity", "/v1/dash/admin/probes", "/v1/dash/admin/ready-queues", "/v1/dash/admin/providers"];

/** customer adds its steps; t has what earlier ones found. */
export function customer(step) {
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
    await heading(page, "Jobs");
  });

  step("an operator makes a customer", async (t) => {
    const { page } = t;
    await nav(page, "Users");
    await page.getByRole("button", { name: "Add a user" }).click();
    await page.getByRole("dialog").getByLabel("E-mail address").fill("cleo@customer.example");
    await page.getByRole("dialog").getByLabel("Starting credits").fill("50000");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    t.customer = { email: "cleo@customer.example", password: await page.locator("[role=dialog] pre").textContent() };
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("cell", { name: "cleo@customer.example", exact: true }).waitFor();
  });

  step("an operator has a list and a key of its own", async (t) => {
    const made = await asSession(t.page, "POST", "/v1/dash/keys", { name: "operator" });
    assert.equal(made.status, 201);
    const form = new FormData();
    form.set("file", new Blob([t.list.split("\n").slice(0, 51).join("\n")]), "operator.csv");
    const sent = await fetch(t.base + "/v1/verify/bulk", { method: "POST", body: form, ...bearer(made.body.key) });
    assert.equal(sent.status, 202);
    t.operatorJob = (await sent.json()).job_id;
  });

  step("signing out ends the session, in the API as well", async ({ page, base }) => {
    const cookies = await page.context().cookies();
    assert.ok(cookies.every((c) => c.httpOnly && c.sameSite === "Strict"));
    await signOut(page);
    const Cookie = cookies.map((c) => `${c.name}=${c.value}`).join("; ");
    assert.equal((await fetch(base + "/v1/dash/session", { headers: { Cookie } })).status, 401);
  });

  step("a customer signs in, by keyboard alone", async ({ page, base, customer }) => {
    await page.goto(base + "/");
    await page.getByLabel("E-mail address").waitFor();
    await page.keyboard.type(customer.email);
    await page.keyboard.press("Tab");
    await page.keyboard.type(customer.password);
    await page.keyboard.press("Enter");
    await heading(page, "Overview");
    await page.waitForFunction(() => document.activeElement?.tagName === "H1");
  });

  step("a customer can reach no operator page", async ({ page, base }) => {
    assert.equal(await page.getByRole("link", { name: "Users" }).count(), 0);
    await page.goto(base + "/app/operator/users");
    await page.getByText("Admins only").waitFor();
    for (const path of operatorPaths) assert.equal(await statusOf(page, path), 403, path);
    for (const path of ["/v1/dash/admin/quarantines/end", "/v1/dash/admin/traces"]) assert.equal((await asSession(page, "POST", path, { node: "p1", egress: "x" })).status, 403, path);
  });

  step("a customer can see no other's job", async ({ page, base, operatorJob }) => {
    await page.goto(`${base}/app/lists/${operatorJob}`);
    await page.getByText("Job not found").waitFor();
    const job = `/v1/verify/bulk/${operatorJob}`;
    for (const path of [job, `${job}/results`, `${job}/callback`, `/v1/dash/jobs/${operatorJob}/rows`, `/v1/dash/jobs/${operatorJob}/providers`]) {
      assert.equal(await statusOf(page, path), 404, path);
    }
    for (const act of ["pause", "resume", "cancel"]) assert.equal((await asSession(page, "POST", `${job}/${act}`)).status, 404, act);
    assert.equal((await asSession(page, "DELETE", job)).status, 404);
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
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("cell", { name: "shop", exact: true }).waitFor();
    assert.ok(!(await page.content()).includes(t.live), "it is shown once");
    const { balance } = await (await fetch(base + "/v1/credits", bearer(t.live))).json();
    assert.equal(balance, 50_000);
  });

  step("a customer's key opens no more than its session", async ({ base, live, operatorJob }) => {
    for (const path of ["/v1/admin/users", "/v1/admin/cluster", "/v1/admin/suppressions", ...operatorPaths.filter((p) => p.startsWith("/v1/dash"))])
      assert.equal((await fetch(base + path, bearer(live))).status, 403, path);
    assert.equal((await fetch(`${base}/v1/verify/bulk/${operatorJob}`, bearer(live))).status, 404);
    assert.equal((await fetch(`${base}/v1/verify/bulk/${operatorJob}/results`, bearer(live))).status, 404);
  });

  step("one address is verified, with its evidence", async ({ page, list }) => {
    const address = list.split("\n")[1].match(/[^,"\s]+@[^,"\s]+/)[0];
    await nav(page, "Verify an address");
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
    await page.waitForFunction(() => document.activeElement?.textContent === "Create a key"); // the focus goes back to where it was
  });

  step("a list is shown before it is sent", async ({ page, file }) => {
    await nav(page, "Jobs");
    await page.locator("input[type=file]").setInputFiles(file);
    await page.getByRole("region", { name: "First rows of the list" }).waitFor();
  });

  step("a page that is reloaded in mid-upload says what became of it", async ({ page, base, file, live }) => {
    const cdp = await page.context().newCDPSession(page);
    const slow = (bytes) => cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
    await cdp.send("Network.enable");
    await slow((await readFile(file)).length / 60);
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await page.getByRole("progressbar", { name: /^Upload of/ }).waitFor();
    page.once("dialog", (d) => d.accept()); // it asks before it lets an upload go
    await page.reload();
    await slow(-1);
    await cdp.detach();
    await page.getByText("Nothing was charged").waitFor();
    const { jobs } = await (await fetch(base + "/v1/verify/bulk", bearer(live))).json();
    assert.deepEqual(jobs, []);
    const { reserved } = await (await fetch(base + "/v1/credits", bearer(live))).json();
    assert.equal(reserved, 0);
  });

  step("the file is sent again, while other pages are looked at", async ({ page, file }) => {
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Network.enable");
    await cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: (await readFile(file)).length / 3 });
    await page.getByLabel(/^The file .* again$/).setInputFiles(file);
    const bar = page.getByRole("progressbar", { name: /^Upload of/ });
    await bar.waitFor();
    await nav(page, "Docs");
    await heading(page, "Docs");
    await bar.waitFor(); // progress is shown on another page
    await nav(page, "Overview");
    await page.getByRole("link", { name: "Open the job" }).waitFor({ timeout: 120_000 });
    await cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
    await cdp.detach();
  });

  step("the job is followed to its end without reloading", async (t) => {
    const { page } = t;
    await page.getByRole("link", { name: "Open the job" }).click();
    await page.getByText(`of ${rows.toLocaleString("en-US")} rows`).waitFor();
    await page.getByRole("region", { name: "First rows as the server reads them" }).waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText("completed", { exact: true }).waitFor({ timeout: 300_000 });
    t.job = page.url().split("/").at(-1);
    await page.getByRole("button", { name: /^Dismiss/ }).click();
  });

  step("downloads are the API's bytes", async ({ page, base, live, job }) => {
    const digest = (b) => createHash("sha256").update(b).digest("hex");
    for (const [name, query] of [
      ["Everything", ""],
      ["Safe to send", "?status=VALID"],
      ["Safe and risky", "?status=VALID,RISKY"],
      ["Undeliverable", "?status=INVALID"],
    ]) {
      const [coming] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name }).click()]);
      const got = await readFile(await coming.path());
      const want = Buffer.from(await (await fetch(`${base}/v1/verify/bulk/${job}/results${query}`, bearer(live))).arrayBuffer());
      assert.equal(digest(got), digest(want), name);
      if (!query) assert.equal(got.toString().trimEnd().split("\n").length >= rows + 1, true);
    }
  });

  step("rows are looked up", async ({ page }) => {
    await page.getByRole("tab", { name: "Rows" }).click();
    await page.getByLabel("Search by e-mail or domain").fill("gmail.com");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("region", { name: "Rows found" }).getByText("gmail.com").first().waitFor();
  });

  step("usage is told by day and by key", async ({ page, base, live }) => {
    const one = await fetch(base + "/v1/verify/single", { method: "POST", headers: { ...bearer(live).headers, "Content-Type": "application/json" }, body: '{"email":"not an address"}' });
    assert.equal(one.status, 200);
    await nav(page, "Usage and credits");
    const table = page.getByRole("region", { name: "Credits by key and day" });
    await table.getByRole("row", { name: /shop .* 1 0 1$/ }).waitFor();
    await table.getByRole("row", { name: /Dashboard .* \d 19,\d{3} 19,\d{3}$/ }).waitFor();
  });

  step("several jobs are chosen, downloaded and deleted at once", async ({ page, base, list }) => {
    const names = ["First of two", "Second of two"];
    const made = [];
    for (const name of names) made.push(await upload(page, name, list.split("\n").slice(0, 3).join("\n")));
    for (const id of made) await ended(page, id);
    await page.goto(base + "/app/lists");
    for (const name of names) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
    const saved = [];
    page.on("download", (d) => saved.push(d));
    await page.getByRole("button", { name: "Download 2 results" }).click();
    while (saved.length < 2) await page.waitForEvent("download");
    for (const [i, d] of saved.entries()) {
      const bytes = await readFile(await d.path(), "utf8");
      assert.equal(bytes.trim().split("\n").length, 3, `${i}: a head and two rows`);
    }
    await page.getByRole("button", { name: "Delete 2 jobs" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    for (const name of names) await page.getByRole("link", { name }).waitFor({ state: "detached" });
    for (const id of made) assert.equal(await statusOf(page, `/v1/verify/bulk/${id}`), 404);
  });

  step("what pages say in numbers is what the API says", async ({ page, base, job }) => {
    const get = async (path) => (await asSession(page, "GET", path)).body;
    const shown = (n) => n.toLocaleString("en-US");
    const stat = (name) => page.locator(".stat", { has: page.locator("dt", { hasText: name }) }).locator("dd");
    const j = await get(`/v1/verify/bulk/${job}`);
    await page.goto(`${base}/app/lists/${job}`);
    for (const [name, status] of [["Safe to send", "VALID"], ["Everything", null]]) {
      const rows = status ? j.counts[status] : j.total_rows;
      await page.getByRole("link", { name: new RegExp(`^${name} *${shown(rows)} rows$`) }).waitFor();
    }
    await page.getByText(`Kept until ${await page.evaluate((at) => new Date(at).toLocaleString("en-US", { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" }), j.expires_at)}`).waitFor();
    await page.goto(`${base}/app/lists/${job}?tab=reasons`);
    const reasons = page.getByRole("region", { name: "Reasons" });
    for (const [reason, rows] of Object.entries(j.reasons)) await reasons.getByRole("row", { name: new RegExp(`^${reason} .* ${shown(rows)} `) }).waitFor();
    await page.goto(`${base}/app/`);
    const balance = await get("/v1/credits");
    await stat("Credits").getByText(shown(balance.balance)).waitFor();
    const { days } = await get("/v1/usage?days=30");
    const sum = (of) => days.reduce((n, d) => n + of(d), 0);
    const counts = (d) => Object.values(d.counts).reduce((a, b) => a + b, 0);
    await stat("Rows verified, 30 days").getByText(shown(sum(counts)), { exact: false }).waitFor();
    await stat("Rows verified, 30 days").getByText(`and ${shown(sum((d) => d.singles))} single check`).waitFor();
    await stat("Safe to send").getByText(`${shown(sum((d) => d.counts.VALID ?? 0))} row`).waitFor();
    const { jobs } = await get("/v1/verify/bulk?limit=100&status=running");
    await stat("Running jobs").getByText(shown(jobs.length), { exact: true }).waitFor();
  });

  step("nothing on the pages is wrong for axe, or too wide", ({ page, base, job }) =>
    sweep(page, base, ["", `lists/${job}`, `lists/${job}?tab=receivers`, `lists/${job}?tab=rows`, `lists/${job}?tab=details`, "lists", "verify", "docs", "settings/keys", "settings/callbacks", "settings/usage", "settings/accuracy", "settings/account"]));

  step("the first load is within its budget", async ({ page, base }) => {
    await page.goto("about:blank");
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Network.enable");
    await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
    let bytes = 0;
    let requests = 0;
    cdp.on("Network.loadingFinished", (e) => {
      bytes += e.encodedDataLength;
      requests++;
    });
    await page.addInitScript(() => {
      globalThis.requestIdleCallback = () => 0; // what is fetched ahead while idle is no part of it
      globalThis.longTasks = [];
      new PerformanceObserver((l) => globalThis.longTasks.push(...l.getEntries().map((e) => e.startTime + e.duration))).observe({ type: "longtask", buffered: true });
    });
    await page.goto(base + "/app/settings/keys");
    await heading(page, "API keys");
    const shown = await page.evaluate(() => performance.now());
    await settled(page);
    // Interactive is what stands there once the last long task is over. How long that takes is the machine's matter as well:
    // it is told, not judged.
    const interactive = Math.max(shown, ...(await page.evaluate(() => globalThis.longTasks)));
    console.log(`    budget: ${requests} of 40 requests, ${Math.round(bytes / 1000)} of 250 KB, interactive after ${Math.round(interactive)} ms`);
    assert.ok(bytes < 250_000, `${bytes} bytes`);
    assert.ok(requests < 40, `${requests} requests`);
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
    await page.getByText("Your session expired. Sign in to continue.").waitFor({ timeout: 20_000 });
  });
}
