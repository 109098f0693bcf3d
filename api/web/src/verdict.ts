import type { Result, Status } from "./api/client";

export const statuses: readonly Status[] = ["VALID", "RISKY", "INVALID", "UNKNOWN"];

/** meaning is a status in plain words. */
export const meaning: Record<Status, { title: string; text: string }> = {
  VALID: { title: "Safe to send", text: "The mailbox exists and its server rejects invalid ones." },
  RISKY: { title: "Send with care", text: "Mail may arrive, but it may also bounce or go unread." },
  INVALID: { title: "Do not send", text: "Mail to this address will bounce." },
  UNKNOWN: { title: "No answer", text: "The mail server gave no clear answer. This cost nothing; try again later." },
};

/** downloads are what people take home, by name. */
export const downloads: readonly { name: string; note: string; status: readonly Status[] }[] = [
  { name: "Safe to send", note: "VALID", status: ["VALID"] },
  { name: "Safe and risky", note: "VALID, RISKY", status: ["VALID", "RISKY"] },
  { name: "Undeliverable", note: "INVALID", status: ["INVALID"] },
  { name: "Everything", note: "every row of the list", status: [] },
];

/** resultsPath is the address of a download. */
export function resultsPath(job: string, status: readonly Status[], format: string, compress: string, partial = false): string {
  const query = new URLSearchParams();
  if (status.length > 0) query.set("status", status.join(","));
  if (format !== "csv") query.set("format", format);
  if (compress !== "none") query.set("compress", compress);
  if (partial) query.set("partial", "true");
  const text = query.toString();
  return `/v1/verify/bulk/${job}/results${text && "?" + text}`;
}

/** deferred are the reasons that another try, later, may settle. */
export const deferred: ReadonlySet<string> = new Set([
  "greylisted",
  "rate_limited",
  "timeout",
  "temporary_error",
  "connection_failed",
  "dns_error",
  "blocked",
]);

/** notLookedUp says why nothing is known of the domain; empty where the DNS answered. */
export function notLookedUp(r: Result): string {
  if (r.mx_records.length > 0) return "";
  if (r.details?.rule === "coordinator/suppressed") return "Not looked up: the address is suppressed";
  return r.reason === "dns_error" ? "Not known: the DNS did not answer" : "";
}

export interface Check {
  name: string;
  outcome: "good" | "bad" | "fair" | "none";
  text: string;
}

/** checks says what was looked at, in the order it was looked at. */
export function checks(r: Result): Check[] {
  const list: Check[] = [
    r.syntax_valid
      ? { name: "Syntax", outcome: "good", text: "Well-formed" }
      : { name: "Syntax", outcome: "bad", text: "Not an e-mail address" },
  ];
  if (!r.syntax_valid) return list;
  const unknown = notLookedUp(r);
  if (unknown) list.push({ name: "Domain", outcome: "none", text: unknown });
  else if (r.domain_exists) list.push({ name: "Domain", outcome: "good", text: "Exists" });
  else list.push({ name: "Domain", outcome: "bad", text: "Does not exist" });
  if (!r.domain_exists) return list;
  list.push(
    r.mx_records.length > 0
      ? { name: "Mail servers", outcome: "good", text: r.mx_records.length === 1 ? "One" : `${r.mx_records.length}` }
      : { name: "Mail servers", outcome: r.status === "INVALID" ? "bad" : "none", text: unknown || "None found" },
    mailbox(r),
    flag("Disposable domain", r.is_disposable),
    flag("Role address", r.is_role_based),
    r.is_free_email
      ? { name: "Free provider", outcome: "none", text: "Yes" }
      : { name: "Free provider", outcome: "none", text: "No" },
  );
  if (r.details?.is_alias) list.push({ name: "Alias service", outcome: "none", text: "Yes: mail is forwarded to a mailbox elsewhere" });
  const all = r.details?.is_catch_all;
  if (all !== undefined && all !== null) {
    list.push({ name: "Catch-all domain", outcome: all ? "fair" : "good", text: all ? "Yes" : "No" });
  }
  return list;
}

function mailbox(r: Result): Check {
  const name = "Mailbox";
  if (r.smtp_valid) return { name, outcome: "good", text: "Accepted by its server" };
  if (r.reason === "mailbox_not_found") return { name, outcome: "bad", text: "Refused by its server" };
  if (r.reason === "mailbox_disabled") return { name, outcome: "bad", text: "Disabled" };
  if (r.reason === "mailbox_full") return { name, outcome: "fair", text: "Full" };
  if (r.reason === "smtp_not_checked") return { name, outcome: "none", text: "Not checked" };
  if (r.status === "RISKY") return { name, outcome: "fair", text: "Accepted, not conclusive" };
  return { name, outcome: "none", text: "No clear answer" };
}

function flag(name: string, on: boolean): Check {
  return on ? { name, outcome: "fair", text: "Yes" } : { name, outcome: "good", text: "No" };
}

const partNames: Record<string, string> = {
  reason: "the verdict itself",
  evidence_age: "the age of the answer",
  check_closeness: "how close the catch-all check was",
  control: "what the server did after this answer",
  control_distance: "how many answers lay between",
  control_delay: "how long it took",
  host_refused: "unknown recipients the server refused",
  host_accepted: "recipients the server accepted",
  grounds: "words, code or both",
  check_age: "the age of the catch-all check",
  check_elsewhere: "the check at another host",
  seen_before: "the same answer before",
  learned: "what else the host has shown",
  role_account: "a role account",
  possible_typo: "a possible typo",
  free_mail: "a free mail provider",
};

/** scoreText says in words what a score is the sum of. */
export function scoreText(parts: readonly { name: string; points: number }[]): string {
  return parts
    .map((p, i) => `${i > 0 && p.points > 0 ? "+" : ""}${p.points} for ${partNames[p.name] ?? p.name.replaceAll("_", " ")}`.replace(/^-/, "\u2212"))
    .join(", ");
}

/** curl is the call that gives the same answer. */
export function curl(origin: string, email: string, options: { check_smtp: boolean; max_age?: number }): string {
  const body = JSON.stringify({
    email,
    ...(options.check_smtp ? {} : { check_smtp: false }),
    ...(options.max_age === undefined ? {} : { max_age: options.max_age }),
    details: true,
  });
  return [
    `curl ${quote(origin + "/v1/verify/single")} \\`,
    `  -H "Authorization: Bearer $PROBITY_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${quote(body)}`,
  ].join("\n");
}

/** quote makes a word of a POSIX shell of any text. */
export function quote(s: string): string {
  return `'${s.replaceAll("'", `'\\''`)}'`;
}

/** controlText says what the same host did for another recipient, on which the answer rests. */
export function controlText(kind: string): string {
  switch (kind) {
    case "made_up_refused_after":
      return "The host refused a made-up recipient after it accepted this one";
    case "recipient_refused_after":
      return "The host refused another recipient after it accepted this one";
    case "made_up_refused_before":
      return "The host refused a made-up recipient before";
    case "recipient_accepted_after_same_connection":
      return "The host accepted a recipient after it refused this one, over the same connection";
    case "recipient_accepted_after":
      return "The host accepted a recipient after it refused this one";
    case "made_up_recipient":
      return "What a made-up recipient of the domain got";
    default:
      return "Another recipient of the host";
  }
}
