import { Grid, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { activity, node } from "../api/queries";
import { AnswerBars, FigureLine, hours } from "../charts/Bars";
import { Hours, Strip } from "../charts/Strip";
import { clock, counted, decimal, duration, number } from "../format";
import { AsTable, Empty, Loaded, Moment, Name, Page, Panel, Rows, Stat, Stats, To, type Column } from "../parts";
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
  );
}

function Day({ activity: a, now }: { activity: Activity; now: number }) {
  const common = { points: a.points, step: a.step_seconds, now };
  const age = unitOf(Math.max(...a.points.map((p) => p.oldest_job_seconds)));
  return (
    <>
      <Panel title="Answers">
        <AnswerBars {...common} />
        <AsTable>
          <Rows label="Answers by time" columns={pointColumns(a.step_seconds)} rows={a.points.toReversed()} keyOf={(p) => p.at} narrow="fit" />
        </AsTable>
      </Panel>
      <Panel title="Budgets used">
        <Text size="sm" c="dimmed" mb="xs">
          How much of its fullest budget of recipients a minute each receiver used: taller and redder is fuller.
        </Text>
        {a.receivers.length === 0 ? <Text size="sm" c="dimmed">No budgets used.</Text> : <Budgets activity={a} now={now} />}
      </Panel>
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Panel tall title="Rows waiting">
            <FigureLine {...common} name="Rows waiting" unit="rows" of={(p) => p.waiting} />
          </Panel>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <Panel tall title="Age of the oldest unfinished job">
            <FigureLine {...common} name="Age" unit={age.unit} of={(p) => p.oldest_job_seconds / age.seconds} say={(n) => duration(n * age.seconds)} />
          </Panel>
        </Grid.Col>
      </Grid>
      <Panel title="Failures by host">
        <Text size="sm" c="dimmed" mb="xs">
          Probes that were deferred or ended UNKNOWN, among those that nodes remember: on a busy node a part of all.
        </Text>
        {a.hosts.length === 0 ? <Text size="sm" c="dimmed">No failures.</Text> : <Rows label="Failures by host" columns={hostColumns} rows={a.hosts} keyOf={(h) => h.host} narrow="fit" />}
      </Panel>
    </>
  );
}

/** unitOf is what an axis up to so many seconds is told in. */
function unitOf(seconds: number): { unit: string; seconds: number } {
  if (seconds < 300) return { unit: "seconds", seconds: 1 };
  if (seconds < 3 * 3600) return { unit: "minutes", seconds: 60 };
  if (seconds < 3 * 86_400) return { unit: "hours", seconds: 3600 };
  return { unit: "days", seconds: 86_400 };
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
