// The reference of the API, which /docs draws: for axe as good as any page, and with nothing asked for from elsewhere.
import assert from "node:assert/strict";
import { findings, overflow, settled } from "./look.mjs";

/** docs adds its step; it needs no other before it. */
export function docs(step) {
  step("the reference shows calls with samples, has nothing wrong for axe, and asks for our files alone", async ({ page, base }) => {
    const elsewhere = [];
    const watch = (r) => r.url().startsWith(base) || /^(data|blob):/.test(r.url()) || elsewhere.push(r.url());
    page.on("request", watch);
    for (const [width, colorScheme] of [
      [390, "light"],
      [390, "dark"],
      [1280, "light"],
      [1280, "dark"],
    ]) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      for (const [at, title] of [
        ["", "Probity"],
        ["#tag/verify/POST/v1/verify/single", "Verify one address"],
        ["#tag/lists/POST/v1/verify/bulk", "Upload a list"],
      ]) {
        await page.goto("about:blank");
        await page.goto(`${base}/docs${at}`);
        await page.getByRole("heading", { name: title }).first().waitFor();
        await page.waitForLoadState("networkidle");
        await settled(page);
        const name = `docs${at.replaceAll(/\W+/g, "-")}-${width}-${colorScheme}`;
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}.png` });
        assert.deepEqual(await findings(page), [], name);
        assert.equal(await overflow(page), 0, `${name} is too wide`);
      }
    }
    await page.getByRole("button", { name: "Shell Curl" }).first().click();
    for (const language of ["JavaScript", "Python", "Go", "PHP"]) await page.getByText(language, { exact: true }).last().waitFor();
    page.off("request", watch);
    assert.deepEqual(elsewhere, []);
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  });
}
