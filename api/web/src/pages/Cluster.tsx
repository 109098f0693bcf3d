import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { HTMLAttributes } from "react";
import type { Schemas } from "../api/client";
import { node } from "../api/queries";
import { bytes, counted, duration, exactly, number } from "../format";
import { Badge, Loaded, Moment, Name, Note, Page, Panel, Rows, Stat, Stats, type Column } from "../parts";
import { groupFindings, type Finding, type FindingGroup } from "../findings";
import { Queues } from "./Queues";

interface Identity {
  name: string;
  local?: string;
  public?: string;
  ehlo?: string;
  state?: string;
  ready_queues?: number;
  quarantined?: number;
  exhausted?: number;
}

export interface ClusterNode {
  name: string;
  address?: string;
  version?: string;
  state: string;
  usable: boolean;
  since?: string;
  problem?: string;
  ready_queues?: number;
  sessions?: number;
  rows?: number;
  rows_per_second?: number;
  recipients?: number;
  identities?: Identity[];
  audit_failures?: number;
  audit_warnings?: number;
  audited_at?: string;
  audit_findings?: Finding[];
  counters?: Record<string, number>;
}

interface ClusterView {
  coordinator?: string;
  problem?: string;
  rivals?: string[];
  nodes?: ClusterNode[];
}

interface Report {
  at?: string;
  findings?: Finding[];
}

/** meter reads a counter of the node; of one with labels, their sum. */
export function meter(counters: Record<string, number>, name: string): number {
  let sum = 0;
  for (const [key, n] of Object.entries(counters)) if (key === name || key.startsWith(name + "{")) sum += n;
  return sum;
}

/** together adds up what nodes count. */
export function together(nodes: Pick<ClusterNode, "counters">[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const n of nodes) for (const [key, count] of Object.entries(n.counters ?? {})) sum[key] = (sum[key] ?? 0) + count;
  return sum;
}

/** labelled lists the values of a counter by its labels, the greatest first. */
export function labelled(counters: Record<string, number>, name: string): [string, number][] {
  return Object.entries(counters)
    .filter(([key, n]) => key.startsWith(name + "{") && n > 0)
    .map(([key, n]): [string, number] => [key.slice(name.length + 1, -1).split(",").filter(Boolean).reverse().join(" "), n])
    .sort((a, b) => b[1] - a[1]);
}

type Tone = "good" | "fair" | "bad" | "none";

/** condition is how a node fares, in words that say what it means for the work. */
export function condition(n: Pick<ClusterNode, "state" | "usable" | "problem">): { tone: Tone; words: string } {
  switch (true) {
    case n.state === "gone":
      return { tone: "bad", words: "gone" };
    case n.state === "draining":
      return { tone: "fair", words: "leaving" };
    case n.usable && n.state === "suspect":
      return { tone: "bad", words: "unreachable" };
    case !n.usable:
      return { tone: "bad", words: "unavailable" };
    default:
      return { tone: "good", words: "available" };
  }
}

const severities: Record<string, Tone> = { ok: "good", warn: "fair", fail: "bad", unknown: "none" };
const identityTones: Record<string, Tone> = { ok: "good", quarantined: "bad", trial: "bad", down: "bad", unknown: "none" };

/** Cluster is the health of what asks. */
export function Cluster() {
  const query = useQuery(node);
  return (
    <Page title="Cluster" note="Node health, sending identities, provider budgets and self-checks.">
      <Loaded query={query} what="the node">
        {(n) => {
          const view = n.cluster as ClusterView | null;
          const nodes = view?.nodes ?? [];
          const counters = together(nodes);
          return (
            <>
              <Health node={n} nodes={nodes} />
              <Nodes view={view} />
              <Queues />
              <Findings report={n.findings as Report | null} nodes={nodes} />
              <Counts title="Outcomes of probes" note="By status and reason; DEFERRED are asked again later." rows={labelled(counters, "probity_prober_outcomes_total")} />
              <Counts title="Throttling actions" note="A queue slows down, pauses or is quarantined when its receiver says so." rows={labelled(counters, "probity_prober_actions_total")} />
              <Counts title="Connection failures" note="Sessions that failed before the first recipient." rows={labelled(counters, "probity_prober_session_failures_total")} />
              <Text size="sm" c="dimmed">
                probity {n.build.version}
                {n.build.commit && `, commit ${n.build.commit.slice(0, 12)}`}
                {n.build.date && ` of ${n.build.date}`}, {n.go_version}, {number(n.goroutines)} goroutines, {number(n.event_streams)} event streams
              </Text>
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

const total = (nodes: ClusterNode[], of: (n: ClusterNode) => number | undefined) => nodes.reduce((sum, n) => sum + (of(n) ?? 0), 0);

function Health({ node: n, nodes }: { node: Schemas["Node"]; nodes: ClusterNode[] }) {
  const working = nodes.filter((o) => condition(o).tone === "good").length;
  return (
    <Stats>
      <Stat name="This server" note={n.not_ready_because ?? `up for ${duration((Date.now() - Date.parse(n.started_at)) / 1000)}`}>
        {n.ready ? <span className="ink-good">ready</span> : <span className="ink-bad">not ready</span>}
      </Stat>
      <Stat name="Nodes at work" note={working < nodes.length ? <span className="ink-bad">{nodes.length - working} not</span> : undefined}>
        {nodes.length === 0 ? "none" : `${working} of ${nodes.length}`}
      </Stat>
      <Stat name="Rows a second" note={`${number(total(nodes, (o) => o.rows))} under way`}>
        {number(Math.round(total(nodes, (o) => o.rows_per_second)))}
      </Stat>
      <Stat name="Recipients asked" note={`${counted(total(nodes, (o) => o.ready_queues), "queue")}, ${counted(total(nodes, (o) => o.sessions), "open session")}`}>
        {number(total(nodes, (o) => o.recipients))}
      </Stat>
      <Stat name="Memory" note={`${bytes(n.heap_bytes)} in use by Go`}>
        {bytes(n.memory_bytes)}
      </Stat>
    </Stats>
  );
}

function Nodes({ view }: { view: ClusterView | null }) {
  const nodes = view?.nodes ?? [];
  return (
    <Panel title="Nodes" actions={view?.coordinator && <Text size="sm">coordinator {view.coordinator}</Text>}>
      {[view?.problem, view?.rivals?.length && `Other coordinators detected (no node is attached to them): ${view.rivals.join(", ")}.`].map(
        (words) =>
          words && (
            <Text key={words} size="sm" className="ink-bad" mb="xs" role="alert">
              {words}
            </Text>
          ),
      )}
      {nodes.length === 0 ? (
        <Text size="sm" c="dimmed">
          No prober is connected: start one with <span className="mono">probity prober</span>. Until then jobs wait.
        </Text>
      ) : (
        <Rows label="Nodes" columns={columns} rows={nodes} keyOf={(n) => n.name} rowProps={(n) => ({ "data-node": n.name }) as HTMLAttributes<HTMLTableRowElement>} />
      )}
    </Panel>
  );
}

const columns: Column<ClusterNode>[] = [
  { title: "Node", kind: "name", of: (n) => <NodeName node={n} /> },
  { title: "State", kind: "text", of: (n) => <State node={n} /> },
  { title: "Identities", kind: "text", of: (n) => n.identities?.map((i) => <OneIdentity key={i.name} identity={i} />) },
  { title: "Sessions", kind: "number", of: (n) => number(n.sessions ?? 0) },
  { title: "Rows", kind: "number", of: (n) => number(n.rows ?? 0) },
  { title: "Rows/s", kind: "number", of: (n) => number(Math.round(n.rows_per_second ?? 0)) },
];

function NodeName({ node: n }: { node: ClusterNode }) {
  return (
    <>
      <b>{n.name}</b>
      <Note>
        {n.address} {n.version}
      </Note>
    </>
  );
}

function State({ node: n }: { node: ClusterNode }) {
  const { tone, words } = condition(n);
  return (
    <>
      <Badge tone={tone}>{words}</Badge>
      {n.since && (
        <Note>
          {n.state} for <span title={exactly(n.since)}>{duration((Date.now() - Date.parse(n.since)) / 1000)}</span>
        </Note>
      )}
      {n.problem && <Note bad>{n.problem}</Note>}
    </>
  );
}

function OneIdentity({ identity: i }: { identity: Identity }) {
  return (
    <div>
      <span className="mono">{i.ehlo}</span> {i.public || i.local} {i.state && <Badge tone={identityTones[i.state] ?? "none"}>{i.state}</Badge>}
      <Note>
        {counted(i.ready_queues ?? 0, "queue")}
        {i.quarantined ? `, ${number(i.quarantined)} quarantined` : ""}
        {i.exhausted ? `, ${number(i.exhausted)} with their budget used up` : ""}
      </Note>
    </div>
  );
}

const findingColumns: Column<Finding>[] = [
  { title: "Check", kind: "name", of: (f) => <b>{f.check}</b> },
  { title: "Level", of: (f) => <Badge tone={severities[f.severity] ?? "none"}>{f.severity}</Badge> },
  { title: "Of", of: (f) => <Name text={f.subject} /> },
  { title: "Finding", kind: "text", of: (f) => `${f.message} ${f.advice}` },
];

const doctorColumns: Column<ClusterNode>[] = [
  { title: "Node", kind: "name", of: (n) => <b>{n.name}</b> },
  { title: "Failures", kind: "number", of: (n) => <span className={n.audit_failures ? "ink-bad" : undefined}>{number(n.audit_failures ?? 0)}</span> },
  { title: "Warnings", kind: "number", of: (n) => <span className={n.audit_warnings ? "ink-fair" : undefined}>{number(n.audit_warnings ?? 0)}</span> },
  { title: "Checked", of: (n) => <Moment at={n.audited_at} none="not yet" /> },
];

const groupColumns: Column<FindingGroup>[] = [
  { title: "Check", kind: "name", of: (g) => <b>{g.check}</b> },
  { title: "Level", of: (g) => <Badge tone={severities[g.severity] ?? "none"}>{g.severity}</Badge> },
  { title: "Nodes", kind: "name", of: (g) => <Name text={g.nodes.join(", ")} /> },
  { title: "Findings", kind: "text", of: (g) => <GroupText group={g} /> },
];

/** GroupText is what a check found: once where all that it found reads alike, else behind a summary. */
function GroupText({ group: g }: { group: FindingGroup }) {
  const [first, ...others] = g.findings;
  if (others.length === 0) return first;
  return (
    <details>
      <summary>{counted(g.findings.length, "finding")}</summary>
      <ul style={{ margin: 0, paddingLeft: "1.2rem" }}>
        {g.findings.map((f) => (
          <li key={f}>{f}</li>
        ))}
      </ul>
    </details>
  );
}

/** Findings is what the doctor says: in full of this server, of other nodes what is not well. */
function Findings({ report, nodes }: { report: Report | null; nodes: ClusterNode[] }) {
  if (report?.findings) {
    return (
      <Panel title="Self-checks" actions={report.at && <Text size="sm" c="dimmed">checked <Moment at={report.at} /></Text>}>
        <Rows label="Self-check findings" columns={findingColumns} rows={report.findings} keyOf={(_, i) => i} />
      </Panel>
    );
  }
  const groups = groupFindings(nodes);
  return (
    <Panel title="Self-checks">
      <Text size="sm" c="dimmed" mb="xs">
        Every node checks its identities, names and clock each hour. Passed checks are left out; <span className="mono">probity doctor</span> on a node shows all.
      </Text>
      {nodes.length > 0 && <Rows label="Self-checks by node" columns={doctorColumns} rows={nodes} keyOf={(n) => n.name} narrow="fit" />}
      {groups.length > 0 && <Rows label="Self-check findings" columns={groupColumns} rows={groups} keyOf={(g) => g.check + g.severity} />}
    </Panel>
  );
}

function Counts({ title, note, rows }: { title: string; note: string; rows: [string, number][] }) {
  if (rows.length === 0) return null;
  const most = rows[0]![1];
  return (
    <Panel title={title}>
      <Text size="sm" c="dimmed" mb="xs">
        {note}
      </Text>
      <Rows
        label={title}
        rows={rows}
        keyOf={([name]) => name}
        narrow="fit"
        columns={[
          { title: "Which", kind: "name", of: ([name]) => <span className="mono">{name}</span> },
          { title: "Share", of: ([, n]) => <Bar part={n / most} /> },
          { title: "Number", kind: "number", of: ([, n]) => number(n) },
        ]}
      />
    </Panel>
  );
}

function Bar({ part }: { part: number }) {
  return (
    <div className="bar" aria-hidden style={{ minWidth: "8rem" }}>
      <i className="fill-UNKNOWN" style={{ width: `${part * 100}%` }} />
    </div>
  );
}
