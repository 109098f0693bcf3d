// The dashboard and the widget in a real browser, on a real service of several processes, before a pretend mail internet: what
// customers and operators do. node e2e/run.mjs [PROGRAM [PART...]]; it is skipped, with the reason, where something is missing.
// E2E_BROWSER=firefox is for "newcomer", the main story; other parts use what only Chromium has.
// The parts run in their order, of which "docs", "faults", "totp", "dialects", "state", "logs", "newcomer" and "figures" need no other before them.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { findBrowser, kind, openBrowser } from "./browser.mjs";
import { customer } from "./customer.mjs";
import { dialects } from "./dialects.mjs";
import { docs } from "./docs.mjs";
import { faults } from "./faults.mjs";
import { figures } from "./figures.mjs";
import { startFleet } from "./fleet.mjs";
import { logs } from "./logs.mjs";
import { newcomer } from "./newcomer.mjs";
import { operator } from "./operator.mjs";
import { state } from "./state.mjs";
import { rows } from "./steps.mjs";
import { totp } from "./totp.mjs";
import { openShop, widget } from "./widget.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const program = resolve(process.argv[2] ?? join(here, "../../../bin/probity"));

function skip(why) {
  console.log(`*** SKIPPED: the dashboard in ${kind}, because ${why}`);
  process.exit(0);
}

if (!findBrowser()) skip(`there is no ${kind} on this machine (Debian: apt-get install ${kind === "firefox" ? "firefox-esr" : kind})`);
if (!existsSync(program)) throw new Error(`there is no program at ${program}: run make build`);
if (!existsSync(join(here, "../dist/index.html"))) skip("the dashboard is not built (make web build)");

const steps = [];
const step = (name, run) => steps.push([name, run]);
const parts = { docs, faults, totp, dialects, state, logs, newcomer, figures, customer, widget, operator };
const wanted = process.argv.slice(3);
for (const [name, add] of Object.entries(parts)) if (wanted.length === 0 || wanted.includes(name)) add(step);

const dir = await mkdtemp(join(tmpdir(), "probity-dashboard-"));
const began = Date.now();
const more = []; // what steps started, to be ended
let fleet, browser, shop, stranger;
try {
  shop = await openShop();
  stranger = await openShop();
  fleet = await startFleet(program, dir, [shop.origin], ["--allow-private-callbacks", "127.0.0.0/8"]);
  shop.of(fleet.base);
  stranger.of(fleet.base);
  const list = await fleet.list(rows);
  const file = join(dir, "list.csv");
  await writeFile(file, list);
  browser = await openBrowser();
  const page = browser.context.pages()[0];
  browser.context.setDefaultTimeout(60_000); // nothing here takes long on a machine that has nothing else to do
  const broken = [];
  page.on("pageerror", (e) => broken.push(e.message));
  page.on("console", (m) => /Content Security Policy/.test(m.text()) && broken.push(m.text()));
  const t = { dir, fleet, base: fleet.base, email: fleet.email, password: fleet.password, page, list, file, shop, stranger, more };
  for (const [name, run] of steps) {
    const begun = Date.now();
    try {
      await run(t);
    } catch (e) {
      const shown = t.looker ?? page;
      await shown.screenshot({ path: join(here, "failed.png") }).catch(() => {});
      throw new Error(`${name}: ${e.message} (at ${shown.url()}; see e2e/failed.png)`, { cause: e });
    }
    console.log(`ok  ${name} (${Date.now() - begun} ms)`);
  }
  assert.deepEqual(broken, [], "the pages threw nothing, and asked for nothing that their policy forbids");
  console.log(`ok  ${steps.length} steps in ${kind} (${Math.round((Date.now() - began) / 1000)} s)`);
} finally {
  await browser?.close();
  for (const one of more) await one();
  await fleet?.stop();
  await shop?.close();
  await stranger?.close();
  await rm(dir, { recursive: true, force: true });
}
