import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { why } from "../api/queries";
import { counted, number } from "../format";
import { Loaded, Moment, Name, Note, Panel, Rows, type Column } from "./index";

type Why = Schemas["Why"];
type Receiver = Why["receivers"][number];
type Wait = Receiver["waits"][number];

/** waitText says what rows wait for, in a line. */
export function waitText(w: Wait): string {
  const from = w.source ? ` from ${w.source}` : "";
  switch (w.for) {
    case "budget":
      return `Our limit${w.limit ? ` (${w.limit.replaceAll("_", " ")})` : ""}${from} is used up`;
    case "pause":
      return `The receiver asked us to wait${from && `, ${from.trim()}`}`;
    case "quarantine":
      return `The receiver refuses us${from}`;
    case "connection":
      return `The last connections failed${from}`;
    case "retry":
      return "Deferred by the receiver; they are retried";
    case "node":
      return `The node ${w.node ?? "that must ask"} is away`;
    case "dns":
      return "Their domains could not be looked up so far; they are retried";
  }
}

function Waits({ receiver: r }: { receiver: Receiver }) {
  return (
    <>
      {r.waits.map((w, i) => (
        <div key={i}>
          {waitText(w)}: {counted(w.rows, "row")}
          {w.opens_at && (
            <>
              , opens <Moment at={w.opens_at} />
            </>
          )}
          {w.reply && (
            <Note>
              <span className="mono">{w.reply}</span> {w.rule && `(${w.rule})`}
            </Note>
          )}
        </div>
      ))}
      {r.queued > 0 && <div>Waiting for their turn: {counted(r.queued, "row")}</div>}
      {r.asking > 0 && <div>Being asked now: {counted(r.asking, "row")}</div>}
    </>
  );
}

const columns: Column<Receiver>[] = [
  { title: "Receiver", kind: "name", of: (r) => <b><Name text={r.receiver} /></b> },
  { title: "Rows left", kind: "number", of: (r) => number(r.rows) },
  { title: "Waits for", kind: "text", of: (r) => <Waits receiver={r} /> },
  { title: "Opens", of: (r) => <Moment at={r.opens_at} none={r.asking > 0 ? "open" : "not known"} /> },
  { title: "Done by", of: (r) => <Moment at={r.done_by} none="not known" /> },
];

/** WhyPanel is what the open rows of a job wait for, by receiver: when each may be asked again, and when it will be done. */
export function WhyPanel({ id }: { id: string }) {
  const query = useQuery(why(id));
  if (query.data && query.data.receivers.length === 0) return null;
  return (
    <Panel title="What is left, and why">
      <Text size="sm" c="dimmed" mb="xs">
        Receivers are asked no faster than they allow. You can wait, download what is done so far, or cancel: verified rows are kept.
      </Text>
      <Loaded query={query} what="what the rows wait for">
        {(w) => (
          <>
            <Rows label="What rows wait for" columns={columns} rows={w.receivers} keyOf={(r) => r.receiver} />
            {w.unreached_nodes.length > 0 && <Note bad>Without an answer from {w.unreached_nodes.join(", ")}: their part may be missing.</Note>}
          </>
        )}
      </Loaded>
    </Panel>
  );
}
