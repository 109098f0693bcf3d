import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { accuracy } from "../api/queries";
import { number } from "../format";
import { Empty, Loaded, Page, Panel, Rows, To, type Column } from "../parts";

type Row = Schemas["AccuracyRow"];

/** percent is a share with its bounds, as in "98.5 % (97.9 to 99.0)". */
export function percent(s: Schemas["Share"] | null): string {
  if (!s) return "—";
  const [value, low, high] = [s.value, s.low, s.high].map((n) => (100 * n).toFixed(1));
  return `${value} % (${low} to ${high})`;
}

const columns: Column<Row>[] = [
  { title: "Receiver", kind: "name", of: (r) => r.receiver || "none" },
  { title: "Status", kind: "word", of: (r) => r.status },
  { title: "Reason", kind: "word", of: (r) => r.reason ?? "—" },
  { title: "Outcomes", kind: "number", of: (r) => number(r.n) },
  { title: "Right, with 95 % bounds", kind: "word", of: (r) => percent(r.accuracy) },
  { title: "Took mail, with 95 % bounds", kind: "word", of: (r) => percent(r.deliverable) },
  { title: "Bounced", kind: "number", of: (r) => number(r.bounced) },
  { title: "Unclear", kind: "number", of: (r) => number(r.unclear) },
];

/** Accuracy is how often verdicts were right, by what became of messages. */
export function Accuracy() {
  const query = useQuery(accuracy);
  return (
    <Page title="Accuracy" note="How often verdicts were right, by the outcomes of messages that you reported.">
      <Panel title="By receiver and reason">
        <Loaded query={query} what="the accuracy">
          {({ rows, waiting, unmatched }) => (
            <>
              <Text size="sm" c="dimmed" mb="xs">
                {number(waiting)} reports wait to be matched, {number(unmatched)} were about no verdict of the 30 days before. RISKY and UNKNOWN claim nothing that could be right or wrong.
              </Text>
              {rows.length === 0 ? (
                <Empty icon="check" title="No outcomes yet">
                  Report what became of your messages with POST /v1/feedback or probity feedback; see the <To to="/docs">docs</To>.
                </Empty>
              ) : (
                <Rows label="Accuracy" columns={columns} rows={rows} keyOf={(r) => `${r.receiver} ${r.status} ${r.reason}`} />
              )}
            </>
          )}
        </Loaded>
      </Panel>
    </Page>
  );
}
