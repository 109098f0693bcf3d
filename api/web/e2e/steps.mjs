// What the steps of the test have in common.
import assert from "node:assert/strict";
import { findings, overflow, settled } from "./look.mjs";

export const rows = 20_000;

/** bearer is the header of a client with a key. */
export const bearer = (key) => ({ headers: { Authorization: `Bearer ${key}` } });

/** nav goes to a page by the menu. */
export const nav = (page, name) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();

/** heading waits for a page's own heading. */
export const heading = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();

/** statusOf is how the API answers the page's own session. */
export const statusOf = (page, path) => page.evaluate((p) => fetch(p).then((r) => r.status), path);

/** asSession calls the API as the page does. */
export const asSession = (page, method, path, body) =>
  page.evaluate(
    async ({ method, path, body }) => {
      const { csrf_token } = await (await fetch("/v1/dash/session")).json();
      const headers = { "X-CSRF-Token": csrf_token, ...(body && { "Content-Type": "application/json" }) };
      const r = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
      return { status: r.status, body: r.status === 204 ? null : await r.json() };
    },
    { method, path, body },
  );

/** upload sends a list as the page would. */
export async function upload(page, name, text, more = {}) {
  return page.evaluate(
    async ({ name, text, more }) => {
      const { csrf_token } = await (await fetch("/v1/dash/session")).json();
      const form = new FormData();
      form.set("name", name);
      for (const [k, v] of Object.entries(more)) form.set(k, v);
      form.set("file", new File([text], name.toLowerCase().replaceAll(" ", "-") + ".csv"));
      const r = await fetch("/v1/verify/bulk", { method: "POST", headers: { "X-CSRF-Token": csrf_token }, body: form });
      return (await r.json()).job_id;
    },
    { name, text, more },
  );
}

/** ended waits for the end of a job. */
export async function ended(page, id) {
  for (;;) {
    const { status, body } = await asSession(page, "GET", `/v1/verify/bulk/${id}?wait=20`);
    assert.equal(status, 200, JSON.stringify(body));
    if (["completed", "cancelled", "failed"].includes(body.status)) return;
  }
}

/** signOut ends the session by the menu. */
export async function signOut(page) {
  await page.getByRole("button", { name: /^Account .+@/ }).click();
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await heading(page, "Sign in");
  assert.equal(await page.getByText("Your session expired. Sign in to continue.").count(), 0, "who signs out knows");
}

/** sweep holds that pages have nothing wrong for axe and fit: narrow and light, wide and dark. look.mjs tries all of it. With a
 * folder in SHOTS it keeps pictures there. */
export async function sweep(page, base, places) {
  for (const place of places) {
    await page.goto(`${base}/app/${place}`);
    await page.locator("h1").waitFor();
    await page.mouse.move(0, 0);
    for (const [width, colorScheme] of [
      [390, "light"],
      [1280, "dark"],
    ]) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await settled(page);
      if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${place.replaceAll(/\W/g, "-")}-${width}.png`, fullPage: true });
      assert.deepEqual(await findings(page), [], `${place} ${width} ${colorScheme}`);
      assert.equal(await overflow(page), 0, `${place} ${width} is too wide`);
    }
  }
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
}
