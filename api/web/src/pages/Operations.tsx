import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { activity, node } from "../api/queries";
import { AnswerBars, FigureBars, hours } from "../charts/Bars";
import { Hours, Strip } from "../charts/Strip";
import { clock, counted, decimal, duration, number } from "../format";
import { Empty, Loaded, Moment, Name, Page, Panel, Rows, Stat, Stats, To, type Column } from "../parts";
import { statuses } from "../verdict";
import type { ClusterNode } from "./Cluster";
import { Quarantined } from "./Queues";

type Activity = Schemas["Activity"];
type Point = Schemas["ActivityPoint"];

/** Operations is the operator's home: what is wrong now, and what changed within a day. */
export function Operations() {
  const query = useQuery(activity);
  const now = query.dataUpdatedAt;
  return (
    <Page title="Operations" note="What receivers refuse now, and the last 24 hours of this server. The figures are kept in memory: they begin when it starts.">
      <Quarantined />
      <Loaded query={query} what="the last 24 hours">
        {(a) => (
          <>
            <Now activity={a} />
            {a.points.length === 0 ? (
              <Panel>
                <Empty icon="usage" title="No figures yet">
                  The first ones appear a minute after the start.
                </Empty>
              </Panel>
            ) : (
              <Day activity={a} now={now} />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

const answers = (p: Point) => p.singles + statuses.reduce((n, s) => n + p.counts[s], 0);

function Now({ activity: a }: { activity: Activity }) {
  const health = useQuery(node).data;
  const nodes = (health?.cluster as { nodes?: ClusterNode[] } | null)?.nodes ?? [];
  const last = a.points.at(-1);
  return (
    <div className="panel">
      <Stats>
        <Stat name="Answers a minute" note={last && `over the last ${counted(last.minutes, "minute")}`}>
          {last ? decimal(answers(last) / last.minutes) : "—"}
        </Stat>
        <Stat name="Rows waiting" note="for a retry or for budget">
          {last ? number(last.waiting) : "—"}
        </Stat>
        <Stat name="Oldest unfinished job" note={a.oldest_job && <To to="/operator/jobs/$jobId" params={{ jobId: a.oldest_job.job_id }}>Open the job</To>}>
          {a.oldest_job ? <Moment at={a.oldest_job.created_at} /> : "none"}
        </Stat>
        <Stat name="Nodes available" note={<To to="/operator/cluster">Open the cluster</To>}>
          {health ? `${number(nodes.filter((n) => n.usable && n.state !== "suspect").length)} of ${number(nodes.length)}` : "…"}
        </Stat>
      </Stats>
    </div>
  );
}

function Day({ activity: a, now }: { activity: Activity; now: number }) {
  const common = { points: a.points, step: a.step_seconds, now };
  return (
    <>
      <Panel title="Answers">
        <AnswerBars {...common} />
        <details>
          <Text component="summary" size="sm" c="dimmed" style={{ cursor: "pointer" }}>
            View as table
          </Text>
          <Rows label="Answers by time" columns={pointColumns(a.step_seconds)} rows={a.points.toReversed()} keyOf={(p) => p.at} narrow="fit" />
        </details>
      </Panel>
      <Panel title="Budgets used">
        <Text size="sm" c="dimmed" mb="xs">
          How much of its fullest budget of recipients a minute each receiver used: taller and redder is fuller.
        </Text>
        {a.receivers.length === 0 ? <Text size="sm" c="dimmed">No budgets used.</Text> : <Budgets activity={a} now={now} />}
      </Panel>
      <Panel title="Rows waiting">
        <FigureBars {...common} name="Rows waiting" of={(p) => p.waiting} />
      </Panel>
      <Panel title="Age of the oldest unfinished job">
        <FigureBars {...common} name="Age" of={(p) => p.oldest_job_seconds / 3600} say={(h) => duration(h * 3600)} sayShort={(h) => `${decimal(h)} h`} />
      </Panel>
      <Panel title="Failures by host">
        <Text size="sm" c="dimmed" mb="xs">
          Probes that were deferred or ended UNKNOWN, among those that nodes remember: on a busy node a part of all.
        </Text>
        {a.hosts.length === 0 ? <Text size="sm" c="dimmed">No failures.</Text> : <Rows label="Failures by host" columns={hostColumns} rows={a.hosts} keyOf={(h) => h.host} narrow="fit" />}
      </Panel>
    </>
  );
}

const pointColumns = (step: number): Column<Point>[] => [
  { title: "From", kind: "word", of: (p) => `${clock(new Date(p.at))} to ${clock(new Date(Date.parse(p.at) + step * 1000))}` },
  ...statuses.map((s): Column<Point> => ({ title: s, kind: "number", of: (p) => number(p.counts[s]) })),
  { title: "Single", kind: "number", of: (p) => number(p.singles) },
];

type Receiver = Activity["receivers"][number];

function Budgets({ activity: a, now }: { activity: Activity; now: number }) {
  const places = new Map(a.points.map((p, i) => [p.at, i]));
  const cells = (r: Receiver) => hours(a.points, a.step_seconds, now, (p) => r.used_percent[places.get(p.at)!]!).map((h) => ({ ...h, percent: h.of }));
  const last = a.receivers.at(-1);
  const columns: Column<Receiver>[] = [
    { title: "Receiver", kind: "name", of: (r) => <ReceiverLink name={r.receiver} /> },
    {
      title: "Last 24 hours",
      kind: "text",
      of: (r) => (
        <>
          <Strip label={`${r.receiver}: at most ${r.peak_percent} % used`} cells={cells(r)} />
          {r === last && <Hours cells={cells(r)} />}
        </>
      ),
    },
    { title: "Peak", kind: "number", of: (r) => `${number(r.peak_percent)} %` },
  ];
  return <Rows label="Budgets used" columns={columns} rows={a.receivers} keyOf={(r) => r.receiver} />;
}

/** ReceiverLink leads to the probes at a host, or to what is known of a provider. */
function ReceiverLink({ name }: { name: string }) {
  if (name.includes(".")) return <HostLink host={name} />;
  return <To to="/operator/providers" search={{ find: name }}>{name}</To>;
}

function HostLink({ host }: { host: string }) {
  return (
    <To to="/operator/probes" search={{ host }}>
      <Name text={host} />
    </To>
  );
}

const hostColumns: Column<Activity["hosts"][number]>[] = [
  { title: "Host", kind: "name", of: (h) => <HostLink host={h.host} /> },
  { title: "Failures", kind: "number", of: (h) => number(h.failures) },
  { title: "Last", of: (h) => <Moment at={h.last_at} /> },
];
