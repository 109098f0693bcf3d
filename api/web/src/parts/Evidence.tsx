import type { ReactNode } from "react";
import type { Result } from "../api/client";
import { controlText, scoreText } from "../verdict";
import { Moment, Name, Note } from "./index";

/** Rule is what read a reply, with where it is from. */
export function Rule({ rule, source, date }: { rule: string; source: string | null; date: string | null }) {
  return (
    <>
      <span className="mono">{rule}</span>
      {source && <Note>{[source, date].filter(Boolean).join(", ")}</Note>}
    </>
  );
}

/** Control is the other half of the proof: a reply of the same host to another recipient. */
export function Control({ control: c }: { control: NonNullable<NonNullable<Result["details"]>["control"]> }) {
  return (
    <>
      {controlText(c.kind)}, <Moment at={c.at} />
      {(c.smtp_message || c.smtp_code) && <div className="mono">{c.smtp_message ?? c.smtp_code}</div>}
      {c.mx_host && (
        <Note>
          <Name text={c.mx_host} />
          {c.rule && `, read by rule ${c.rule}`}
        </Note>
      )}
    </>
  );
}

type Details = NonNullable<Result["details"]>;

/** evidence is what a verdict rests on, as facts. */
export function evidence(d: Details, email: string): [string, ReactNode][] {
  return [
    ["Reply", d.smtp_message ? <span key="reply" className="mono">{d.smtp_message}</span> : d.smtp_code],
    ["SMTP stage", d.stage],
    ["Host", d.mx_host && <span className="mono"><Name text={d.mx_host} /></span>],
    ["Rule applied", d.rule && <Rule rule={d.rule} source={d.rule_source} date={d.rule_date} />],
    ["Rests on", d.control && <Control control={d.control} />],
    ["Score", scoreText(d.score_parts)],
    ["Attempts", d.attempts ? `${d.attempts}${d.checked_by ? `, by ${d.checked_by}` : ""}` : null],
    ["Took", d.duration_ms === null ? null : `${d.duration_ms} ms`], // it is not kept of a list's rows
    ["Next attempt", d.retry_after ? `automatic, in ${d.retry_after} s` : null],
    ["Same mailbox as (normalised)", d.normalized_email && d.normalized_email !== email ? <span key="same" className="mono"><Name text={d.normalized_email} /></span> : null],
  ];
}
