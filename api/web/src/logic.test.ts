import { existsSync, readFileSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Result, Schemas } from "./api/client";
import { ApiError, errorOf, take } from "./api/client";
import { hours, runs } from "./charts/Bars";
import { groupFindings } from "./findings";
import { bytes, day, daysOf, duration, exactly, share, ticks, when } from "./format";
import { browserName } from "./pages/Account";
import { examples, variableOf } from "./pages/examples";
import { condition, labelled, meter, together } from "./pages/Cluster";
import { noted } from "./pages/Audit";
import { told } from "./pages/Suppressions";
import { choose, receiver } from "./pages/Queues";
import { percent } from "./pages/Accuracy";
import { settled } from "./pages/Usage";
import { lasting, sum } from "./pages/Overview";
import { jobsSearch, logsSearch } from "./search";
import { form } from "./upload/uploads";
import { checks, controlText, curl, quote, resultsPath, scoreText } from "./verdict";

describe("format", () => {
  it.each([
    [0, 10, "0 %"],
    [10, 10, "100 %"],
    [1, 3, "33.3 %"],
    [1, 100_000, "<0.1 %"],
    [99_999, 100_000, "99.9 %"],
    [0, 0, "0 %"],
  ])("share(%i, %i) = %s", (n, of, want) => expect(share(n, of)).toBe(want));
  it.each([
    [0, "0 s"],
    [59, "59 s"],
    [60, "1 min"],
    [90, "1 min 30 s"],
    [3600, "1 h"],
    [90_000, "1 d 1 h"],
  ])("duration(%i) = %s", (s, want) => expect(duration(s)).toBe(want));
  it.each([
    [86_400, "1 day"],
    [604_800, "7 days"],
    [90_000, "1 d 1 h"],
  ])("daysOf(%i) = %s", (s, want) => expect(daysOf(s)).toBe(want));
  it.each([
    [1, "1 byte"],
    [1500, "1.5 KB"],
    [5e9, "5 GB"],
  ])("bytes(%i) = %s", (n, want) => expect(bytes(n)).toBe(want));
  it("says moments", () => {
    const now = Date.parse("2026-03-01T12:00:00Z");
    expect(when("2026-03-01T11:59:58Z", now)).toBe("just now");
    expect(when("2026-03-01T11:00:00Z", now)).toBe("1 h ago");
    expect(when("2026-03-01T12:00:30Z", now)).toBe("in 30 s");
    expect(when("2026-02-01T12:00:00Z", now)).toContain("2026");
    expect(when("2026-03-08T12:00:00Z", now)).toBe("Mar 8, 2026");
    expect(exactly("2026-03-01T12:00:00Z")).toMatch(/2026.*:00:00.* (UTC|GMT|[A-Z]{3,4})/);
    expect(day("2026-03-01")).toBe("Mar 1, 2026");
  });
});

const result: Result = {
  email: "ann@example.com",
  status: "VALID",
  score: 98,
  reason: null,
  syntax_valid: true,
  domain_exists: true,
  smtp_valid: true,
  is_disposable: false,
  is_role_based: false,
  is_free_email: false,
  smtp_provider: "other",
  mx_records: ["mx1.example.com"],
  from_cache: false,
  credits_used: 1,
  verified_at: "2026-03-01T12:00:00Z",
};

describe("checks", () => {
  const outcome = (r: Partial<Result>, name: string) => checks({ ...result, ...r }).find((c) => c.name === name)?.outcome;
  it("ends where nothing more can be known", () => {
    expect(checks({ ...result, syntax_valid: false }).map((c) => c.name)).toEqual(["Syntax"]);
    expect(checks({ ...result, domain_exists: false }).map((c) => c.name)).toEqual(["Syntax", "Domain"]);
  });
  it("claims nothing of a domain that was not looked up", () => {
    const suppressed = { rule: "coordinator/suppressed" } as NonNullable<Result["details"]>;
    for (const [news, text] of [
      [{ reason: "smtp_not_checked", details: suppressed }, "Not looked up: the address is suppressed"],
      [{ reason: "dns_error" }, "Not known: the DNS did not answer"],
    ] as const) {
      const seen = checks({ ...result, status: "UNKNOWN", smtp_valid: false, mx_records: [], ...news });
      expect(seen.slice(1, 3).map((c) => [c.name, c.outcome, c.text])).toEqual([
        ["Domain", "none", text],
        ["Mail servers", "none", text],
      ]);
      expect(outcome({ status: "UNKNOWN", smtp_valid: false, ...news }, "Domain")).toBe("good"); // it has MX hosts
    }
  });
  it("blames the mailbox only for what its server said", () => {
    expect(outcome({}, "Mailbox")).toBe("good");
    expect(outcome({ smtp_valid: false, status: "INVALID", reason: "mailbox_not_found" }, "Mailbox")).toBe("bad");
    expect(outcome({ smtp_valid: false, status: "UNKNOWN", reason: "timeout" }, "Mailbox")).toBe("none");
    expect(outcome({ smtp_valid: false, status: "RISKY", reason: "catch_all" }, "Mailbox")).toBe("fair");
  });
  it("names an alias service where the details say so", () => {
    expect(checks(result).map((c) => c.name)).not.toContain("Alias service");
    const details = { is_alias: true } as NonNullable<Result["details"]>;
    expect(outcome({ details }, "Alias service")).toBe("none");
  });
});

describe("scores", () => {
  it("are explained by their parts, of names not known here too", () => {
    const parts = [
      { name: "reason", points: 98 },
      { name: "check_age", points: -2 },
      { name: "brand_new", points: 1 },
    ];
    expect(scoreText(parts)).toBe("98 for the verdict itself, \u22122 for the age of the catch-all check, +1 for brand new");
  });
});

describe("calls", () => {
  it("quotes for a shell", () => expect(quote("it's")).toBe(`'it'\\''s'`));
  it("says only what was chosen", () => {
    expect(curl("https://v.example", "a@b.example", { check_smtp: true })).not.toContain("check_smtp");
    expect(curl("https://v.example", "o'neil@b.example", { check_smtp: false, max_age: 0 })).toContain(`"max_age":0`);
  });
  it("names results", () => {
    expect(resultsPath("j", [], "csv", "none")).toBe("/v1/verify/bulk/j/results");
    expect(resultsPath("j", ["VALID", "RISKY"], "jsonl", "gzip", true)).toBe("/v1/verify/bulk/j/results?status=VALID%2CRISKY&format=jsonl&compress=gzip&partial=true");
  });
  it("makes variables of names", () => {
    expect(variableOf("My shop!")).toBe("PROBITY_KEY_MY_SHOP");
    expect(variableOf("!")).toBe("PROBITY_KEY");
    for (const e of examples("https://v.example", "PROBITY_KEY_SHOP")) {
      for (const c of e.code) expect(c.text, `${e.title} ${c.label}`).toContain("PROBITY_KEY_SHOP");
    }
  });
  it("sends what changes the reading before the file", () => {
    const f = form(new File(["email\n"], "l.csv"), { name: "n", column: "2", hasHeader: false, callbackUrl: "", callbackContent: "full", maxHours: 0, maxAgeDays: 7 });
    const names = [...f.keys()];
    expect(names.at(-1)).toBe("file");
    expect(names).not.toContain("max_hours");
    expect(names).not.toContain("callback_url");
    expect(f.get("email_column")).toBe("2");
    expect(f.get("max_age")).toBe("604800");
  });
});

describe("errors", () => {
  it("are the server's own words", () => {
    expect(errorOf(422, { detail: "email is missing." }, "r1", null)).toMatchObject({ message: "email is missing.", status: 422, requestId: "r1" });
    expect(errorOf(502, "<html>", null, null).message).toContain("502");
    expect(errorOf(429, { detail: "x" }, null, "12").retryAfter).toBe(12);
    expect(errorOf(402, { detail: "You have 1 credit; this needs 2: add credits and try again." }, null, null).message).toBe("You have 1 credit; this needs 2. Ask your administrator for more.");
    const operators = "The account has 1 credit: at most that many can be taken back.";
    expect(errorOf(402, { detail: operators }, null, null).message).toBe(operators);
  });
  it("tell a lost connection from a refusal", async () => {
    await expect(take(Promise.reject(new TypeError("x")))).rejects.toMatchObject({ status: 0 });
    const response = new Response("{}", { status: 409 });
    await expect(take(Promise.resolve({ error: { detail: "no" }, response }))).rejects.toBeInstanceOf(ApiError);
  });
});

describe("nodes and queues", () => {
  it.each([
    ["alive", true, "good", "available"],
    ["alive", false, "bad", "unavailable"],
    ["suspect", true, "bad", "unreachable"],
    ["suspect", false, "bad", "unavailable"],
    ["draining", true, "fair", "leaving"],
    ["gone", false, "bad", "gone"],
  ])("a node that is %s, usable %s, is shown %s: %s", (state, usable, tone, words) => expect(condition({ state, usable })).toEqual({ tone, words }));
  it.each([
    ["", "every receiver"],
    ["google", "google"],
    ["mx1.a.example,mx2.a.example,mx3.a.example", "mx1.a.example and 2 more"],
  ])("the receiver of %j is %s", (route, want) => expect(receiver({ route, provider: "" })).toBe(want));
});

describe("the control of an answer", () => {
  it.each(["made_up_refused_after", "recipient_refused_after", "made_up_refused_before", "recipient_accepted_after_same_connection", "recipient_accepted_after", "made_up_recipient", "new_kind"])("is in words: %s", (kind) => {
    expect(controlText(kind)).toMatch(/^[A-Z][a-z -]+(, over the same connection)?$/);
    expect(controlText(kind)).not.toContain("_");
  });
});

describe("queues that are held back", () => {
  it("begin with the one that holds the most rows", () => {
    const queue = (state: "busy" | "idle" | "exhausted" | "paused", queued: number) => ({ state, queued });
    const list = [queue("paused", 0), queue("busy", 90), queue("exhausted", 3219), queue("idle", 0), queue("paused", 12)];
    expect(choose(list, "held").map((q) => q.queued)).toEqual([3219, 12, 0]);
    expect(choose(list, "busy")).toHaveLength(1);
    expect(choose(list, "all")).toHaveLength(5);
  });
});

describe("findings of many nodes", () => {
  const finding = (check: string, severity: string, subject: string) => ({ check, severity, subject, message: "has no SPF record.", advice: "Publish one." });
  it("are one row for each check and severity, the worst first", () => {
    const nodes = [
      { name: "p1", audit_findings: [finding("SPF", "warn", "one.example"), finding("clock", "fail", "p1")] },
      { name: "p2", audit_findings: [finding("SPF", "warn", "one.example"), finding("SPF", "warn", "two.example"), finding("SPF", "fail", "three.example")] },
      { name: "p3" },
    ];
    expect(groupFindings(nodes).map((g) => [g.check, g.severity, g.nodes.join(), g.findings.length])).toEqual([
      ["clock", "fail", "p1", 1],
      ["SPF", "fail", "p2", 1],
      ["SPF", "warn", "p1,p2", 2],
    ]);
  });
});

describe("sums", () => {
  const day = (n: number): Schemas["UsageDay"] => ({ date: "2026-03-01", counts: { VALID: n, RISKY: 0, INVALID: 1, UNKNOWN: 0 }, singles: 2, credits_used: 7, credits_granted: 0 });
  it("adds days", () => expect(sum([day(1), day(2)])).toEqual({ counts: { VALID: 3, RISKY: 0, INVALID: 2, UNKNOWN: 0 }, singles: 4, used: 14, rows: 5 }));
  it("tells how long credits last", () => {
    expect(lasting(70, Array(7).fill(day(1)))).toBe(10);
    expect(lasting(70, [])).toBeNull();
  });
  it("reads counters", () => {
    const m = { "p_total{VALID}": 3, "p_total{x,INVALID}": 5, p: 1, "p_total{none}": 0 };
    expect(meter(m, "p_total")).toBe(8);
    expect(labelled(together([{ counters: m }, {}, { counters: { "p_total{new}": 2 } }]), "p_total").map(([, n]) => n)).toContain(2);
    expect(meter(together([{ counters: m }, { counters: m }]), "p_total")).toBe(16);
    expect(labelled(m, "p_total")).toEqual([
      ["INVALID x", 5],
      ["VALID", 3],
    ]);
  });
  it("knows browsers", () => {
    expect(browserName("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36")).toBe("Chrome on Linux");
    expect(browserName("curl/8")).toBe("curl");
    expect(browserName("")).toBe("Unknown");
  });
});

it.each([
  [0, [0, 1]],
  [3, [0, 1, 2, 3]],
  [7, [0, 2, 4, 6, 8]],
  [20_604, [0, 5000, 10_000, 15_000, 20_000, 25_000]],
  [5_000_000, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]],
])("an axis up to %d has the ticks %j", (most, want) => expect(ticks(most)).toEqual(want));

it("a line is broken where nothing is known", () => {
  expect(runs([undefined, 1, 2, undefined, 3])).toEqual([
    { from: 1, values: [1, 2] },
    { from: 4, values: [3] },
  ]);
  expect(runs([])).toEqual([]);
});

it("the axis of 24 hours marks whole hours, and the day at midnight", () => {
  const at = new Date(2026, 10, 28, 9, 25);
  const steps = hours([], 600, at.getTime(), () => 0);
  expect(steps).toHaveLength(144);
  expect(steps.filter((s) => s.place !== undefined).map((s) => s.place)).toEqual([...Array.from({ length: 14 }, (_, i) => i + 10), ...Array.from({ length: 10 }, (_, i) => i)]);
  const midnight = steps.filter((s) => s.strong);
  expect(midnight.map((s) => s.mark)).toEqual([at.toLocaleDateString(navigator.language, { day: "numeric", month: "short" })]);
});

it("an act's note leaves the account's id out", () => {
  expect(noted({ action: "key create", note: "u_123 Web shop", about: "ann@example.org" })).toBe("Web shop");
  expect(noted({ action: "download", note: "u_123 signed link csv", about: "ann@example.org" })).toBe("signed link csv");
  expect(noted({ action: "grant", note: "+100 a gift", about: "ann@example.org" })).toBe("+100 a gift");
  expect(noted({ action: "user add", note: "customer ann@example.org", about: "ann@example.org" })).toBe("customer");
});

it("a share is shown with its bounds", () => {
  expect(percent({ value: 0.985, low: 0.9794, high: 0.99 })).toBe("98.5 % (97.9 to 99.0)");
  expect(percent(null)).toBe("—");
});

it("the ledger leaves out what was set aside for a single check and is settled", () => {
  const entry = (kind: "reserve" | "charge" | "release", cause: string) => ({ kind, cause });
  const kept = [entry("charge", "single a"), entry("reserve", "single b"), entry("charge", "job c"), entry("reserve", "job c")];
  expect(settled([kept[0]!, entry("reserve", "single a"), ...kept.slice(1)])).toEqual(kept);
});

it("says what an erasure reached, and what it did not", () => {
  const r = { erasure_id: "1", address_sha256: "ab", status: "done" as const, asked_at: "2026-03-01T12:00:00Z", done_at: "2026-03-01T12:00:00Z", jobs: 2, rows: 3, cached: 1, answers: 0, caches: [], ages_out: [], problem: null };
  expect(told(r)).toBe("Removed from 2 jobs (3 rows) and 1 cached verdict.");
  expect(told({ ...r, status: "open", ages_out: [{ what: "job x", until: null }] })).toContain("Not reached yet: job x. It is tried again each minute.");
});

describe("the address of a page", () => {
  it("is read as what it may say, whatever it says", () => {
    expect(jobsSearch({ status: "failed", cursor: 12 })).toEqual({ status: "failed", cursor: "12" });
    expect(jobsSearch({ status: "nonsense", cursor: "" })).toEqual({ status: undefined, cursor: undefined });
    expect(logsSearch({ tab: "requests", errors: true, state: "failed", status: "VALID" })).toMatchObject({ tab: "requests", errors: true, state: "failed", status: "VALID" });
    expect(Object.values(logsSearch({ tab: 7, errors: "yes", state: "VALID", status: "failed", request: null })).filter(Boolean)).toEqual([]);
  });
});

/** sources are the files with code in a folder. */
const sources = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? sources(`${folder}/${e.name}`) : /\.tsx?$/.test(e.name) ? [`${folder}/${e.name}`] : []));

describe("styles of components", () => {
  it("are there for each that is used", () => {
    const sheets = new Set([...readFileSync("src/mantine.ts", "utf8").matchAll(/styles\/(\w+)\.css/g)].map((m) => m[1]));
    const source = sources("src").map((file) => readFileSync(file, "utf8"));
    const used = source.flatMap((text) => [...text.matchAll(/import \{([^}]*)\} from "@mantine\/core"/g)].flatMap((m) => m[1]!.split(",").map((name) => name.trim())));
    const styled = [...new Set(used)].filter((name) => existsSync(`node_modules/@mantine/core/styles/${name}.css`));
    expect(styled.length).toBeGreaterThan(20);
    expect(styled.filter((name) => !sheets.has(name))).toEqual([]);
  });
});
