// What pages say and keep when something is wrong: odd files, refusals, a server that is away. Each step signs in where it
// has to, with an account of its own.
import assert from "node:assert/strict";
import { signIn } from "./browser.mjs";
import { asSession, heading, nav, signOut } from "./steps.mjs";

const csv = (name, text) => ({ name, mimeType: "text/csv", buffer: Buffer.from(text) });

/** shot keeps a picture of a page in the folder SHOTS, where one is named. */
const shot = (page, name) => process.env.SHOTS && page.screenshot({ path: `${process.env.SHOTS}/${name}.png` });

/** choose gives a file to the page Jobs. */
async function choose(page, file) {
  await nav(page, "Jobs");
  await heading(page, "Jobs");
  await page.locator("input[type=file]").first().setInputFiles(file);
}

/** endElsewhere ends all sessions of an account, as its user may do at another machine. */
async function endElsewhere(base, account) {
  const login = await fetch(base + "/v1/dash/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(account) });
  const { csrf_token } = await login.json();
  const headers = { Cookie: login.headers.get("set-cookie").split(";")[0], "X-CSRF-Token": csrf_token };
  assert.equal((await fetch(base + "/v1/dash/sessions", { method: "DELETE", headers })).status, 204);
}

/** faults adds its steps. */
export function faults(step) {
  step("an account with little credit is there", async (t) => {
    const { page, base, email, password } = t;
    await signIn(page, base, email, password);
    const made = await asSession(page, "POST", "/v1/admin/users", { email: "dana@customer.example", credits: 150 });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    await signOut(page);
    t.dana = { email: "dana@customer.example", password: made.body.password };
    await signIn(page, base, t.dana.email, t.dana.password);
  });

  step("rows are counted as the server counts them, with a stray quote", async ({ page }) => {
    const rows = Array.from({ length: 100 }, (_, i) => `a${i}@quotes.example,${i === 10 ? '5" pipe' : "pipe"}\n`);
    await choose(page, csv("pipes.csv", `email,what\n${rows.join("")}`));
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await page.getByText("of 100 rows").waitFor();
  });

  step("a workbook that cannot be read is refused in words", async ({ page }) => {
    const zip = Buffer.concat([Buffer.from("PK\u0003\u0004"), Buffer.alloc(26), Buffer.from("[Content_Types].xml")]);
    await choose(page, { name: "customers.xlsx", mimeType: "application/octet-stream", buffer: zip });
    await page.getByRole("alert").getByText(/customers\.xlsx cannot be read as an Excel workbook.*Save it as CSV/).waitFor();
    await choose(page, csv("renamed.csv", zip));
    await page.getByRole("alert").getByText(/renamed\.csv cannot be read as an Excel workbook/).waitFor();
  });

  step("a list beyond the credits says so before it starts, and is refused with what helps", async ({ page }) => {
    await choose(page, csv("dear.csv", `email\n${Array.from({ length: 200 }, (_, i) => `a${i}@dear.example\n`).join("")}`));
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await page.getByText("There are too few credits").waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("alert").getByText("You have 150 credits; this needs 200. Ask your administrator for more.").waitFor();
  });

  step("a list that cannot be read is not to be tried again", async ({ page }) => {
    await choose(page, csv("open.csv", 'email,x\na@b.example,"open\n'));
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    const panel = page.getByRole("region", { name: "Uploads" });
    await panel.getByText(/unclosed quote/).waitFor();
    assert.equal(await panel.getByRole("button", { name: "Try again" }).count(), 0);
    await panel.getByRole("button", { name: /^Dismiss/ }).click();
  });

  step("a limit is told in words of people, and the button waits as long", async ({ page }) => {
    let wait = 3583;
    await page.route("**/v1/verify/bulk", (route) => {
      if (route.request().method() !== "POST") return route.continue();
      const detail = `The limit of 2 uploads an hour is reached: wait ${wait} seconds (Retry-After).`;
      return route.fulfill({ status: 429, headers: { "Retry-After": String(wait) }, json: { detail } });
    });
    await choose(page, csv("third.csv", "email\nann@third.example\n"));
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    const panel = page.getByRole("region", { name: "Uploads" });
    await panel.getByText("The limit of 2 uploads an hour is reached. Try again in about an hour.").waitFor();
    const again = panel.getByRole("button", { name: "Try again" });
    assert.ok(await again.isDisabled());
    await panel.getByRole("button", { name: /^Dismiss/ }).click();
    wait = 2;
    await choose(page, csv("third.csv", "email\nann@third.example\n"));
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await panel.getByText("Try again in 2 seconds.").waitFor();
    assert.ok(await again.isDisabled());
    await page.unroute("**/v1/verify/bulk");
    await again.click(); // once it can be clicked
    await panel.getByRole("link", { name: "Open the job" }).click();
  });

  step("a row that is not verified yet says so, and asking again asks again", async ({ page }) => {
    await page.getByRole("heading", { level: 1, name: "third.csv" }).waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    const done = { row: 1, email: "ann@third.example", status: "INVALID", score: 0, reason: "domain_not_found", smtp_provider: "" };
    const open = { ...done, status: "", score: 0, reason: null };
    let asked = 0;
    await page.route("**/v1/dash/jobs/*/rows?*q=ann*", (route) => route.fulfill({ json: { rows: [asked++ === 0 ? open : done], next_after: null } }));
    await page.getByRole("tab", { name: "Rows" }).click();
    await page.getByLabel("Search by e-mail or domain").fill("ann");
    await page.getByRole("button", { name: "Search" }).click();
    const found = page.getByRole("region", { name: "Rows found" });
    await found.getByText("not verified yet").waitFor();
    await page.getByRole("button", { name: "Search" }).click();
    await found.getByText("INVALID").waitFor();
    assert.equal(asked, 2);
    await page.unroute("**/v1/dash/jobs/*/rows?*q=ann*");
    await page.getByRole("button", { name: /^Dismiss/ }).click();
  });

  step("a search of a long list goes on by itself, and says how far it is", async ({ page }) => {
    const row = { row: 31, email: "ann@third.example", status: "INVALID", score: 0, reason: "domain_not_found", smtp_provider: "" };
    const asked = [];
    let answer;
    await page.route("**/v1/dash/jobs/*/rows?*q=third*", async (route) => {
      const query = new URL(route.request().url()).searchParams;
      asked.push([Number(query.get("after")), Number(query.get("limit"))]);
      if (asked.length === 1) return route.fulfill({ json: { rows: [row], next_after: 2_500_000 } });
      await new Promise((go) => {
        answer = go;
      });
      return route.fulfill({ json: { rows: [{ ...row, row: 4_000_000, email: "bo@third.example" }], next_after: null } });
    });
    await page.getByLabel("Search by e-mail or domain").fill("third");
    await page.getByRole("button", { name: "Search" }).click();
    const found = page.getByRole("region", { name: "Rows found" });
    await found.getByText("ann@third.example").waitFor();
    await page.getByText("Searched 2,500,000 of 1 rows…").waitFor();
    answer();
    await found.getByText("bo@third.example").waitFor();
    await page.getByText(/^Searched/).waitFor({ state: "detached" });
    assert.deepEqual(asked, [[0, 25], [2_500_000, 24]]);
    await page.unroute("**/v1/dash/jobs/*/rows?*q=third*");
  });

  step("all jobs are seen page by page", async ({ page, base, email, password }) => {
    await signOut(page);
    await signIn(page, base, email, password);
    await nav(page, "All jobs");
    const ids = Array.from({ length: 120 }, (_, i) => `job${i}`);
    const real = (await asSession(page, "GET", "/v1/dash/admin/jobs")).body.jobs[0];
    await page.route("**/v1/dash/admin/jobs?*", (route) => {
      const query = new URL(route.request().url()).searchParams;
      const from = Number(query.get("cursor") ?? 0);
      const to = from + Number(query.get("limit"));
      const jobs = ids.slice(from, to).map((id) => ({ ...real, job_id: id, filename: `${id}.csv`, name: "" }));
      return route.fulfill({ json: { jobs, total: ids.length, next_cursor: to < ids.length ? String(to) : null } });
    });
    await nav(page, "Overview");
    await nav(page, "All jobs");
    await page.getByRole("heading", { name: "120 jobs" }).waitFor();
    await page.getByRole("button", { name: "Older" }).click();
    await page.getByText("job50.csv").waitFor();
    await page.getByRole("button", { name: "Older" }).click();
    await page.getByText("job119.csv").waitFor();
    assert.ok(await page.getByRole("button", { name: "Older" }).isDisabled());
    await page.unroute("**/v1/dash/admin/jobs?*");
  });

  step("a session that expires during an upload loses neither the file nor what was typed", async ({ page, base, dana }) => {
    await signOut(page);
    await signIn(page, base, dana.email, dana.password);
    await choose(page, csv("kept.csv", "email\nann@kept.example\n"));
    await page.getByRole("button", { name: "Upload", exact: true }).waitFor();
    await page.context().clearCookies(); // as a session that expired
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    await page.getByText("Your session expired. Sign in to continue.").waitFor();
    assert.equal(await page.getByLabel("E-mail address").inputValue(), dana.email);
    await page.locator("input[type=password]").fill(dana.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    const panel = page.getByRole("region", { name: "Uploads" });
    await panel.getByText("Your session expired before the upload was accepted").waitFor();
    await page.waitForFunction(() => document.activeElement?.tagName === "H1" && document.activeElement.textContent === "Jobs");
    assert.equal(await page.getByText("API key is missing").count(), 0);
    await panel.getByRole("button", { name: "Try again" }).click();
    await panel.getByRole("link", { name: "Open the job" }).waitFor();
    await panel.getByRole("button", { name: /^Dismiss/ }).click();

    await choose(page, csv("typed.csv", "email\nann@typed.example\n"));
    await page.getByRole("button", { name: "More options" }).click();
    await page.getByLabel("Name of the job").fill("Spring letter");
    await endElsewhere(base, dana);
    await page.getByText("Your session expired. Sign in to continue.").waitFor();
    await page.locator("input[type=password]").fill(dana.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    assert.equal(await page.getByLabel("Name of the job").inputValue(), "Spring letter");
    await page.getByRole("button", { name: "Cancel" }).click();
  });

  step("pages that were never opened open while the server is away, which a banner says", async ({ page, base }) => {
    const real = (await asSession(page, "GET", "/v1/verify/bulk")).body.jobs[0];
    const job = { ...real, job_id: "0".repeat(32), status: "running", finished_at: null, total_rows: 500, processed: 200, percent: 40, rows_per_second: 10, eta_seconds: 30 };
    await page.route(`**/v1/verify/bulk/${job.job_id}`, (route) => route.fulfill({ json: job }));
    await page.goto(`${base}/app/lists/${job.job_id}`);
    await page.getByText("10 rows/s, about 30 s left").waitFor();
    await page.waitForFunction(() => performance.getEntriesByType("resource").some((e) => /Suppressions/.test(e.name))); // the last page
    await page.unroute(`**/v1/verify/bulk/${job.job_id}`);
    await page.context().setOffline(true);
    await page.getByText("No connection to the server").waitFor();
    assert.equal(await page.getByText("30 s left").count(), 0, "nothing is said that is not known");
    await shot(page, "offline");
    await nav(page, "Docs");
    await heading(page, "Docs");
    await page.context().setOffline(false);
    await page.getByText("No connection to the server").waitFor({ state: "detached" });
  });

  step("an upload that failed stays, with its button, on other pages", async ({ page }) => {
    await choose(page, csv("cut.csv", "email\nann@cut.example\n"));
    await page.getByRole("button", { name: "Upload", exact: true }).waitFor();
    await page.context().setOffline(true);
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    const panel = page.getByRole("region", { name: "Uploads" });
    await panel.getByText("connection lost").waitFor();
    await nav(page, "Callbacks");
    await page.getByText("No connection to the server").waitFor();
    await panel.getByText("connection lost").waitFor();
    await page.context().setOffline(false);
    await panel.getByRole("button", { name: "Try again" }).click();
    await panel.getByRole("link", { name: "Open the job" }).waitFor();
    await panel.getByRole("button", { name: /^Dismiss/ }).click();
  });

  step("a page whose code cannot be fetched says so within the dashboard, and comes by itself", async ({ page, base }) => {
    const other = await page.context().newPage();
    await other.addInitScript(() => (globalThis.requestIdleCallback = () => 0)); // nothing is fetched ahead
    await other.route("**/assets/Docs-*", (route) => route.abort()); // nor taken from the browser's cache
    await other.goto(base + "/app");
    await heading(other, "Overview");
    await page.context().setOffline(true);
    await nav(other, "Docs");
    await heading(other, "Page not loaded");
    await shot(other, "page-not-loaded");
    await other.unroute("**/assets/Docs-*");
    await other.getByRole("navigation", { name: "Pages" }).waitFor();
    await page.context().setOffline(false);
    await heading(other, "Docs");
    await other.close();
    await signOut(page);
  });
}
