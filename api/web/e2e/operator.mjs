// What an operator does: looks at nodes, receivers and probes, and ends a quarantine.
import assert from "node:assert/strict";
import { signIn } from "./browser.mjs";
import { asSession, heading, nav, statusOf, sweep } from "./steps.mjs";

/** operator adds its steps; t has what earlier ones found. */
export function operator(step) {
  step("an operator sees jobs of all, and nobody's rows", async ({ page, base, email, password, job }) => {
    await signIn(page, base, email, password);
    await nav(page, "All jobs");
    await page.getByRole("cell", { name: "cleo@customer.example", exact: true }).first().waitFor();
    assert.equal(await statusOf(page, `/v1/verify/bulk/${job}/results`), 404);
    await page.getByRole("region", { name: "Jobs" }).getByRole("link").first().click();
    await page.getByText("Deferred, to be retried").or(page.getByText("Job id")).first().waitFor();
    await page.goto(`${base}/app/lists/${job}`);
    await page.getByRole("link", { name: "look for it among all jobs" }).click();
    await page.waitForURL(`**/app/operator/jobs/${job}`);
    await page.getByText("cleo@customer.example").waitFor();
  });

  step("an operator goes from a job to its account, with its jobs, keys and ledger", async ({ page, base, job }) => {
    await page.getByRole("link", { name: "cleo@customer.example" }).click();
    await heading(page, "cleo@customer.example");
    const user = page.url().split("/").at(-1);
    const balance = (await asSession(page, "GET", `/v1/admin/credits?user=${user}`)).body.balance;
    await page.getByText(balance.toLocaleString("en-US"), { exact: true }).first().waitFor();
    await page.getByRole("region", { name: "Jobs" }).getByRole("link", { name: "list.csv" }).waitFor();
    await page.getByRole("region", { name: "Ledger" }).getByRole("link", { name: `job ${job.slice(0, 8)}…` }).first().click();
    await page.waitForURL(`**/app/operator/jobs/${job}`);
    await nav(page, "Users");
    const accounts = page.getByRole("region", { name: "Accounts" });
    await accounts.getByRole("row").nth(2).waitFor();
    const emails = () => accounts.getByRole("row").evaluateAll((rows) => rows.slice(1).map((r) => r.querySelector("a").textContent));
    await accounts.locator("th[aria-sort=ascending]").waitFor();
    assert.deepEqual(await emails(), (await emails()).toSorted());
    await accounts.getByRole("button", { name: "Account" }).click();
    await accounts.locator("th[aria-sort=descending]").waitFor();
    assert.deepEqual(await emails(), (await emails()).toSorted().reverse());
    await page.getByLabel("Find by e-mail address").fill("CLEO@");
    await page.keyboard.press("Enter");
    await accounts.getByRole("row").nth(2).waitFor({ state: "detached" });
    assert.deepEqual(await emails(), ["cleo@customer.example"]);
    await page.getByRole("link", { name: "cleo@customer.example" }).click();
    await heading(page, "cleo@customer.example");
    await page.goto(`${base}/app/operator/users/nowhere`);
    await page.getByText("Account not found").waitFor();
    await sweep(page, base, [`operator/users/${user}`]);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  step("a quarantine is seen with its reason, and ended", async (t) => {
    const { page } = t;
    const answer = await refusedAddress(t);
    await nav(page, "Cluster");
    assert.deepEqual(await page.locator("nav [aria-current=page]").allTextContents(), ["Cluster"], "the menu marks one page");
    const row = page.getByRole("region", { name: "Quarantines" }).getByRole("row", { name: new RegExp(answer.details.mx_host.replaceAll(".", "\\.")) });
    await row.getByText("blocked using").waitFor();
    await row.getByText("generic/test-walled").waitFor();
    await row.getByRole("button", { name: /^Release/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Release", exact: true }).click();
    await row.waitFor({ state: "detached" });
    const { ready_queues: queues } = (await asSession(page, "GET", "/v1/dash/admin/ready-queues")).body;
    assert.ok(!queues.some((l) => l.route === answer.details.mx_host && l.state === "quarantined"));
  });

  step("a coordinator shows outcomes, hosts that failed, and what the doctor says of its probers", async ({ page }) => {
    const region = (name) => page.getByRole("region", { name });
    await region("Outcomes of probes").getByRole("row", { name: /VALID/ }).first().waitFor();
    await region("Throttling actions").getByRole("row", { name: /pause|quarantine|slow/ }).first().waitFor();
    await region("Connection failures").getByRole("row").nth(1).waitFor();
    const findings = region("Self-check findings");
    await findings.getByRole("row", { name: /(fail|warn|unknown) p1, p2 / }).first().waitFor();
    const checks = await findings.getByRole("row").evaluateAll((rows) => rows.slice(1).map((r) => [...r.cells].slice(0, 2).map((c) => c.textContent).join(" ")));
    assert.equal(new Set(checks).size, checks.length, `each check has one row: ${checks}`);
    const { cluster } = (await asSession(page, "GET", "/v1/dash/admin/node")).body;
    const counted = cluster.nodes.map((n) => Object.entries(n.counters).filter(([name]) => name.startsWith("probity_prober_outcomes_total{")).length);
    assert.ok(counted.filter(Boolean).length > 1, `more than one node tells what it counts: ${counted}`);
  });

  step("a killed prober goes red", async ({ page, fleet }) => {
    const row = page.locator("tr[data-node=p1]");
    await row.locator(".tone-good").getByText("available").waitFor();
    await fleet.probers.get("p1").kill();
    await row.locator(".tone-bad").first().waitFor({ timeout: 60_000 });
    await page.locator("tr[data-node=p2] .tone-good").getByText("available").waitFor();
  });

  step("probes are found by outcome and by address, with reply, rule and source", async ({ page, list }) => {
    await nav(page, "Probes");
    const table = page.getByRole("region", { name: "Recent probes" });
    await table.getByRole("row").nth(5).waitFor();
    await page.getByRole("combobox", { name: "Outcome" }).click();
    await page.getByRole("option", { name: /^UNKNOWN/ }).click();
    await table.locator(".badge", { hasNotText: "UNKNOWN" }).first().waitFor({ state: "detached" });
    assert.ok((await table.locator(".badge", { hasText: "UNKNOWN" }).count()) > 5);
    assert.ok(!(await table.textContent()).includes("@"), "no address is shown");
    await page.getByLabel("Address").fill(list.split("\n")[3].match(/[^,"\s]+@[^,"\s]+/)[0]);
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByText("No matching probes").or(table).first().waitFor();
    await page.getByRole("tab", { name: "Single calls" }).click();
    await page.getByRole("region", { name: "Single calls" }).getByText("cleo@customer.example").first().waitFor();
  });

  step("acts are found by who and what, with whom they were about", async ({ page, fleet }) => {
    await nav(page, "Audit");
    const table = page.getByRole("region", { name: "Actions" });
    await table.getByRole("row", { name: /Quarantine ended/ }).getByText(fleet.email).waitFor();
    await page.getByRole("combobox", { name: "Action" }).click();
    await page.getByRole("option", { name: "Account added" }).click();
    await table.getByRole("row", { name: /Quarantine ended/ }).waitFor({ state: "detached" });
    await table.getByRole("row", { name: new RegExp(`Account added .*${fleet.email}.*cleo@customer.example`) }).waitFor();
    await page.getByLabel("Who").fill("nobody");
    await page.getByText("No matching entries").waitFor();
  });

  step("operations shows the last day as the server counted it, quarantines first, and leads to hosts", async ({ page }) => {
    await nav(page, "Operations");
    assert.equal(await page.locator("h2").first().textContent(), "Quarantines");
    await page.getByRole("img", { name: /^Answers in the last 24 hours: [1-9]/ }).waitFor({ timeout: 90_000 }); // the first minute
    const shown = async () => {
      const { body } = await asSession(page, "GET", "/v1/dash/admin/activity");
      const answers = body.points.reduce((n, p) => n + p.singles + Object.values(p.counts).reduce((m, c) => m + c, 0), 0);
      const label = await page.getByRole("img", { name: /^Answers in/ }).getAttribute("aria-label");
      return label.replace(/\D/g, "") === `24${answers}` && body;
    };
    let body = await shown();
    for (let tries = 0; !body && tries < 60; tries++) {
      await page.waitForTimeout(1_000); // the page asks every 30 seconds, the server counts every minute
      body = await shown();
    }
    assert.ok(body, "the page shows the sum of the server's points");
    assert.ok(body.receivers.length > 0 && body.receivers.every((r) => r.used_percent.length === body.points.length));
    for (const r of body.receivers) await page.getByRole("img", { name: `${r.receiver}: at most ${r.peak_percent} % used` }).waitFor();
    const host = body.hosts[0];
    const row = page.getByRole("region", { name: "Failures by host" }).getByRole("row").nth(1);
    assert.deepEqual((await row.getByRole("cell").allTextContents()).slice(0, 2), [host.host, String(host.failures)]);
    await row.getByRole("link").click();
    await page.waitForURL(`**/operator/probes?host=${host.host}`);
    // the prober that was killed may be the one that probed it
    const probed = page.getByRole("region", { name: "Recent probes" }).getByRole("row").nth(1);
    await probed.or(page.getByText("cannot be asked")).first().waitFor();
    await page.getByRole("button", { name: `Show hosts other than ${host.host} too` }).click();
    await page.waitForURL("**/operator/probes");
  });

  step("the providers' table is there", async ({ page }) => {
    await nav(page, "Providers");
    await page.getByLabel("Find a provider").fill("google");
    await page.getByRole("cell", { name: "Google", exact: true }).waitFor();
  });

  step("nothing on the operator's pages is wrong for axe, or too wide", ({ page, base }) =>
    sweep(page, base, ["", "/cluster", "/providers", "/users", "/jobs", "/suppressions", "/probes", "/audit"].map((p) => `operator${p}`)));

  step("the cluster has given the prober up", async ({ page, base, fleet }) => {
    await page.goto(base + "/app/operator/cluster");
    await heading(page, "Cluster");
    await page.locator("tr[data-node=p1] .tone-bad").getByText(/unavailable|gone/).waitFor({ timeout: 90_000 });
    await fleet.prober("p1"); // it comes back as itself
    await page.locator("tr[data-node=p1] .tone-good").getByText("available").waitFor({ timeout: 90_000 });
  });
}

/** refusedAddress verifies addresses of which a receiver should refuse us, until the rule that rests for long has read a reply. */
async function refusedAddress({ page, fleet, list }) {
  for (const email of await fleet.refused(list)) {
    const { status, body } = await asSession(page, "POST", "/v1/verify/single", { email, details: true, max_age: 0 });
    assert.equal(status, 200, JSON.stringify(body));
    if (/gated-yard|walled-garden/.test(body.mx_records[0])) return { ...body, details: { ...body.details, mx_host: body.mx_records[0] } };
  }
  throw new Error("no receiver of the list refuses us for a block list");
}
