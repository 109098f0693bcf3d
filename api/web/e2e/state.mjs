// What stands in the address of a page, what other tabs are told, and what long names and failed callbacks look like. Each step
// needs no other part before it.
import assert from "node:assert/strict";
import { signIn } from "./browser.mjs";
import { overflow, settled } from "./look.mjs";
import { asSession, ended, heading, nav, signOut } from "./steps.mjs";

const csv = (name, text) => ({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
const long = `${"x".repeat(190)}.csv`;

/** upload uploads a list as the page's session does, and returns its job. */
const upload = (page, name, text, title = "") =>
  page.evaluate(
    async ({ name, text, title }) => {
      const { csrf_token } = await (await fetch("/v1/dash/session")).json();
      const form = new FormData();
      if (title) form.set("name", title);
      form.set("file", new File([text], name));
      const r = await fetch("/v1/verify/bulk", { method: "POST", headers: { "X-CSRF-Token": csrf_token }, body: form });
      return { status: r.status, ...(await r.json()) };
    },
    { name, text, title },
  );

/** member makes an account, and returns how it signs in. */
async function member(page, email, limits = {}) {
  const made = await asSession(page, "POST", "/v1/admin/users", { email, credits: 1000, limits });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return { email, password: made.body.password };
}

/** state adds its steps. */
export function state(step) {
  step("accounts are there for two people at one browser", async (t) => {
    const { page, base, email, password } = t;
    await signIn(page, base, email, password);
    t.erin = await member(page, "erin@customer.example");
    t.fred = await member(page, `fred.${"y".repeat(50)}@customer.example`);
    await signOut(page);
    await signIn(page, base, t.erin.email, t.erin.password);
  });

  step("Back, a reload and a link lead to the page that was shown", async (t) => {
    const { page, base } = t;
    t.named = await upload(page, long, "email\nann@state.example\n");
    assert.equal(t.named.status, "queued", JSON.stringify(t.named));
    await nav(page, "Jobs");
    const filter = page.getByRole("combobox", { name: "Filter by status" });
    for (const name of ["Finalizing", "Failed"]) {
      await filter.click();
      await page.getByRole("option", { name, exact: true }).click();
      await page.getByText(`No ${name.toLowerCase()} jobs`).waitFor();
    }
    assert.match(page.url(), /status=failed/);
    await page.reload();
    await page.getByText("No failed jobs").waitFor();
    await page.goBack();
    await page.getByText("No finalizing jobs").waitFor();
    await page.goto(`${base}/app/lists?status=nonsense&cursor=`);
    await page.getByRole("link", { name: long }).waitFor();
  });

  step("a search for rows stands in the address, where no server sees it", async ({ page, base, named }) => {
    await page.goto(`${base}/app/lists/${named.job_id}`);
    await page.getByRole("tab", { name: "Rows" }).click();
    await page.getByLabel("Search by e-mail or domain").fill("ann@state");
    await page.getByRole("button", { name: "Search" }).click();
    const found = page.getByRole("region", { name: "Rows found" });
    await found.getByText("ann@").waitFor();
    assert.equal(new URL(page.url()).search, "?tab=rows");
    await page.reload();
    await found.getByText("ann@").waitFor();
    assert.equal(await page.getByLabel("Search by e-mail or domain").inputValue(), "ann@state");
  });

  step("the page of a long table stands in the address", async ({ page, base }) => {
    const made = await upload(page, "sixty.csv", "email\n" + Array.from({ length: 60 }, (_, i) => `row${i}@paged.example`).join("\n"));
    await ended(page, made.job_id);
    await page.goto(`${base}/app/lists/${made.job_id}?tab=rows`);
    const found = page.getByRole("region", { name: "Rows found" });
    const first = () => found.getByRole("row").nth(1).getByRole("cell").first();
    await first().getByText("row0@paged.example", { exact: true }).waitFor();
    const pages = page.getByRole("group", { name: "Pages of Rows found" });
    await pages.getByRole("button", { name: "Next" }).click();
    await first().getByText("row25@paged.example", { exact: true }).waitFor();
    await page.reload();
    await first().getByText("row25@paged.example", { exact: true }).waitFor();
    await pages.getByRole("button", { name: "Next" }).click();
    await first().getByText("row50@paged.example", { exact: true }).waitFor();
    assert.ok(await pages.getByRole("button", { name: "Next" }).isDisabled());
    await page.goBack();
    await first().getByText("row25@paged.example", { exact: true }).waitFor();
    await pages.getByRole("button", { name: "First" }).click();
    await first().getByText("row0@paged.example", { exact: true }).waitFor();
  });

  step("a verdict that was paid for outlives a reload, and ends with its user", async ({ page, base, erin, fred }) => {
    await nav(page, "Verify an address");
    await page.getByLabel("E-mail address").fill("not an address");
    await page.getByRole("button", { name: "Verify", exact: true }).click();
    const verdict = page.getByRole("region", { name: "Verdict" });
    await verdict.getByText("INVALID", { exact: true }).waitFor();
    assert.equal(new URL(page.url()).search, "");
    let asked = 0;
    await page.route("**/v1/verify/single", (route) => {
      asked++;
      return route.continue();
    });
    await page.reload();
    await verdict.getByText("INVALID", { exact: true }).waitFor();
    await nav(page, "Overview");
    await page.goBack();
    await verdict.getByText("INVALID", { exact: true }).waitFor();
    assert.equal(asked, 0, "nothing was asked, or charged, again");
    await signOut(page);
    await signIn(page, base, fred.email, fred.password);
    await nav(page, "Verify an address");
    await page.getByText("Enter an address above").waitFor();
    await signOut(page);
    await signIn(page, base, erin.email, erin.password);
  });

  step("who signs out in one tab is signed out in all, and the next user finds nothing", async ({ page, base, fred, erin, named }) => {
    const other = await page.context().newPage();
    await other.goto(`${base}/app/lists/${named.job_id}`);
    await other.getByRole("heading", { level: 1, name: long }).waitFor();
    await signOut(page);
    await heading(other, "Sign in");
    assert.equal(await other.getByText(long).count(), 0);
    await signIn(page, base, fred.email, fred.password);
    await heading(other, "Job");
    await other.getByText("Job not found").waitFor();
    assert.equal(await other.getByText(long).count(), 0);
    await other.close();
    await signOut(page);
    await signIn(page, base, erin.email, erin.password);
  });

  step("long names are cut, and no page is wider than its window", async ({ page, base, named, email, password }) => {
    const made = await asSession(page, "POST", "/v1/dash/keys", { name: "k".repeat(100) });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const fits = async (place) => {
      await page.goto(`${base}/app/${place}`);
      await page.locator("h1").waitFor();
      for (const width of [390, 1280]) {
        await page.setViewportSize({ width, height: 800 });
        await settled(page);
        assert.equal(await overflow(page), 0, `${place} at ${width}`);
        if (width < 1280) continue; // on a phone a table of figures scrolls in its own frame
        for (const region of await page.locator(".rows").all()) {
          assert.ok(await region.evaluate((r) => r.scrollWidth <= r.clientWidth + 1), `a table of ${place} fits at ${width}`);
        }
      }
    };
    const short = await upload(page, long, "email\nann@state.example\n", "Short");
    for (const place of ["", "lists", `lists/${named.job_id}`, `lists/${short.job_id}`, "settings/keys", "settings/usage"]) await fits(place);
    await page.goto(`${base}/app/lists`);
    await page.getByTitle(long).first().waitFor();
    await signOut(page);
    await signIn(page, base, email, password);
    for (const place of ["operator/jobs", `operator/jobs/${short.job_id}`, "operator/users"]) await fits(place);
    await signOut(page);
  });

  step("callbacks that fail are told of where one looks first", async ({ page, base, erin }) => {
    await signIn(page, base, erin.email, erin.password);
    const real = (await asSession(page, "GET", "/v1/verify/bulk")).body.jobs[0];
    const job = { ...real, name: "Spring", status: "completed", callback_url: "https://receiver.example/hook", callback_status: "pending", callback_attempts: 5 };
    const attempts = Array.from({ length: 5 }, (_, i) => ({ number: i + 1, at: job.created_at, status: 500, error: null, duration_ms: 3, bytes: 100, link: false }));
    await page.route("**/v1/dash/events", (route) => route.abort());
    await page.route("**/v1/verify/bulk?*", (route) => route.fulfill({ json: { jobs: [job], next_cursor: null } }));
    await page.route(`**/v1/verify/bulk/${job.job_id}`, (route) => route.fulfill({ json: job }));
    await page.route(`**/v1/verify/bulk/${job.job_id}/callback`, (route) =>
      route.fulfill({ json: { callback_url: job.callback_url, status: "pending", attempts, next_attempt_at: job.created_at } }),
    );
    await page.goto(`${base}/app`);
    await page.getByText("The callback of a job is failing").waitFor();
    await page.getByText("callback failing", { exact: true }).waitFor();
    await page.getByRole("alert").getByRole("link", { name: "Spring" }).click();
    await page.getByText("5 attempts; the last answer: 500").waitFor();
    await page.unrouteAll();
  });

  step("what waits says when it will be done, and the tab how far it is", async ({ page, base }) => {
    const real = (await asSession(page, "GET", "/v1/verify/bulk")).body.jobs[0];
    const job = { ...real, name: "Slow", job_id: "1".repeat(32), status: "running", finished_at: null, total_rows: 5000, processed: 2150, percent: 43 };
    const later = (minutes) => new Date(Date.now() + minutes * 60_000 + 5_000).toISOString();
    const budget = { for: "budget", rows: 3219, opens_at: later(53), limit: "refusals_per_hour", source: "192.0.2.7", node: null, reply: null, rule: null };
    const receiver = { receiver: "Google", rows: 3219, asking: 0, queued: 0, opens_at: later(53), done_by: later(146), waits: [budget] };
    const why = { job_id: job.job_id, status: "running", at: later(0), open_rows: 3219, receivers: [receiver], unreached_nodes: [] };
    await page.route(`**/v1/verify/bulk/${job.job_id}`, (r) => r.fulfill({ json: job }));
    await page.route(`**/v1/verify/bulk/${job.job_id}/why`, (r) => r.fulfill({ json: why }));
    await page.goto(`${base}/app/lists/${job.job_id}`);
    const row = page.getByRole("region", { name: "What rows wait for" }).getByRole("row", { name: /^Google 3,219/ });
    await row.getByText("Our limit (refusals per hour) from 192.0.2.7 is used up: 3,219 rows").waitFor();
    assert.match(await row.getByRole("cell").nth(3).textContent(), /^in 53 min/);
    assert.match(await row.getByRole("cell").nth(4).textContent(), /^in 2 h 26 min/);
    assert.equal(await page.title(), "43 %, Slow · Probity");
    await page.unrouteAll();
  });

  step("the time that is left is no less than the budgets allow, and a range where it is uncertain", async ({ page, base }) => {
    const real = (await asSession(page, "GET", "/v1/verify/bulk")).body.jobs[0];
    const job = { ...real, name: "Slow", job_id: "2".repeat(32), status: "running", finished_at: null, total_rows: 5000, processed: 2150, percent: 43, rows_per_second: 0.3 };
    const receiver = { receiver: "Google", rows: 3219, asking: 3219, queued: 0, opens_at: null, waits: [] };
    let done = null;
    await page.route(`**/v1/verify/bulk/${job.job_id}`, (r) => r.fulfill({ json: job }));
    await page.route(`**/v1/verify/bulk/${job.job_id}/why`, (r) =>
      r.fulfill({ json: { job_id: job.job_id, status: "running", at: new Date().toISOString(), open_rows: 3219, receivers: [{ ...receiver, done_by: done }], unreached_nodes: [] } }),
    );
    const progress = page.getByRole("region", { name: "Progress" });
    for (const [eta, minutes, want] of [
      [3600, 146, "0.3 rows/s, about 2 h 26 min left"],
      [16_080, 146, "0.3 rows/s, 2 h 26 min to 4 h 28 min left"],
      [null, 146, "0.3 rows/s, at least 2 h 26 min left"],
      [null, null, "0.3 rows/s"],
    ]) {
      job.eta_seconds = eta;
      done = minutes && new Date(Date.now() + minutes * 60_000 + 30_000).toISOString();
      await page.goto(`${base}/app/lists/${job.job_id}`);
      await page.getByRole("region", { name: "What rows wait for" }).waitFor();
      await progress.getByText(want, { exact: true }).waitFor();
    }
    await page.unrouteAll();
  });

  step("eight tabs are live by one stream, and go on when the tab that has it is closed", async ({ page, base }) => {
    const streams = new Map();
    page.context().on("request", (r) => r.url().endsWith("/v1/dash/events") && streams.set(r, r.frame().page()));
    page.context().on("requestfailed", (r) => streams.delete(r));
    await page.goto(`${base}/app/lists`);
    await heading(page, "Jobs");
    const more = [];
    for (let i = 0; i < 7; i++) {
      const tab = await page.context().newPage();
      more.push(tab);
      await tab.goto(`${base}/app/lists`);
      await tab.getByText("· live").waitFor();
    }
    assert.equal(streams.size, 1);
    await upload(page, "told.csv", "email\nann@told.example\n");
    await more.at(-1).getByRole("link", { name: "told.csv" }).waitFor();
    const leader = [...streams.values()][0];
    const others = [page, ...more].filter((p) => p !== leader);
    if (leader === page) await page.goto("about:blank");
    else await leader.close();
    await upload(others[0], "after.csv", "email\nann@after.example\n");
    await others.at(-1).getByRole("link", { name: "after.csv" }).waitFor();
    for (const tab of more) await tab.close();
    await page.goto(`${base}/app`);
    await heading(page, "Overview");
  });

  step("many uploads stay in their corner, and their notes go", async ({ page, base }) => {
    await page.goto(`${base}/app/lists`);
    await page.route("**/v1/verify/bulk", (route) => (route.request().method() === "POST" ? route.fulfill({ status: 422, json: { detail: "file: there are no rows" } }) : route.continue()));
    for (let i = 0; i < 11; i++) {
      await page.locator("input[type=file]").first().setInputFiles(csv(`many${i}.csv`, "email\nann@many.example\n"));
      await page.getByRole("button", { name: "Upload", exact: true }).click();
      await page.getByRole("region", { name: "Uploads" }).getByText(`many${i}.csv`).waitFor();
    }
    const panel = page.getByRole("region", { name: "Uploads" });
    const box = await panel.boundingBox();
    assert.ok(box.y > 100, `the panel begins at ${box.y}, below the account's menu`);
    await panel.getByRole("button", { name: "Dismiss all that ended" }).click();
    await panel.waitFor({ state: "detached" });
    await page.unrouteAll();
    await signOut(page);
  });

  step("who is not signed in is told so after one request, and waits for no page", async ({ page, base }) => {
    let asked = 0;
    await page.route("**/v1/dash/session", (route) => {
      asked++;
      return route.continue();
    });
    await page.route("**/assets/Lists-*.js", () => {}); // never answered
    await page.goto(`${base}/app/lists`, { waitUntil: "commit" });
    await heading(page, "Sign in");
    assert.equal(asked, 1);
    await page.unrouteAll();
  });

  step("a page that loads while another user signs in elsewhere is that user's", async ({ page, base, erin, fred }) => {
    await signIn(page, base, fred.email, fred.password);
    const other = await page.context().newPage();
    let asked = 0;
    await other.route("**/v1/dash/session", async (route) => {
      const visit = (await asSession(page, "GET", "/v1/dash/session")).body;
      if (asked++ > 0) return route.fulfill({ json: visit });
      await page.evaluate((user) => new BroadcastChannel("probity.session").postMessage({ user }), visit.user.id);
      return route.fulfill({ json: { ...visit, user: { ...visit.user, id: "former", email: erin.email } } });
    });
    await other.goto(`${base}/app/lists`);
    await other.getByRole("button", { name: `Account ${fred.email}` }).waitFor();
    assert.equal(asked, 2);
    await other.close();
    await signOut(page);
  });

  step("the server sorts all pages of a table, and the address says how", async ({ page, base, email, password }) => {
    await signIn(page, base, email, password);
    const gina = await member(page, "gina@customer.example", { bulk_per_hour: 100 });
    await page.goto(`${base}/app/operator/users`);
    const accounts = page.getByRole("region", { name: "Accounts", exact: true });
    const found = (address) => accounts.getByRole("row").nth(1).getByRole("link", { name: address }).waitFor();
    await accounts.getByRole("button", { name: "Since" }).click();
    await found(gina.email); // the newest
    assert.equal(await accounts.getByRole("columnheader", { name: "Since" }).getAttribute("aria-sort"), "descending");
    await page.getByLabel("Find by e-mail address").fill("ERIN@");
    await page.keyboard.press("Enter");
    await found("erin@customer.example");
    assert.equal(new URL(page.url()).search, "?sort=-created_at", "no server is told the address in a page's URL");
    await page.reload();
    await found("erin@customer.example");
    await page.goBack();
    await found(gina.email);
    await signOut(page);
    await signIn(page, base, gina.email, gina.password);
    for (let i = 0; i < 21; i++) {
      const made = await upload(page, "sorted.csv", "email\nann@state.example\n", `list ${String((i * 8) % 21).padStart(2, "0")}`);
      assert.equal(made.status, "queued", JSON.stringify(made));
    }
    await page.goto(`${base}/app/lists`);
    const table = page.getByRole("region", { name: "Jobs", exact: true });
    const first = (name) => table.getByRole("row").nth(1).getByRole("link", { name, exact: true }).waitFor();
    const sorted = async (title, how) => assert.equal(await table.getByRole("columnheader", { name: title }).getAttribute("aria-sort"), how);
    await first("list 13"); // the newest
    await sorted("Uploaded", "descending");
    await table.getByRole("button", { name: "Job", exact: true }).click();
    await first("list 00");
    await sorted("Job", "ascending");
    await sorted("Uploaded", null);
    assert.equal(new URL(page.url()).search, "?sort=name");
    const pages = page.getByRole("group", { name: "Pages of Jobs" });
    await pages.getByRole("button", { name: "Next" }).click();
    await first("list 20");
    await page.reload();
    await first("list 20");
    await sorted("Job", "ascending");
    await table.getByRole("button", { name: "Job", exact: true }).click();
    await table.getByRole("row").nth(2).getByRole("link", { name: "list 19" }).waitFor(); // the first page of the other order
    assert.equal(new URL(page.url()).search, "?sort=-name");
    await page.goBack();
    await table.getByRole("row").nth(2).waitFor({ state: "detached" });
    await first("list 20");
    await page.goBack();
    await first("list 00");
    await page.goto(`${base}/app/lists?sort=status`);
    await first("list 13");
    await signOut(page);
  });
}
