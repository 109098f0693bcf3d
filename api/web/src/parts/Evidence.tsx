import type { Result } from "../api/client";
import { controlText } from "../verdict";
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
