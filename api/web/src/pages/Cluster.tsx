import { Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { node } from "../api/queries";
import { bytes, duration, number } from "../format";
import { Badge, Loaded, Moment, Page, Panel, Stat, Stats } from "../parts";
import { Lanes } from "./Lanes";

interface Identity {
  name: string;
  local?: string;
  public?: string;
  ehlo?: string;
  state?: string;
  lanes?: number;
  resting?: number;
  spent?: number;
}

export interface ClusterNode {
  name: string;
  address?: string;
  version?: string;
  state: string;
  usable: boolean;
  since?: string;
  problem?: string;
  lanes?: number;
  sessions?: number;
  rows?: number;
  rows_per_second?: number;
  recipients?: number;
  identities?: Identity[];
  audit_failing?: number;
  audit_doubtful?: number;
}

interface ClusterView {
  coordinator?: string;
  problem?: string;
  rivals?: string[];
  nodes?: ClusterNode[];
}

interface Report {
  at?: string;
  findings?: { check: string; subject: string; level: string | number; what: string; do: string }[];
}

/** meter reads a counter of the node; of one with labels, their sum. */
export function meter(meters: Record<string, number>, name: string): number {
  let sum = 0;
  for (const [key, n] of Object.entries(meters)) if (key === name || key.startsWith(name + "{")) sum += n;
  return sum;
}

/** labelled lists the values of a counter by its labels, the greatest first. */
export function labelled(meters: Record<string, number>, name: string): [string, number][] {
  return Object.entries(meters)
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
      return { tone: "bad", words: "takes no work" };
    default:
      return { tone: "good", words: "takes work" };
  }
}

const levels: Record<string, Tone> = { ok: "good", pass: "good", info: "none", warn: "fair", warning: "fair", fail: "bad", bad: "bad", error: "bad" };
const identityTones: Record<string, Tone> = { ok: "good", resting: "bad", sick: "bad", unknown: "none" };

/** Cluster is the health of what asks. */
export function Cluster() {
  const query = useQuery(node);
  return (
    <Page title="Cluster" note="Nodes, their identities, what they are doing, what receivers let them do, and what the doctor says of them.">
      <Loaded query={query} what="the node">
        {(n) => {
          const view = n.cluster as ClusterView | null;
          return (
            <>
              <Health node={n} nodes={view?.nodes ?? []} />
              <Nodes view={view} />
              <Lanes />
              <Findings report={n.findings as Report | null} />
              <Counts title="Outcomes of probes" note="By status and reason; DEFERRED are asked again later." rows={labelled(n.meters, "probity_prober_outcomes_total")} />
              <Counts title="What replies asked for" note="A lane slows down, pauses or is quarantined when its receiver says so." rows={labelled(n.meters, "probity_prober_actions_total")} />
              <Counts title="Hosts that could not be asked" note="What happened before a recipient could be named." rows={labelled(n.meters, "probity_prober_session_failures_total")} />
              <Text size="sm" c="dimmed">
                {n.go_version}
                {n.revision && `, revision ${n.revision}`}, {number(n.goroutines)} goroutines, {number(n.event_streams)} event streams
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
    <div className="panel">
      <Stats>
        <Stat name="This server" note={n.not_ready_because ?? `up for ${duration((Date.now() - Date.parse(n.started_at)) / 1000)}`}>
          {n.ready ? <span className="ink-good">ready</span> : <span className="ink-bad">not ready</span>}
        </Stat>
        <Stat name="Nodes at work" note={working < nodes.length ? <span className="ink-bad">{nodes.length - working} not</span> : undefined}>
          {working} of {nodes.length}
        </Stat>
        <Stat name="Rows a second" note={`${number(total(nodes, (o) => o.rows))} under way`}>
          {number(Math.round(total(nodes, (o) => o.rows_per_second)))}
        </Stat>
        <Stat name="Recipients asked" note={`${number(total(nodes, (o) => o.lanes))} lanes, ${number(total(nodes, (o) => o.sessions))} open sessions`}>
          {number(total(nodes, (o) => o.recipients))}
        </Stat>
        <Stat name="Memory" note={`${bytes(n.heap_bytes)} in use by Go`}>
          {bytes(n.memory_bytes)}
        </Stat>
      </Stats>
    </div>
  );
}

function Nodes({ view }: { view: ClusterView | null }) {
  const nodes = view?.nodes ?? [];
  return (
    <Panel title="Nodes" actions={view?.coordinator && <Text size="sm">coordinator {view.coordinator}</Text>}>
      {[view?.problem, view?.rivals?.length && `Other coordinators are heard, which no node works for: ${view.rivals.join(", ")}.`].map(
        (words) =>
          words && (
            <Text key={words} size="sm" className="ink-bad" mb="xs" role="alert">
              {words}
            </Text>
          ),
      )}
      {nodes.length === 0 ? (
        <Text size="sm" c="dimmed">
          No prober is there: start one with <span className="mono">probity prober</span>. Until then jobs wait.
        </Text>
      ) : (
        <div className="scroll wide" tabIndex={0} role="region" aria-label="Nodes">
          <Table verticalSpacing="sm">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Node</Table.Th>
                <Table.Th>State</Table.Th>
                <Table.Th>Identities</Table.Th>
                <Table.Th className="num">Sessions</Table.Th>
                <Table.Th className="num">Rows</Table.Th>
                <Table.Th className="num">Rows/s</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {nodes.map((n) => (
                <NodeRow key={n.name} node={n} />
              ))}
            </Table.Tbody>
          </Table>
        </div>
      )}
    </Panel>
  );
}

function NodeRow({ node: n }: { node: ClusterNode }) {
  const { tone, words } = condition(n);
  return (
    <Table.Tr style={{ verticalAlign: "top" }} data-node={n.name}>
      <Table.Td>
        <b>{n.name}</b>
        <Text size="xs" c="dimmed">
          {n.address} {n.version}
        </Text>
      </Table.Td>
      <Table.Td style={{ maxWidth: "20rem" }}>
        <Badge tone={tone}>{words}</Badge>
        {n.since && (
          <Text size="xs" c="dimmed">
            {n.state}, <Moment at={n.since} />
          </Text>
        )}
        {Boolean(n.audit_failing || n.audit_doubtful) && (
          <Text size="xs" className={n.audit_failing ? "ink-bad" : "ink-fair"}>
            doctor: {number(n.audit_failing ?? 0)} failing, {number(n.audit_doubtful ?? 0)} doubtful
          </Text>
        )}
        {n.problem && (
          <Text size="xs" className="ink-bad" style={{ overflowWrap: "anywhere" }}>
            {n.problem}
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        {n.identities?.map((i) => (
          <div key={i.name}>
            <Text size="sm" component="div">
              <span className="mono">{i.ehlo}</span> {i.public || i.local} {i.state && <Badge tone={identityTones[i.state] ?? "none"}>{i.state}</Badge>}
            </Text>
            <Text size="xs" c="dimmed">
              {number(i.lanes ?? 0)} lanes{i.resting ? `, ${number(i.resting)} quarantined` : ""}
              {i.spent ? `, ${number(i.spent)} with their budget used up` : ""}
            </Text>
          </div>
        ))}
      </Table.Td>
      <Table.Td className="num">{number(n.sessions ?? 0)}</Table.Td>
      <Table.Td className="num">{number(n.rows ?? 0)}</Table.Td>
      <Table.Td className="num">{number(Math.round(n.rows_per_second ?? 0))}</Table.Td>
    </Table.Tr>
  );
}

function Findings({ report }: { report: Report | null }) {
  return (
    <Panel title="Doctor" actions={report?.at && <Text size="sm" c="dimmed">looked <Moment at={report.at} /></Text>}>
      {!report?.findings ? (
        <Text size="sm" c="dimmed">
          This server has no report: run <span className="mono">probity doctor</span> on the node.
        </Text>
      ) : (
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Level</Table.Th>
              <Table.Th>Check</Table.Th>
              <Table.Th>Finding</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {report.findings.map((f, i) => (
              <Table.Tr key={i}>
                <Table.Td>
                  <Badge tone={levels[String(f.level).toLowerCase()] ?? "none"}>{f.level}</Badge>
                </Table.Td>
                <Table.Td>
                  {f.check} <span className="mono">{f.subject}</span>
                </Table.Td>
                <Table.Td>
                  {f.what} {f.do}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
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
      <Table layout="fixed">
        <Table.Tbody>
          {rows.map(([name, n]) => (
            <Table.Tr key={name}>
              <Table.Th scope="row" fw={400} w="45%" className="mono">
                {name}
              </Table.Th>
              <Table.Td>
                <div className="bar" aria-hidden>
                  <i className="fill-UNKNOWN" style={{ width: `${(n / most) * 100}%` }} />
                </div>
              </Table.Td>
              <Table.Td className="num" w="8rem">
                {number(n)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Panel>
  );
}
