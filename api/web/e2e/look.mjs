// Looks at every page: a screenshot in each size and colour scheme, and what axe finds. node e2e/look.mjs BASE EMAIL PASSWORD [DIR]
import { readFile, mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { openBrowser, signIn } from "./browser.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const sizes = [
  [390, 844],
  [1280, 800],
  [1920, 1080],
];
const schemes = ["light", "dark"];
export const places = [
  "",
  "verify",
  "lists",
  "logs",
  "logs?tab=requests",
  "logs?tab=verifications",
  "docs",
  "settings/keys",
  "settings/callbacks",
  "settings/usage",
  "settings/accuracy",
  "settings/account",
  "operator",
  "operator/cluster",
  "operator/providers",
  "operator/users",
  "operator/jobs",
  "operator/suppressions",
  "operator/probes",
  "operator/audit",
];

/** findings are what axe has against the page as it is. */
export async function findings(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
  );
  return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary?.split("\n").slice(1).join(";").trim()}`));
}

/** settled waits until a page has what it asked for, and drew it. */
export async function settled(page) {
  await page.waitForFunction(() => ![...document.querySelectorAll("[role=status]")].some((e) => /^(Loading|Drawing|Counting)/.test(e.textContent ?? "")), null, { timeout: 15000 });
  await page.waitForFunction(() => document.getAnimations().every((a) => a.playState !== "running" || a.effect.getTiming().iterations === Infinity));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** overflow is what is wider than the page. */
export async function overflow(page) {
  return page.evaluate(() => {
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    return wide > 1 ? wide : 0;
  });
}

/** lookAtAll takes a picture of every page, and of every scene: what a page shows once something was done on it, as
 * [name, what to do]. Each in every size and colour scheme; it tells what is wrong, and returns how much. With names in only,
 * pictures are of these: the others are opened all the same, as one scene begins where another ended. */
export async function lookAtAll(page, base, dir, scenes = [], only = []) {
  let wrong = 0;
  page.on("pageerror", (e) => console.log("page error:", e.message, ++wrong));
  page.on("console", (m) => m.type() === "error" && !/ 40[14] /.test(m.text()) && console.log("console:", m.text(), m.location().url, ++wrong));
  const all = [...places.map((place) => [(place || "overview").replaceAll(/[/?=]/g, "-"), () => page.goto(`${base}/app/${place}`)]), ...scenes];
  for (const [scene, open] of all) {
    await page.setViewportSize({ width: 1280, height: 800 });
    await open(page);
    await page.locator("h1").waitFor();
    if (only.length > 0 && !only.includes(scene)) continue;
    await page.mouse.move(0, 0);
    for (const scheme of schemes) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      for (const [width, height] of sizes) {
        await page.setViewportSize({ width, height });
        await settled(page);
        await page.evaluate(() => scrollTo(0, 0));
        const name = `${scene}-${width}-${scheme}`;
        await page.screenshot({ path: `${dir}/${name}.png`, fullPage: true });
        const wide = await overflow(page);
        if (wide) console.log(`${name}: ${wide} pixels too wide`, ++wrong);
        for (const f of await findings(page)) console.log(`${name}: ${f}`, ++wrong);
      }
    }
  }
  console.log(wrong === 0 ? "nothing to mend" : `${wrong} things to mend`);
  return wrong;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [base, email, password, dir = "shots"] = process.argv.slice(2);
  await mkdir(dir, { recursive: true });
  const { context, close } = await openBrowser();
  try {
    const page = context.pages()[0];
    await signIn(page, base, email, password);
    const jobs = await page.evaluate(() => fetch("/v1/verify/bulk?limit=1").then((r) => r.json()));
    const newest = jobs.jobs.slice(0, 1).map((j) => ["job", () => page.goto(`${base}/app/lists/${j.job_id}`)]);
    process.exitCode = (await lookAtAll(page, base, dir, newest)) === 0 ? 0 : 1;
  } finally {
    await close();
  }
}
