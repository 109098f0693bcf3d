// What a new customer does first. Needs no other part before it.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { signIn } from "./browser.mjs";
import { asSession, heading, nav, signOut, sweep } from "./steps.mjs";

/** newcomer adds its steps. */
export function newcomer(step) {
  step("a new customer comes from an invitation to a downloaded list in at most eight clicks", async (t) => {
    const { page, base, email, password } = t;
    await signIn(page, base, email, password);
    const made = await asSession(page, "POST", "/v1/admin/users", { email: "nora@customer.example", credits: 100 });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const { users } = (await asSession(page, "GET", "/v1/admin/users")).body;
    const link = await asSession(page, "POST", `/v1/admin/users/${users.find((u) => u.email === "nora@customer.example").id}/reset`);
    assert.equal(link.status, 201, JSON.stringify(link.body));
    await signOut(page);

    let clicks = 0;
    const click = async (what) => {
      clicks++;
      await what.click();
    };
    await page.goto(new URL(link.body.url, base).href);
    await page.getByLabel("New password").pressSequentially("nora's own words");
    await click(page.getByRole("button", { name: "Set the password" }));
    await click(page.getByRole("link", { name: "Sign in" }));
    await page.getByLabel("E-mail address").pressSequentially("nora@customer.example");
    await page.locator("input[type=password]").pressSequentially("nora's own words");
    await click(page.getByRole("button", { name: "Sign in" }));
    await heading(page, "Overview");
    await click(page.getByRole("button", { name: "use a sample list" }));
    await click(page.getByRole("button", { name: "Upload", exact: true }));
    await page.getByText("of 9 rows").waitFor();
    await click(page.getByRole("button", { name: "Start" }));
    await page.getByText("completed", { exact: true }).waitFor({ timeout: 120_000 });
    clicks++;
    const [coming] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Everything" }).click()]);
    const lines = (await readFile(await coming.path(), "utf8")).trimEnd().split(/\r?\n/);
    assert.equal(lines.length, 10);
    assert.match(lines[0], /^name,email,city,/);
    assert.ok(clicks <= 8, `${clicks} clicks`);
  });

  step("the first steps say what is done, and go when they are hidden", async ({ page, base }) => {
    await nav(page, "Overview");
    const steps = page.getByRole("listitem");
    await steps.filter({ hasText: "Upload a list, done" }).waitFor();
    assert.equal(await steps.filter({ hasText: "Create an API key, done" }).count(), 0);
    assert.equal((await asSession(page, "POST", "/v1/dash/keys", { name: "first" })).status, 201);
    await page.reload();
    await steps.filter({ hasText: "Create an API key, done" }).waitFor();
    await sweep(page, base, [""]);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole("button", { name: "Hide this" }).click();
    await page.reload();
    await page.getByRole("heading", { name: "Latest jobs" }).waitFor();
    assert.equal(await page.getByRole("heading", { name: "Get started" }).count(), 0);
    await signOut(page);
  });
}
