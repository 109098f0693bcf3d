// The widget on pages of other origins: one that may use it, and one that may not.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { findings } from "./look.mjs";

/** openShop serves a page of an origin of its own, with the widget in a place that is kept for it. */
export async function openShop() {
  let script = "";
  const server = createServer((request, response) => {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    if (request.url === "/dunkel") {
      response.end(`<!doctype html><html lang="de-AT"><head><title>Laden</title><meta name="viewport" content="width=device-width">
<style>body { background: #14171c; color: #e8eaee; }</style></head><body><main><h1>Ein Laden</h1><div id="check"></div></main>
<script src="${script}/widget.js" data-target="#check" async></script></body></html>`);
      return;
    }
    response.end(`<!doctype html><html lang="en"><head><title>Shop</title><meta name="viewport" content="width=device-width">
<style>:root { --probity-accent: #6b2fa0; } #check { min-height: 11.5rem; }</style></head>
<body><main><h1>A shop</h1><div id="check"></div><p id="below">What stands below.</p></main>
<script src="${script}/widget.js" data-target="#check" data-label="Is it real?" async></script></body></html>`);
  });
  await new Promise((up) => server.listen(0, "127.0.0.1", up));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    of: (base) => (script = base),
    close: () =>
      new Promise((done) => {
        server.closeAllConnections();
        server.close(done);
      }),
  };
}

/** watch notes the widget's states and what moves on the page. */
const watch = () => {
  globalThis.states = [];
  globalThis.moved = 0;
  globalThis.answers = [];
  new PerformanceObserver((l) => {
    for (const e of l.getEntries()) globalThis.moved += e.value;
  }).observe({ type: "layout-shift", buffered: true });
  new MutationObserver((l) => {
    for (const m of l) if (m.attributeName === "data-state") globalThis.states.push(m.target.dataset.state);
  }).observe(document, {
    subtree: true,
    attributes: true,
  });
  addEventListener("probity-result", (e) => globalThis.answers.push(e.detail));
};

const state = (page) => page.locator("probity-check").getAttribute("data-state");
const isIn = (page, name) => page.locator(`probity-check[data-state=${name}]`).waitFor({ timeout: 60_000 });

/** widget adds its steps; t has what earlier ones found. */
export function widget(step) {
  step("the widget checks an address on another origin, by keyboard", async (t) => {
    const page = await t.page.context().newPage();
    t.shopPage = page;
    await page.addInitScript(watch);
    await page.goto(t.shop.origin);
    await isIn(page, "idle");
    const place = await page.locator("#below").boundingBox();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByText("Type an e-mail address first.").waitFor();
    await page.keyboard.type("not an address");
    await page.keyboard.press("Tab"); // to the button
    await page.keyboard.press("Space");
    await isIn(page, "result");
    await page.getByRole("status").getByText("this is not an e-mail address").waitFor();
    assert.deepEqual(await page.evaluate(() => globalThis.states), ["idle", "idle", "checking", "result"]);
    const [answer] = await page.evaluate(() => globalThis.answers);
    assert.equal(Object.keys(answer).length, 15);
    assert.deepEqual([answer.status, answer.credits_used], ["INVALID", 0]);
    assert.equal(await page.locator("probity-check").getByRole("button").evaluate((e) => getComputedStyle(e).backgroundColor), "rgb(107, 47, 160)", "it is themed");
    t.place = place;
  });

  step("the widget is dark on a dark page, and speaks its language", async ({ page: main, shop }) => {
    const page = await main.context().newPage();
    await page.goto(`${shop.origin}/dunkel`);
    await isIn(page, "idle");
    const form = page.locator("probity-check form");
    assert.equal(await form.evaluate((e) => getComputedStyle(e).backgroundColor), "rgba(0, 0, 0, 0)");
    assert.equal(await form.evaluate((e) => getComputedStyle(e).color), "rgb(232, 234, 238)");
    await page.getByLabel("E-Mail-Adresse prüfen").fill("keine Adresse");
    await page.getByRole("button", { name: "Prüfen" }).click();
    await page.getByText("das ist keine E-Mail-Adresse").waitFor();
    assert.deepEqual(await findings(page), []);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/widget-dark.png` });
    await page.close();
  });

  step("the widget says that it cannot reach us", async ({ page: main, shopPage: page }) => {
    await main.context().setOffline(true);
    await page.getByLabel("Is it real?").fill("ann@example.org");
    await page.keyboard.press("Enter");
    await isIn(page, "offline");
    await main.context().setOffline(false);
  });

  step("the widget says when the limit is reached, and nothing on the page moves", async ({ base, shop, shopPage: page, place }) => {
    for (const email of ["ann@nowhere.invalid", "bob@nowhere.invalid", "cem@nowhere.invalid"]) {
      const seen = await page.evaluate(() => globalThis.states.length);
      await page.getByLabel("Is it real?").fill(email);
      await page.keyboard.press("Enter");
      await page.waitForFunction((n) => globalThis.states.length >= n, seen + 2); // checking, and what came of it
    }
    assert.equal(await state(page), "limit", "three a day");
    await page.getByText(/Try again in \d+ (hours|minutes|days)/).waitFor();
    assert.deepEqual(await findings(page), []);
    assert.deepEqual(await page.locator("#below").boundingBox(), place);
    assert.equal(await page.evaluate(() => globalThis.moved), 0);
    const refused = await fetch(base + "/v1/verify/public", { method: "POST", headers: { Origin: shop.origin, "Content-Type": "application/json" }, body: '{"email":"ann@example.org"}' });
    assert.equal(refused.status, 429);
    assert.ok(Number(refused.headers.get("retry-after")) > 0);
    await page.setViewportSize({ width: 320, height: 640 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320);
    await page.close();
  });

  step("a page of an origin that is not let in gets nothing", async ({ page: main, base, stranger }) => {
    const page = await main.context().newPage();
    await page.goto(stranger.origin);
    await isIn(page, "idle");
    await page.getByLabel("Is it real?").fill("ann@example.org");
    await page.keyboard.press("Enter");
    await isIn(page, "offline");
    await page.close();
    const refused = await fetch(base + "/v1/verify/public", { method: "POST", headers: { Origin: stranger.origin, "Content-Type": "application/json" }, body: '{"email":"ann@example.org"}' });
    assert.equal(refused.status, 403);
    assert.match((await refused.json()).detail, /--cors-origin/);
  });
}
