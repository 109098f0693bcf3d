// What a developer looks up: callbacks that failed, requests, and verdicts with their evidence. Needs no other part before it.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { signIn } from "./browser.mjs";
import { findings } from "./look.mjs";
import { asSession, bearer, heading, signOut, sweep } from "./steps.mjs";

/** openReceiver takes callbacks, and refuses them while it is out of order. */
async function openReceiver() {
  const receiver = { works: false, taken: 0 };
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      if (receiver.works) receiver.taken++;
      response.writeHead(receiver.works ? 204 : 500, { "Content-Type": "text/plain" });
      response.end(receiver.works ? undefined : "the shop's database is away");
    });
  });
  await new Promise((up) => server.listen(0, "127.0.0.1", up));
  receiver.url = `http://127.0.0.1:${server.address().port}/hook`;
  receiver.close = () =>
    new Promise((done) => {
      server.closeAllConnections();
      server.close(done);
    });
  return receiver;
}

/** uploadWithCallback uploads a list, and waits until its callback was tried. */
const uploadWithCallback = (page, url) =>
  page.evaluate(async (url) => {
    const { csrf_token } = await (await fetch("/v1/dash/session")).json();
    const form = new FormData();
    form.set("name", "Nightly");
    form.set("callback_url", url);
    form.set("file", new File(["email\nnot an address\n"], "nightly.csv"));
    const { job_id } = await (await fetch("/v1/verify/bulk", { method: "POST", headers: { "X-CSRF-Token": csrf_token }, body: form })).json();
    for (;;) {
      const { attempts } = await (await fetch(`/v1/verify/bulk/${job_id}/callback`)).json();
      if (attempts.length > 0) return job_id;
      await new Promise((done) => setTimeout(done, 100));
    }
  }, url);

/** logs adds its steps. */
export function logs(step) {
  step("a developer finds the callback that failed, and replays it, in at most four clicks", async (t) => {
    const { page, base, email, password } = t;
    await signIn(page, base, email, password);
    const receiver = await openReceiver();
    try {
      t.called = await uploadWithCallback(page, receiver.url);
      await page.goto(`${base}/app`);
      await heading(page, "Overview");
      await page.evaluate(() => {
        globalThis.clicks = 0;
        addEventListener("click", () => globalThis.clicks++, true);
      });
      await page.getByRole("link", { name: "Logs", exact: true }).click();
      const failing = page.getByRole("region", { name: "Failing callbacks" }).getByRole("row", { name: /^Nightly/ });
      await failing.getByText("answered 500").waitFor();
      await failing.getByText("the shop's database is away").waitFor();
      receiver.works = true;
      await failing.getByRole("button", { name: "Send again: the callback of Nightly" }).click();
      await failing.waitFor({ state: "detached" });
      const row = page.getByRole("region", { name: "All callbacks" }).getByRole("row", { name: /^Nightly/ });
      await row.getByText("delivered", { exact: true }).waitFor();
      assert.equal(receiver.taken, 1);
      const clicks = await page.evaluate(() => globalThis.clicks);
      assert.ok(clicks <= 4, `${clicks} clicks`);
      await row.getByRole("link", { name: "Nightly" }).click();
      await heading(page, "Nightly");
      await page.getByRole("region", { name: "Attempts" }).getByText("the shop's database is away").waitFor();
    } finally {
      await receiver.close();
    }
  });

  step("a job's page tells its outcome first, and the rest part by part, with the evidence of rows", async (t) => {
    const { page, base } = t;
    const id = await page.evaluate(async (text) => {
      const { csrf_token } = await (await fetch("/v1/dash/session")).json();
      const form = new FormData();
      form.set("details", "true");
      form.set("file", new File([text], "parts.csv"));
      const { job_id } = await (await fetch("/v1/verify/bulk", { method: "POST", headers: { "X-CSRF-Token": csrf_token }, body: form })).json();
      return job_id;
    }, t.list.split("\n").slice(0, 40).join("\n"));
    await page.goto(`${base}/app/lists/${id}`);
    await page.getByText("completed", { exact: true }).waitFor({ timeout: 120_000 });
    const { counts, credits_used } = (await asSession(page, "GET", `/v1/verify/bulk/${id}`)).body;
    await page.getByText(`${credits_used} credits used`).waitFor();
    const { scores } = (await asSession(page, "GET", `/v1/dash/jobs/${id}/providers`)).body;
    const rows = Object.values(counts).reduce((a, b) => a + b, 0);
    assert.equal(scores.reduce((a, b) => a + b, 0), rows);
    const drawn = await page.getByRole("img", { name: /^score / }).getAttribute("aria-label");
    const told = drawn.split(", ").map((part) => Number(/: (\d+) rows?$/.exec(part)[1]));
    assert.deepEqual(told, scores.filter(Boolean));
    await page.getByRole("tab", { name: "Rows" }).click();
    await page.getByLabel("Search by e-mail or domain").fill("@");
    await page.getByRole("button", { name: "Search" }).click();
    const found = page.getByRole("region", { name: "Rows found" });
    await found.getByRole("button", { name: "Evidence of row 1", exact: true }).click();
    await found.getByText("Score", { exact: true }).last().waitFor();
    await page.reload();
    await found.getByRole("button", { name: "Evidence of row 1", exact: true }).waitFor();
    await page.getByRole("tab", { name: "Receivers" }).click();
    await page.getByRole("region", { name: "Rows by provider" }).waitFor();
    await page.goBack();
    await found.waitFor();
    await found.getByRole("button", { name: "Evidence of row 1", exact: true }).click();
    assert.deepEqual(await findings(page), []);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/evidence.png`, fullPage: true });
    await sweep(page, base, [`lists/${id}`]);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  step("a failed request is found, with what the API answered", async (t) => {
    const { page, base } = t;
    const { key } = (await asSession(page, "POST", "/v1/dash/keys", { name: "crm" })).body;
    const call = (body) => fetch(`${base}/v1/verify/single`, { method: "POST", headers: { ...bearer(key).headers, "Content-Type": "application/json" }, body });
    assert.equal((await call('{"emial":"ann@logs.example"}')).status, 422);
    t.single = await call(JSON.stringify({ email: t.list.split("\n")[1].match(/[^,"\s]+@[^,"\s]+/)[0] }));
    assert.equal(t.single.status, 200);
    await page.goto(`${base}/app/logs`);
    await page.getByRole("tab", { name: "API requests" }).click();
    const table = page.getByRole("region", { name: "API requests" });
    await table.getByRole("row", { name: /200 .* crm$/ }).first().waitFor();
    await page.getByLabel("Errors only").check();
    await table.getByRole("row", { name: /200/ }).first().waitFor({ state: "detached" });
    await page.reload();
    await table.getByRole("row", { name: /422 .*email.* crm$/ }).getByRole("link").click();
    await heading(page, "Request");
    await page.getByText("/v1/verify/single").waitFor();
    await page.goBack();
    assert.equal(await page.getByLabel("Errors only").isChecked(), true);
  });

  step("a verification is found by its address, with the reply that it rests on", async ({ page, base, list, single }) => {
    const { email } = await single.json();
    assert.ok(list.includes(email));
    await page.getByRole("tab", { name: "Verifications" }).click();
    await page.getByLabel("Part of the address").fill(email.slice(0, -2).toUpperCase());
    await page.getByRole("button", { name: "Search" }).click();
    const table = page.getByRole("region", { name: "Verifications" });
    await table.getByRole("link", { name: email }).waitFor();
    assert.equal(new URL(page.url()).search, "?tab=verifications", "no server sees the address of the page");
    await table.getByRole("link", { name: email }).click();
    await page.getByRole("heading", { name: "Evidence" }).waitFor();
    const said = JSON.parse(await page.getByLabel("The receipt as JSON").textContent());
    assert.equal(said.statement.status, (await page.getByRole("region", { name: "Verdicts of the request" }).locator(".badge").first().textContent()));
    await sweep(page, base, ["logs", "logs?tab=requests", "logs?tab=verifications", `logs?request=${single.headers.get("x-request-id")}`]);
    await page.setViewportSize({ width: 1280, height: 800 });
    await signOut(page);
  });
}
