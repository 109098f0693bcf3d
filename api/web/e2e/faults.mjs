// What pages say and keep when something is wrong: odd files, refusals, a server that is away. Each step signs in where it
// has to, with an account of its own.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
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

/** openLine is a line to the server that can be cut: after so many bytes of the browser nothing passes until it is mended. */
async function openLine(base) {
  const line = { passed: 0, left: Infinity };
  const sockets = new Set();
  let whenCut = [];
  const cut = () => {
    line.left = 0;
    for (const socket of sockets) socket.destroy();
    for (const then of whenCut) then();
    whenCut = [];
  };
  const server = createServer((browser) => {
    if (line.left <= 0) return browser.destroy();
    const { hostname, port } = new URL(base);
    const upstream = connect(Number(port), hostname);
    for (const [one, other] of [[browser, upstream], [upstream, browser]]) {
      sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
    upstream.pipe(browser);
    browser.on("data", (bytes) => {
      line.passed += bytes.length;
      line.left -= bytes.length;
      if (upstream.write(bytes)) return line.left <= 0 && cut();
      browser.pause(); // what counts has arrived
      upstream.once("drain", () => (line.left <= 0 ? cut() : browser.resume()));
    });
  });
  await new Promise((up) => server.listen(0, "127.0.0.1", up));
  return Object.assign(line, {
    origin: `http://127.0.0.1:${server.address().port}`,
    /** cutAfter mends the line, and cuts it after so many bytes, which are counted from now on. */
    cutAfter(bytes) {
      line.passed = 0;
      line.left = bytes;
    },
    isCut: () => (line.left <= 0 ? undefined : new Promise((then) => whenCut.push(then))),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((done) => server.close(done));
    },
  });
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

  step("an upload waits on all pages while the server does not answer, and goes on by itself", async ({ page }) => {
    await choose(page, csv("cut.csv", "email\nann@cut.example\n"));
    await page.getByRole("button", { name: "Upload", exact: true }).waitFor();
    await page.context().setOffline(true);
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    const panel = page.getByRole("region", { name: "Uploads" });
    await panel.getByText("Paused. The upload continues automatically when the server answers.").waitFor();
    await nav(page, "Callbacks");
    await page.getByText("No connection to the server").waitFor();
    await panel.getByText("Paused.").waitFor();
    await page.context().setOffline(false);
    await panel.getByRole("link", { name: "Open the job" }).waitFor();
    await panel.getByRole("button", { name: /^Dismiss/ }).click();
  });

  step("a long upload that was cut goes on where it stopped, twice, also after a reload, and the list is exact", async (t) => {
    const rows = Array.from({ length: 1000 }, (_, i) => `ann${i % 50}@long.invalid,${String(i).repeat(4000)}\n`);
    const list = Buffer.from(`email,note\n${rows.join("")}`);
    assert.ok(list.length > 10e6);
    const path = join(t.dir, "long.csv");
    await writeFile(path, list);
    const line = await openLine(t.base);
    const page = await t.page.context().newPage();
    try {
      await page.goto(`${line.origin}/app/lists`);
      await choose(page, path);
      line.cutAfter(4e6);
      await page.getByRole("button", { name: "Upload", exact: true }).click();
      const panel = page.getByRole("region", { name: "Uploads" });
      await panel.getByText("Paused.").waitFor();
      assert.ok(line.passed >= 4e6 && line.passed < 5e6, `${line.passed} bytes until the first cut`);
      line.cutAfter(3e6);
      await line.isCut();
      assert.ok(line.passed < 4e6, `${line.passed} bytes until the second cut`);
      await panel.getByText("Paused.").waitFor();
      page.once("dialog", (d) => d.accept());
      await page.goto("about:blank");
      line.cutAfter(Infinity);
      await page.goto(`${line.origin}/app/lists`);
      await panel.getByText(/^Upload interrupted at \d+ %. Nothing was charged. Select the file again to continue/).waitFor();
      line.cutAfter(Infinity);
      await panel.getByLabel("The file long.csv again").setInputFiles(path);
      await panel.getByRole("link", { name: "Open the job" }).click();
      await heading(page, "long.csv");
      assert.ok(line.passed < list.length - 5e6, `${line.passed} bytes of ${list.length} were sent after two cuts`);

      // The options are changed without another upload.
      line.cutAfter(Infinity);
      await page.getByRole("button", { name: "Change this" }).click();
      await page.getByRole("button", { name: "Upload", exact: true }).click();
      await page.getByRole("button", { name: "Start" }).click();
      await page.getByText("completed", { exact: true }).first().waitFor();
      assert.ok(line.passed < 1e6, `${line.passed} bytes were sent for other options`);
      const results = await page.evaluate((id) => fetch(`/v1/verify/bulk/${id}/results`).then((r) => r.text()), page.url().split("/").at(-1));
      const lines = results.split("\n");
      assert.equal(lines.length, rows.length + 2);
      for (const [i, row] of rows.entries()) assert.ok(lines[i + 1].startsWith(`${row.trimEnd()},`), `row ${i + 1} is as it was sent`);
    } finally {
      await page.close();
      await line.close();
    }
  });

  step("a long upload that is stopped leaves nothing on the server", async (t) => {
    const line = await openLine(t.base);
    const page = await t.page.context().newPage();
    try {
      await page.goto(`${line.origin}/app/lists`);
      await choose(page, join(t.dir, "long.csv"));
      line.cutAfter(4e6);
      const made = page.waitForResponse((r) => r.request().method() === "POST" && r.url().endsWith("/v1/uploads"));
      await page.getByRole("button", { name: "Upload", exact: true }).click();
      const { upload_id } = await (await made).json();
      const panel = page.getByRole("region", { name: "Uploads" });
      await panel.getByText("Paused.").waitFor();
      line.cutAfter(Infinity);
      const deleted = page.waitForResponse((r) => r.request().method() === "DELETE" && r.status() === 204);
      await panel.getByRole("button", { name: "Stop" }).click();
      await panel.getByText("Upload cancelled. Nothing was charged.").waitFor();
      await deleted;
      const left = await page.evaluate((id) => fetch(`/v1/uploads/${id}`, { headers: { "Tus-Resumable": "1.0.0" } }).then((r) => r.status), upload_id);
      assert.equal(left, 404);
    } finally {
      await page.close();
      await line.close();
    }
  });

  step("a JSON array is not shown as a list", async ({ page }) => {
    await choose(page, csv("people.json", '[{"email":"ann@array.example"},\n{"email":"bo@array.example"}]\n'));
    await page.getByRole("alert").getByText("This is a JSON array. Upload JSON lines instead").waitFor();
    assert.equal(await page.getByRole("region", { name: "First rows of the list" }).count(), 0);
    await page.getByRole("button", { name: "Choose another" }).click();
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
