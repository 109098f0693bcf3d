// An account that asks for the code of an authenticator app: switched on, signed in to, switched off by its user and by an admin.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { signIn } from "./browser.mjs";
import { findings } from "./look.mjs";
import { asSession, heading, nav, signOut, sweep } from "./steps.mjs";

/** codeOf is what an app shows for a secret, so many steps of 30 seconds from now. */
function codeOf(secret, ahead = 0) {
  const bits = [...secret].map((c) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(c).toString(2).padStart(5, "0")).join("");
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + ahead));
  const sum = createHmac("sha1", Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)))).update(step).digest();
  const code = (sum.readUInt32BE(sum[19] & 15) & 0x7fffffff) % 1_000_000;
  return String(code).padStart(6, "0");
}

const panel = (page) => page.locator(".panel", { has: page.getByRole("heading", { name: "Authenticator app" }) });

/** switchOn sets an app up on the account's page, and gives its secret and the recovery codes. */
async function switchOn(page, base, password) {
  await page.goto(base + "/app/settings/account");
  const p = panel(page);
  await p.getByLabel("Your password").fill(password);
  await p.getByRole("button", { name: "Set up an app" }).click();
  const secret = await p.getByLabel("The secret", { exact: true }).textContent();
  assert.equal(new URL(await p.getByLabel("The secret as a URL").textContent()).searchParams.get("secret"), secret);
  assert.equal(await p.getByRole("link", { name: "open it there" }).getAttribute("href"), await p.getByLabel("The secret as a URL").textContent());
  await p.getByLabel("Code").fill("12345x");
  await p.getByRole("button", { name: "Switch on" }).click();
  await p.getByText("code is not one of this secret").waitFor();
  await p.getByLabel("Code").fill(codeOf(secret));
  await p.getByRole("button", { name: "Switch on" }).click();
  const recovery = (await p.getByLabel("Recovery codes", { exact: true }).textContent()).trim().split("\n");
  assert.equal(recovery.length, 10);
  await p.getByRole("button", { name: "Done" }).click();
  await p.getByText("10 recovery codes are left").waitFor();
  return { secret, recovery };
}

/** totp adds its steps. */
export function totp(step) {
  step("an account switches on an authenticator app", async (t) => {
    const { page, base, email, password } = t;
    await signIn(page, base, email, password);
    const made = await asSession(page, "POST", "/v1/admin/users", { email: "eve@customer.example" });
    assert.equal(made.status, 201);
    t.eve = { email: "eve@customer.example", password: made.body.password };
    await signOut(page);
    await signIn(page, base, t.eve.email, t.eve.password);
    Object.assign(t.eve, await switchOn(page, base, t.eve.password));
    await sweep(page, base, ["settings/account"]);
    assert.ok(!(await page.content()).includes(t.eve.secret), "the secret is shown once");
  });

  step("signing in asks for a code after the right password only", async ({ page, base, eve }) => {
    await signOut(page);
    await page.goto(base + "/");
    await page.getByLabel("E-mail address").fill(eve.email);
    const box = page.locator("input[type=password]");
    const submit = page.getByRole("button", { name: "Sign in" });
    await box.fill("not the password");
    await submit.click();
    await page.getByText("The e-mail address or the password is wrong").waitFor();
    assert.equal(await page.getByLabel("Code").count(), 0);
    await box.fill(eve.password);
    await submit.click();
    await page.getByLabel("Code").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0, "to be asked for a code is no fault");
    assert.deepEqual(await findings(page), []);
    await page.getByLabel("Code").fill("12345x");
    await submit.click();
    await page.getByText("The code is wrong").waitFor();
    await page.getByLabel("Code").fill(codeOf(eve.secret, 1)); // the present one may have been used to switch it on
    await submit.click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  step("password and recovery code switch the app off", async ({ page, base, eve }) => {
    await page.goto(base + "/app/settings/account");
    const p = panel(page);
    await p.getByLabel("Your password").fill(eve.password);
    await p.getByLabel("Code").fill(eve.recovery[0]);
    await p.getByRole("button", { name: "Switch off" }).click();
    await p.getByRole("button", { name: "Set up an app" }).waitFor();
    await signOut(page);
    await signIn(page, base, eve.email, eve.password);
  });

  step("an admin lets an account that has lost its app sign in", async ({ page, base, email, password, eve }) => {
    await switchOn(page, base, eve.password);
    await signOut(page);
    await signIn(page, base, email, password);
    await nav(page, "Users");
    await page.getByRole("button", { name: `Change ${eve.email}` }).click();
    await page.getByRole("menuitem", { name: "Switch the authenticator app off" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Switch off" }).click();
    await page.getByRole("row", { name: new RegExp(eve.email) }).getByRole("cell", { name: "off", exact: true }).waitFor();
    await signOut(page);
    await signIn(page, base, eve.email, eve.password);
    await signOut(page);
    await heading(page, "Sign in");
  });
}
