// Every sentence with a number or a time agrees with the field that it stands for: pages are read whole, and compared with what
// the API answered them. What is expected is computed here anew, not by the page's own functions.
import assert from "node:assert/strict";
import { join } from "node:path";
import { openBrowser, signIn } from "./browser.mjs";
import { startFleet } from "./fleet.mjs";
import { settled } from "./look.mjs";
import { asSession, ended, upload } from "./steps.mjs";

const verdicts = ["VALID", "RISKY", "INVALID", "UNKNOWN"];
const over = ["completed", "cancelled", "failed", "expired"];
const sum = (list, of = (n) => n) => list.reduce((n, one) => n + of(one), 0);
const all = (counts) => sum(verdicts, (v) => counts[v] ?? 0);
const n = (x) => x.toLocaleString("en-US");
const tenths = (x) => x.toLocaleString("en-US", { maximumFractionDigits: 1 });
const of = (x, word, words = `${word}s`) => `${n(x)} ${x === 1 ? word : words}`;
const titleOf = (j) => j.name || j.filename || j.job_id;

function share(part, whole) {
  if (part === 0 || whole === 0) return "0 %";
  if (part === whole) return "100 %";
  const percent = (100 * part) / whole;
  return percent < 0.1 ? "<0.1 %" : `${tenths(Math.min(99.9, percent))} %`;
}

/** span is a time in its two largest units. */
function span(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  if (rest < 60) return `${rest} s`;
  const parts = [];
  for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]]) {
    parts.push([Math.floor(rest / size), unit]);
    rest %= size;
  }
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).filter(([count]) => count > 0).map((p) => p.join(" ")).join(" ");
}

const date = (iso, more = {}) => new Date(iso).toLocaleDateString("en-US", { day: "numeric", month: "short", year: "numeric", ...more });
const day = (d) => date(`${d}T00:00:00Z`, { timeZone: "UTC" });
const exactly = (iso) => new Date(iso).toLocaleString("en-US", { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const clock = (at) => new Date(at).toLocaleTimeString("en-US", { hour: "2-digit", minute: "2-digit" });

/** moment is a time as pages say it, seen from now. */
function moment(iso, now) {
  const ago = (now - Date.parse(iso)) / 1000;
  if (Math.abs(ago) > 86_400) return date(iso);
  if (ago < 0) return `in ${span(-ago)}`;
  return ago < 10 ? "just now" : `${span(ago).replace(/ [\d]+ \D+$/, "")} ago`;
}

/** freeze gives the page one answer to each question, however often it asks, and returns what was answered by path. */
async function freeze(page) {
  const answers = new Map();
  const bodies = {};
  async function first(route) {
    const r = await route.fetch();
    const { pathname, search } = new URL(r.url());
    bodies[pathname + search] = JSON.parse((await r.text()) || "null");
    return { status: r.status(), headers: r.headers(), body: await r.body() };
  }
  await page.route("**/v1/**", async (route) => {
    if (route.request().url().endsWith("/v1/dash/events")) return route.abort();
    const key = `${route.request().method()} ${route.request().url()} ${route.request().postData()}`;
    if (!answers.has(key)) answers.set(key, first(route));
    await route.fulfill(await answers.get(key));
  });
  return bodies;
}

/** read is what a page says in numbers: its title, tables by name, names of pictures and bars, times, and all other lines. */
const read = (page) =>
  page.evaluate(() => {
    const main = document.querySelector("main");
    // biome-ignore lint/performance/useDomNodeTextContent: what is seen is compared, line by line
    const seen = (e) => e.innerText;
    const flat = (e) => seen(e).replace(/\s+/g, " ").trim();
    for (const d of main.querySelectorAll("details")) d.open = true;
    for (const axis of main.querySelectorAll(".hours")) axis.style.display = "none";
    const regions = [...main.querySelectorAll(".rows")];
    const tables = Object.fromEntries(regions.map((r) => [r.getAttribute("aria-label"), [...r.querySelectorAll("tbody tr")].map((tr) => [...tr.cells].map(flat))]));
    const times = [...main.querySelectorAll("time")].map((t) => ({ at: t.dateTime, title: t.title, text: seen(t) }));
    const labels = [...main.querySelectorAll("[role=img], [role=progressbar]")].map((e) => e.getAttribute("aria-label")).filter((l) => /\d/.test(l));
    for (const r of [...regions, ...main.querySelectorAll("svg")]) r.style.display = "none";
    const lines = seen(main).split("\n").map((l) => l.replace(/\s+/g, " ").trim()).filter((l) => /\d/.test(l));
    return { title: document.title, lines, tables, labels, times };
  });

/** timesAgree holds that each time is a field of an answer, told exactly where it is pointed at. */
function timesAgree(times, bodies, now, place) {
  const known = JSON.stringify(bodies);
  for (const t of times) {
    assert.ok(known.includes(`"${t.at}"`), `${place}: no answer has the time ${t.at}`);
    assert.deepEqual([t.title, t.text], [exactly(t.at), moment(t.at, now)], place);
  }
}


/** left says how long a running job still takes: between what the receivers' budgets say and what its rate says. */
function left(j, why, now) {
  const ends = why.receivers.filter((r) => r.done_by).map((r) => Date.parse(r.done_by));
  const least = ends.length > 0 ? Math.max(0, (Math.max(...ends) - now) / 1000) : null;
  const most = j.eta_seconds === null ? null : Math.max(j.eta_seconds, least ?? 0);
  if (most === null) return least === null ? "" : `, at least ${span(least)} left`;
  if (least === null || most < 60 || most <= 1.15 * least) return `, about ${span(most)} left`;
  return least < 60 ? `, up to ${span(most)} left` : `, ${span(least)} to ${span(most)} left`;
}

const rate = (j) => (j.rows_per_second > 0 ? `${tenths(j.rows_per_second)} rows/s` : "Running");

const waits = {
  budget: (w, from) => `Our limit (${w.limit.replaceAll("_", " ")})${from} is used up`,
  pause: (_, from) => `The receiver asked us to wait${from && `,${from}`}`,
  quarantine: (_, from) => `The receiver refuses us${from}`,
  connection: (_, from) => `The last connections failed${from}`,
  retry: () => "Deferred by the receiver; they are retried",
  node: (w) => `The node ${w.node} is away`,
  dns: () => "Their domains could not be looked up so far; they are retried",
};

/** waitsOf is the cell that says what the rows of a receiver wait for. */
function waitsOf(r, now) {
  const lines = r.waits.map((w) => {
    const opens = w.opens_at ? `, opens ${moment(w.opens_at, now)}` : "";
    return `${waits[w.for](w, w.source ? ` from ${w.source}` : "")}: ${of(w.rows, "row")}${opens}${w.reply ? ` ${w.reply} (${w.rule})` : ""}`;
  });
  if (r.queued > 0) lines.push(`Waiting for their turn: ${of(r.queued, "row")}`);
  if (r.asking > 0) lines.push(`Being asked now: ${of(r.asking, "row")}`);
  return lines.join(" ");
}

const whyRows = (why, now) =>
  why.receivers.map((r) => [r.receiver, n(r.rows), waitsOf(r, now), r.opens_at ? moment(r.opens_at, now) : r.asking > 0 ? "open" : "not known", r.done_by ? moment(r.done_by, now) : "not known"]);

const divided = (counts) => verdicts.map((v) => `${v} ${share(counts[v], all(counts))}`).join(", ");
const outcomeLines = (j) => [`${share(j.counts.VALID, all(j.counts))} safe to send`, ...verdicts.flatMap((v) => [n(j.counts[v]), share(j.counts[v], all(j.counts))])];
const downloadLines = (j, word, words, whole) => [j.counts.VALID, j.counts.VALID + j.counts.RISKY, j.counts.INVALID].map((x) => of(x, word, words)).concat(of(whole, "row"));

function runningJob(j, why, now) {
  const retried = j.pending_retry > 0 ? [`${of(j.pending_retry, "address was deferred by its server", "addresses were deferred by their servers")} and will be retried.`] : [];
  return {
    title: `${Math.floor(j.percent)} %, ${titleOf(j)} · Probity`,
    lines: [
      `running ${j.filename} · uploaded ${moment(j.created_at, now)}`,
      `${n(j.processed)} of ${n(j.total_rows)} rows`,
      rate(j) + left(j, why, now),
      ...retried,
      ...outcomeLines(j),
      `${of(j.credits_reserved, "credit")} reserved; what stays UNKNOWN is refunded.`,
      ...downloadLines(j, "address", "addresses", j.total_rows),
    ],
    labels: [`${tenths(j.percent)} % done`, divided(j.counts)],
    tables: { "What rows wait for": whyRows(why, now) },
  };
}

function finishedJob(j, now) {
  const again = j.counts.UNKNOWN > 0 ? [`${of(j.counts.UNKNOWN, "row")} could not be determined after retries. UNKNOWN rows are free. Verify them again in a day or two, when receivers may answer otherwise.`] : [];
  return {
    title: `${j.status}: ${titleOf(j)} · Probity`,
    lines: [
      `${j.status} ${j.filename} · uploaded ${moment(j.created_at, now)} · done ${moment(j.finished_at, now)}`,
      ...outcomeLines(j),
      `${of(j.credits_used, "credit")} used${j.credits_refunded > 0 ? `, ${n(j.credits_refunded)} refunded` : ""}.`,
      ...again,
      ...downloadLines(j, "row", "rows", j.total_rows),
      `Kept until ${exactly(j.expires_at)}.`,
    ],
    labels: [divided(j.counts)],
    tables: {},
  };
}

function reasonsTab(j, { scores }, { reasons }, now) {
  const page = finishedJob(j, now);
  const meaning = new Map(reasons.map((r) => [r.reason, r]));
  const range = (i) => (i === 9 ? "90 to 100" : `${10 * i} to ${10 * i + 9}`);
  page.labels.push(scores.flatMap((rows, i) => (rows > 0 ? [`score ${range(i)}: ${of(rows, "row")}`] : [])).join(", "));
  page.tables.Reasons = Object.entries(j.reasons)
    .sort((a, b) => b[1] - a[1])
    .map(([reason, rows]) => [reason, meaning.get(reason).status, meaning.get(reason).meaning, n(rows), share(rows, all(j.counts))]);
  return page;
}

const providerNames = { "": "No mail server found", other: "Other mail hosts" };

function receiversTab(j, { providers }, now) {
  const page = finishedJob(j, now);
  const rows = Object.entries(providers).sort((a, b) => all(b[1]) - all(a[1]) || 0);
  if (rows.length > 25) page.lines.push(`1 to 25 of ${n(rows.length)}`);
  page.tables["Rows by provider"] = rows.slice(0, 25).map(([name, counts]) => [providerNames[name] ?? name, ...verdicts.map((v) => (counts[v] ? n(counts[v]) : "—")), n(all(counts))]);
  return page;
}

function detailsTab(j, now) {
  const page = finishedJob(j, now);
  const took = span((Date.parse(j.finished_at) - Date.parse(j.started_at)) / 1000);
  page.lines.push(...[j.total_rows, j.unique_addresses, j.duplicate_rows, j.blank_rows, j.credits_used].map(n), `${n(j.credits_refunded)} refunded`);
  page.lines.push(j.job_id, j.encoding, exactly(j.started_at), took, "SHA-256 of the zstd CSV", j.results_sha256);
  return page;
}

function operatorsJob(j, why, now) {
  const deferred = j.pending_retry > 0 ? [n(j.pending_retry)] : [];
  return {
    title: `${titleOf(j)} · Probity`,
    lines: [
      `running of ${j.user} · uploaded ${moment(j.created_at, now)}`,
      `${n(j.processed)} of ${n(j.total_rows)} rows, ${tenths(j.percent)} %`,
      rate(j) + left(j, why, now),
      ...deferred,
      moment(j.started_at, now),
      j.job_id,
    ],
    labels: [],
    tables: { "What rows wait for": whyRows(why, now) },
  };
}

/** jobRow is a job in a table of jobs, with whose it is for operators. */
function jobRow(j, now) {
  const name = j.name && j.filename && j.name !== j.filename ? `${j.name} ${j.filename}` : titleOf(j);
  const slow = j.slow_routes[0];
  const others = j.slow_routes.length > 1 ? ` and ${j.slow_routes.length - 1} more` : "";
  const going = `${tenths(j.percent)} %, ${rate(j).toLowerCase()}${j.eta_seconds ? `, ${span(j.eta_seconds)} left` : ""}`;
  const waiting = slow ? ` ${of(slow.waiting, "row waits", "rows wait")} for ${slow.provider === "dns" ? "DNS" : slow.provider}${others}` : "";
  const progress = over.includes(j.status) ? `${share(j.counts.VALID, all(j.counts))} safe to send` : going + waiting;
  return [name, ...(j.user ? [j.user] : []), j.status, n(j.total_rows), progress, moment(j.created_at, now), j.expires_at ? moment(j.expires_at, now) : "—"];
}

const jobLabel = (j) => (over.includes(j.status) ? verdicts.map((v) => `${v} ${share(j.counts[v], all(j.counts))}`).join(", ") : `${titleOf(j)}: ${tenths(j.percent)} % done`);

function overview({ days }, week, { jobs }, running, { balance, reserved }, now) {
  const used = sum(week.days, (d) => d.credits_used);
  const counts = Object.fromEntries(verdicts.map((v) => [v, sum(days, (d) => d.counts[v] ?? 0)]));
  const singles = sum(days, (d) => d.singles);
  const busy = days.filter((d) => all(d.counts) + d.singles + d.credits_used > 0).toReversed();
  const lasts = Math.floor(balance / (used / 7));
  const shown = [...jobs.filter((j) => !over.includes(j.status)), ...jobs.filter((j) => over.includes(j.status))].slice(0, 5);
  return {
    title: "Overview · Probity",
    lines: [
      n(balance),
      reserved > 0 ? `${n(reserved)} reserved for jobs that are not finished` : `about ${n(lasts)} days left at this pace`,
      "Rows verified, 30 days",
      n(all(counts)),
      `and ${of(singles, "single check")}`,
      share(counts.VALID, all(counts)),
      of(counts.VALID, "row"),
      share(counts.UNKNOWN, all(counts)),
      n(running.jobs.length),
      ...(running.jobs.length > 0 ? [`${n(sum(running.jobs, (j) => j.total_rows - j.processed))} rows left`] : []),
      ...[7, 30, 90].map((d) => `${d} days`),
    ],
    labels: [`Verifications by day: ${n(all(counts) + singles)} in 30 days`, ...shown.map(jobLabel)],
    tables: {
      "Verifications by day": busy.map((d) => [day(d.date), ...verdicts.map((v) => n(d.counts[v] ?? 0)), n(d.singles), n(d.credits_used)]),
      Jobs: shown.map((j) => jobRow(j, now)),
    },
  };
}

const entryKinds = { grant: "granted", reserve: "reserved", charge: "charged", release: "refunded" };

function ledgerRows(entries, now) {
  const settled = new Set(entries.filter((e) => ["charge", "release"].includes(e.kind)).map((e) => e.cause));
  const cause = (c) => c.replace(/^job (.{8}).*$/, "job $1…").replace(/^single .*(.{6})$/, "single check …$1");
  return entries
    .filter((e) => e.kind !== "reserve" || !e.cause.startsWith("single ") || !settled.has(e.cause))
    .map((e) => [cause(e.cause), n(e.number), moment(e.at, now), entryKinds[e.kind], n(e.credits), n(e.balance), n(e.reserved)]);
}

function usage({ days, by_key: keys }, { balance, reserved }, { entries }, now) {
  const busy = days.filter((d) => d.credits_used || d.credits_granted).toReversed();
  return {
    title: "Usage and credits · Probity",
    lines: [n(balance), n(reserved), "Used in 30 days", n(sum(days, (d) => d.credits_used)), "90 days as CSV"],
    labels: [`Credits used by day: ${n(sum(days, (d) => d.credits_used))} in 30 days`],
    tables: {
      "Credits by day": busy.map((d) => [day(d.date), n(d.credits_used), n(d.singles), d.credits_granted ? `+${n(d.credits_granted)}` : "—"]),
      "Credits by key and day": keys.map((k) => [k.key_id ? `${k.name} (…${k.last4})` : "Dashboard", day(k.date), n(k.singles), n(sum(Object.values(k.counts))), n(k.credits_used)]),
      Ledger: ledgerRows(entries, now),
    },
  };
}

function quarantineRows({ ready_queues: queues }, now) {
  const held = queues.filter((q) => q.state === "quarantined");
  return held.map((q) => [queueName(q), `${q.egress} node ${q.node}`, `${q.reply} ${q.host}, read by rule ${q.rule}, ${moment(q.since, now)}`, moment(q.until, now), "Release"]);
}

function queueName(q) {
  const [first, ...more] = q.route.split(",");
  const name = more.length > 0 ? `${first} and ${more.length} more` : first;
  if (!q.route.includes(".")) return q.provider || name;
  return q.provider && q.provider !== "other" ? `${name} ${q.provider}` : name;
}

function operations(a, queues, { cluster }, now) {
  const answers = (p) => p.singles + all(p.counts);
  const last = a.points.at(-1);
  const usable = cluster.nodes.filter((one) => one.usable && one.state !== "suspect").length;
  const oldest = Math.max(...a.points.map((p) => p.oldest_job_seconds));
  return {
    title: "Operations · Probity",
    lines: [
      "What receivers refuse now, and the last 24 hours of this server. The figures are kept in memory: they begin when it starts.",
      tenths(answers(last) / last.minutes),
      `over the last ${of(last.minutes, "minute")}`,
      n(last.waiting),
      ...(a.oldest_job ? [moment(a.oldest_job.created_at, now)] : []),
      `${usable} of ${cluster.nodes.length}`,
    ],
    labels: [
      `Answers in the last 24 hours: ${n(sum(a.points, answers))}`,
      ...a.receivers.map((r) => `${r.receiver}: at most ${r.peak_percent} % used`),
      `Rows waiting in the last 24 hours: at most ${n(Math.max(...a.points.map((p) => p.waiting)))}`,
      `Age in the last 24 hours: at most ${span(oldest)}`,
    ],
    tables: {
      Quarantines: quarantineRows(queues, now),
      "Answers by time": a.points.toReversed().map((p) => [`${clock(p.at)} to ${clock(Date.parse(p.at) + 1000 * a.step_seconds)}`, ...verdicts.map((v) => n(p.counts[v])), n(p.singles)]),
      "Budgets used": a.receivers.map((r) => [r.receiver, "", `${n(r.peak_percent)} %`]),
      "Failures by host": a.hosts.map((h) => [h.host, n(h.failures), moment(h.last_at, now)]),
    },
  };
}

const megabytes = (b) => (b >= 1e9 ? `${tenths(b / 1e9)} GB` : `${tenths(b / 1e6)} MB`);

function queueRow(q, now) {
  const held = !["busy", "idle"].includes(q.state);
  const use = ({ used, limit }) => (limit === 0 ? "no limit" : `${n(used)} of ${n(limit)}`);
  return [queueName(q), q.egress, q.state, held ? (q.until ? moment(q.until, now) : "not known") : "", n(q.queued), use(q.connections), use(q.recipients_per_minute), use(q.refusals_per_hour)];
}

/** counters are the counts of all nodes with the labels of one meter, the highest first. */
function counters(nodes, meter) {
  const counts = new Map();
  for (const one of nodes)
    for (const [key, count] of Object.entries(one.counters ?? {})) {
      const labels = new RegExp(`^${meter}\\{(.*)\\}$`).exec(key)?.[1];
      if (labels && count > 0) counts.set(labels, (counts.get(labels) ?? 0) + count);
    }
  return [...counts].sort((a, b) => b[1] - a[1]).map(([labels, count]) => [labels.split(",").filter(Boolean).reverse().join(" "), "", n(count)]);
}

function identity(i) {
  const more = [i.quarantined && `, ${n(i.quarantined)} quarantined`, i.exhausted && `, ${n(i.exhausted)} with their budget used up`].filter(Boolean).join("");
  return `${i.ehlo} ${i.public || i.local} ${i.state} ${of(i.ready_queues ?? 0, "queue")}${more}`;
}

function cluster(node, queues, now) {
  const { nodes } = node.cluster;
  const total = (of) => sum(nodes, (one) => of(one) ?? 0);
  const ago = (at) => span((now - Date.parse(at)) / 1000);
  return {
    title: "Cluster · Probity",
    lines: [
      `up for ${ago(node.started_at)}`,
      `${nodes.length} of ${nodes.length}`,
      n(Math.round(total((one) => one.rows_per_second))),
      `${n(total((one) => one.rows))} under way`,
      n(total((one) => one.recipients)),
      `${of(total((one) => one.ready_queues), "queue")}, ${of(total((one) => one.sessions), "open session")}`,
      megabytes(node.memory_bytes),
      `${megabytes(node.heap_bytes)} in use by Go`,
      `coordinator ${node.cluster.coordinator}`,
      `1 to 15 of ${n(queues.ready_queues.length)}`,
      `probity ${node.build.version}${node.build.commit ? `, commit ${node.build.commit.slice(0, 12)}` : ""}${node.build.date ? ` of ${node.build.date}` : ""}, ${node.go_version}, ${n(node.goroutines)} goroutines, ${n(node.event_streams)} event streams`,
    ],
    labels: [],
    tables: {
      Nodes: nodes.map((one) => [`${one.name} ${one.address} ${one.version}`, `available ${one.state} for ${ago(one.since)}`, one.identities.map(identity).join(" "), n(one.sessions ?? 0), n(one.rows ?? 0), n(Math.round(one.rows_per_second ?? 0))]),
      Quarantines: quarantineRows(queues, now),
      Budgets: queues.ready_queues.slice(0, 15).map((q) => queueRow(q, now)),
      "Self-checks by node": nodes.map((one) => [one.name, n(one.audit_failures ?? 0), n(one.audit_warnings ?? 0), one.audited_at ? moment(one.audited_at, now) : "not yet"]),
      "Outcomes of probes": counters(nodes, "probity_prober_outcomes_total"),
      "Throttling actions": counters(nodes, "probity_prober_actions_total"),
      "Connection failures": counters(nodes, "probity_prober_session_failures_total"),
    },
  };
}

const limitsOf = (l) => [l.single_per_minute && `${n(l.single_per_minute)} single/min`, l.bulk_per_hour && `${n(l.bulk_per_hour)} lists/h`].filter(Boolean).join(", ") || "none";

function customers({ users, total }, me, balanceOf, now) {
  const row = (u) => [u.id === me ? `${u.email} you` : u.email, u.role, u.disabled ? "disabled" : "active", u.totp ? "on" : "off", n(balanceOf(u.id)), limitsOf(u.limits), moment(u.created_at, now), "Change"];
  return { title: "Users · Probity", lines: [of(total, "account")], labels: [], tables: { Accounts: users.map(row) } };
}

function customer(u, { balance, reserved }, { jobs }, { keys }, { entries }, now) {
  const key = (k) => [k.name, `${k.test ? "prb_test_" : "prb_live_"}…${k.last4}`, k.test ? "test" : "live", k.scopes.join(", "), moment(k.created_at, now), k.expires_at ? moment(k.expires_at, now) : "never", k.last_used_at ? moment(k.last_used_at, now) : "never"];
  return {
    title: `${u.email} · Probity`,
    lines: [`active ${u.role}, since ${moment(u.created_at, now)}`, n(balance), n(reserved), limitsOf(u.limits)],
    labels: jobs.map(jobLabel),
    tables: { Jobs: jobs.map((j) => jobRow({ ...j, user: undefined }, now)), "API keys": keys.map(key), Ledger: ledgerRows(entries, now) },
  };
}

/** figures adds its steps, on a fleet of its own whose receivers are slow enough to be looked at. */
export function figures(step) {
  step("a job runs that waits for budgets and retries, and another is finished", async (t) => {
    t.slowFleet = await startFleet(t.fleet.program, join(t.fleet.dir, "slow"), [], [], 60);
    t.more.unshift(() => t.slowFleet.stop());
    const lines = t.list.split("\n");
    const browser = await openBrowser(); // its clock will stand still
    t.more.unshift(browser.close);
    const page = browser.context.pages()[0];
    t.looker = page;
    await signIn(page, t.slowFleet.base, t.slowFleet.email, t.slowFleet.password);
    t.me = (await asSession(page, "GET", "/v1/dash/session")).body.user.id;
    t.done = await upload(page, "Done", lines.slice(0, 600).join("\n"));
    for (const [email] of [...t.list.matchAll(/[^,"\s]+@[^,"\s]+/g)].slice(0, 3)) await asSession(page, "POST", "/v1/verify/single", { email });
    for (const address of (await t.slowFleet.refused(t.list)).slice(0, 8)) await asSession(page, "POST", "/v1/verify/single", { email: address });
    assert.equal((await asSession(page, "POST", "/v1/dash/keys", { name: "Web shop" })).status, 201);
    await ended(page, t.done);
    await asSession(page, "PUT", `/v1/admin/users/${t.me}/limits`, { single_per_minute: 1200 });
    t.slow = await upload(page, "Slow", await t.slowFleet.list(60_000)); // some receivers take minutes for theirs
    for (;;) {
      const why = (await asSession(page, "GET", `/v1/verify/bulk/${t.slow}/why`)).body;
      assert.ok(!over.includes(why.status), "the job is too fast to be looked at");
      if (["budget", "retry"].every((what) => why.receivers.some((r) => r.waits.some((w) => w.for === what)))) break;
    }
  });

  /** agrees opens a page and compares all that it says in numbers with what is expected of the answers that it got. */
  const agrees = (name, place, expected) =>
    step(`what a page says in numbers is what the API answered: ${name}`, async (t) => {
      const { looker: page, slowFleet } = t;
      const bodies = await freeze(page);
      const now = Date.now();
      await page.clock.setFixedTime(now);
      await page.goto(`${slowFleet.base}/app/${place(t)}`);
      await page.locator("h1").waitFor();
      await page.waitForFunction(() => ![...document.querySelectorAll("main dd, main td")].some((e) => e.firstChild?.textContent === "…")); // what is not there yet
      await settled(page);
      const { times, ...said } = await read(page);
      const want = expected(t, bodies, now);
      want.lines = want.lines.filter((l) => /\d/.test(l));
      if (said.tables["Self-check findings"]) delete said.tables["Self-check findings"]; // texts of the doctor, compared elsewhere
      assert.deepEqual(said, want);
      timesAgree(times, bodies, now, name);
      await page.unrouteAll({ behavior: "ignoreErrors" });
    });

  const bulk = (id) => `/v1/verify/bulk/${id}`;
  agrees("a running job", (t) => `lists/${t.slow}`, (t, b, now) => runningJob(b[bulk(t.slow)], b[`${bulk(t.slow)}/why`], now));
  agrees("an operator's view of it", (t) => `operator/jobs/${t.slow}`, (t, b, now) => operatorsJob(b[`/v1/dash/admin/jobs/${t.slow}`], b[`${bulk(t.slow)}/why`], now));
  agrees("the overview", () => "", (_, b, now) => overview(b["/v1/usage?days=30"], b["/v1/usage?days=7"], b["/v1/verify/bulk?limit=20"], b["/v1/verify/bulk?limit=100&status=running"], b["/v1/credits"], now));
  agrees("all jobs", () => "operator/jobs", (_, b, now) => {
    const { jobs, total } = b["/v1/dash/admin/jobs?limit=50"];
    return { title: "All jobs · Probity", lines: [of(total, "job")], labels: jobs.map(jobLabel), tables: { Jobs: jobs.map((j) => jobRow(j, now)) } };
  });
  agrees("usage", () => "settings/usage", (_, b, now) => usage(b["/v1/usage?days=30"], b["/v1/credits"], b["/v1/dash/ledger?limit=50"], now));
  agrees("a finished job's reasons and scores", (t) => `lists/${t.done}`, (t, b, now) => reasonsTab(b[bulk(t.done)], b[`/v1/dash/jobs/${t.done}/providers`], b["/v1/reasons"], now));
  agrees("its receivers", (t) => `lists/${t.done}?tab=receivers`, (t, b, now) => receiversTab(b[bulk(t.done)], b[`/v1/dash/jobs/${t.done}/providers`], now));
  agrees("its details", (t) => `lists/${t.done}?tab=details`, (t, b, now) => detailsTab(b[bulk(t.done)], now));
  agrees("the cluster", () => "operator/cluster", (_, b, now) => cluster(b["/v1/dash/admin/node"], b["/v1/dash/admin/ready-queues"], now));
  agrees("customers", () => "operator/users", (_, b, now) => customers(b["/v1/admin/users?limit=50"], b["/v1/dash/session"].user.id, (id) => b[`/v1/admin/credits?user=${id}`].balance, now));
  agrees("a customer", (t) => `operator/users/${t.me}`, (t, b, now) =>
    customer(b[`/v1/admin/users?limit=1&q=${t.me}`].users.find((u) => u.id === t.me), b[`/v1/admin/credits?user=${t.me}`], b[`/v1/dash/admin/jobs?limit=10&user=${t.me}`], b[`/v1/admin/keys?user=${t.me}`], b[`/v1/admin/ledger?user=${t.me}&limit=25`], now));
  step("the server has counted its first minute", async (t) => {
    for (;;) {
      const { points } = (await asSession(t.looker, "GET", "/v1/dash/admin/activity")).body;
      if (points.length > 0) return;
      await t.looker.waitForTimeout(1_000);
    }
  });

  agrees("operations", () => "operator", (_, b, now) => operations(b["/v1/dash/admin/activity"], b["/v1/dash/admin/ready-queues"], b["/v1/dash/admin/node"], now));

  step("the page whose clock stands still is closed", async (t) => {
    for (const end of t.more.splice(0)) await end();
    delete t.looker;
  });
}
