import { Button, Group, Stack, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { node, probes, providers } from "../api/queries";
import type { Schemas } from "../api/client";
import { bytes, duration, number } from "../format";
import { Badge, Empty, Icon, Loaded, Moment, Page, Panel, Stat, Stats, StatusBadge } from "../parts";

interface ClusterView {
  coordinator?: string;
  nodes?: {
    name: string;
    address?: string;
    state: string;
    lanes?: number;
    rows_per_second?: number;
    identities?: { local?: string; public?: string; ehlo?: string; state?: string }[];
  }[];
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

const nodeTones: Record<string, "good" | "fair" | "bad" | "none"> = { alive: "good", suspect: "fair", draining: "fair", gone: "bad", dead: "bad", quarantined: "bad", resting: "fair", ready: "good", ok: "good", warn: "fair", fail: "bad" };

/** Cluster is the health of what asks. */
export function Cluster() {
  const query = useQuery(node);
  return (
    <Page title="Cluster" note="Nodes, their identities, what they are doing, and what the doctor says of them.">
      <Loaded query={query} what="the node">
        {(n) => (
          <>
            <div className="panel">
              <Stats>
                <Stat name="This node" note={n.not_ready_because ?? `up for ${duration((Date.now() - Date.parse(n.started_at)) / 1000)}`}>
                  {n.ready ? <span className="ink-good">ready</span> : <span className="ink-bad">not ready</span>}
                </Stat>
                <Stat name="Probes in memory">{number(meter(n.meters, "probity_prober_rows"))}</Stat>
                <Stat name="Lanes">{number(meter(n.meters, "probity_prober_lanes"))}</Stat>
                <Stat name="Open sessions">{number(meter(n.meters, "probity_prober_sessions"))}</Stat>
                <Stat name="Recipients asked" note={`${number(meter(n.meters, "probity_prober_connections_total"))} connections`}>
                  {number(meter(n.meters, "probity_prober_recipients_total"))}
                </Stat>
                <Stat name="Answered from the cache">{number(meter(n.meters, "probity_prober_cache_hits_total"))}</Stat>
                <Stat name="Memory" note={`${bytes(n.heap_bytes)} in use by Go`}>
                  {bytes(n.memory_bytes)}
                </Stat>
                <Stat name="Goroutines" note={`${n.event_streams} event streams`}>
                  {number(n.goroutines)}
                </Stat>
              </Stats>
            </div>
            <Nodes view={n.cluster as ClusterView | null} />
            <Findings report={n.findings as Report | null} />
            <Counts title="Outcomes of probes" note="By status and reason; DEFERRED are asked again later." rows={labelled(n.meters, "probity_prober_outcomes_total")} />
            <Counts title="What replies asked for" note="A lane slows down, pauses or is quarantined when its receiver says so." rows={labelled(n.meters, "probity_prober_actions_total")} />
            <Counts title="Hosts that could not be asked" note="What happened before a recipient could be named." rows={labelled(n.meters, "probity_prober_session_failures_total")} />
            <Text size="sm" c="dimmed">
              {n.go_version}
              {n.revision && `, revision ${n.revision}`}
            </Text>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Nodes({ view }: { view: ClusterView | null }) {
  return (
    <Panel title="Nodes" actions={view?.coordinator && <Text size="sm">coordinator {view.coordinator}</Text>}>
      {!view?.nodes?.length ? (
        <Text size="sm" c="dimmed">
          This server runs everything in one process: the node above is all there is. Nodes of a cluster would be listed here.
        </Text>
      ) : (
        <div className="scroll" tabIndex={0} role="region" aria-label="Nodes">
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Node</Table.Th>
                <Table.Th>State</Table.Th>
                <Table.Th>Identities</Table.Th>
                <Table.Th className="num">Lanes</Table.Th>
                <Table.Th className="num">Rows/s</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {view.nodes.map((n) => (
                <Table.Tr key={n.name}>
                  <Table.Td>
                    {n.name}
                    <Text size="xs" c="dimmed">
                      {n.address}
                    </Text>
                  </Table.Td>
                  <Table.Td>
                    <Badge tone={nodeTones[n.state] ?? "none"}>{n.state}</Badge>
                  </Table.Td>
                  <Table.Td>
                    {n.identities?.map((i) => (
                      <Text size="sm" key={`${i.local}${i.ehlo}`}>
                        <span className="mono">{i.ehlo}</span> {i.public || i.local} {i.state && <Badge tone={nodeTones[i.state] ?? "none"}>{i.state}</Badge>}
                      </Text>
                    ))}
                  </Table.Td>
                  <Table.Td className="num">{number(n.lanes ?? 0)}</Table.Td>
                  <Table.Td className="num">{number(Math.round(n.rows_per_second ?? 0))}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </div>
      )}
    </Panel>
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
                  <Badge tone={nodeTones[String(f.level).toLowerCase()] ?? "none"}>{f.level}</Badge>
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

type Provider = Schemas["Provider"];

const limitWords: [string, string][] = [
  ["connections", "connections at one time"],
  ["connections_per_minute", "connections a minute"],
  ["recipients_per_minute", "recipients a minute"],
  ["recipients_per_transaction", "recipients a transaction"],
  ["recipients_per_connection", "recipients a connection"],
  ["transactions_per_connection", "transactions a connection"],
  ["refusals_per_connection", "refusals a connection"],
  ["refusals_per_hour", "refusals an hour"],
];

/** Providers is the table of receivers: what each tolerates, and who says so. */
export function Providers() {
  const query = useQuery(providers);
  const [find, setFind] = useState("");
  const [open, setOpen] = useState<string | null>(null);
  return (
    <Page title="Providers" note="What each receiver tolerates from one of our addresses. Operators override it in a file; SIGHUP loads it.">
      <Panel>
        <TextInput aria-label="Find a provider" placeholder="Find by name or MX" value={find} onChange={(e) => setFind(e.currentTarget.value)} mb="sm" maw="22rem" leftSection={<Icon name="search" size={16} />} />
        <Loaded query={query} what="the table">
          {({ providers: list, in_force }) => {
            const q = find.trim().toLowerCase();
            const shown = list.filter((p) => !q || [p.id, p.name, ...p.mx].some((s) => s.toLowerCase().includes(q)));
            return (
              <>
                {!in_force && (
                  <Text size="sm" c="dimmed" mb="sm">
                    This is the shipped table: overrides in force are not known here.
                  </Text>
                )}
                {shown.length === 0 ? (
                  <Empty icon="providers" title="No such provider" />
                ) : (
                  <div className="scroll" tabIndex={0} role="region" aria-label="Providers">
                    <Table verticalSpacing="xs">
                      <Table.Thead>
                        <Table.Tr>
                          <Table.Th>Provider</Table.Th>
                          <Table.Th>Probing</Table.Th>
                          <Table.Th className="num">Connections</Table.Th>
                          <Table.Th className="num">Refusals/h</Table.Th>
                          <Table.Th>Overridden</Table.Th>
                          <Table.Th><span className="unseen">More</span>
                          </Table.Th>
                        </Table.Tr>
                      </Table.Thead>
                      <Table.Tbody>
                        {shown.map((p) => (
                          <ProviderRows key={p.id || "unknown"} provider={p} open={open === p.id} toggle={() => setOpen(open === p.id ? null : p.id)} />
                        ))}
                      </Table.Tbody>
                    </Table>
                  </div>
                )}
              </>
            );
          }}
        </Loaded>
      </Panel>
    </Page>
  );
}

const orNone = (n: number | undefined) => (n ? number(n) : "no limit");

function ProviderRows({ provider: p, open, toggle }: { provider: Provider; open: boolean; toggle: () => void }) {
  const name = p.name || p.id || "Hosts nobody knows";
  const facts: [string, ReactNode][] = [
    ["MX names", p.mx.join(", ") || "any other"],
    ["STARTTLS", p.tls],
    ["Spread over all identities", p.wide ? "yes" : "no"],
    ...limitWords.map(([key, words]): [string, ReactNode] => [words, orNone(p.limits[key])]),
    ["Reply rules of its own", number(p.rules)],
    ["Terms", p.terms],
    ["Source", p.source],
    ["As of", p.date],
  ];
  return (
    <>
      <Table.Tr>
        <Table.Td fw={600}>{name}</Table.Td>
        <Table.Td>
          {!p.probe ? <Badge tone="bad">off</Badge> : p.accept_all ? <Badge tone="fair">accepts all</Badge> : <Badge tone="good">on</Badge>}
        </Table.Td>
        <Table.Td className="num">{orNone(p.limits.connections)}</Table.Td>
        <Table.Td className="num">{orNone(p.limits.refusals_per_hour)}</Table.Td>
        <Table.Td>{p.overridden.length > 0 ? <Badge tone="busy">{p.overridden.join(", ")}</Badge> : "—"}</Table.Td>
        <Table.Td className="num">
          <Button size="compact-sm" variant="default" onClick={toggle} aria-expanded={open} aria-label={`${open ? "Less" : "More"} about ${name}`}>
            {open ? "Less" : "More"}
          </Button>
        </Table.Td>
      </Table.Tr>
      {open && (
        <Table.Tr>
          <Table.Td colSpan={6}>
            <Group align="flex-start" gap="xl">
              <dl style={{ margin: 0, display: "grid", gridTemplateColumns: "max-content 1fr", gap: ".25rem 1rem", fontSize: ".875rem" }}>
                {facts
                  .filter(([, v]) => v)
                  .map(([k, v]) => (
                    <div key={k} style={{ display: "contents" }}>
                      <dt>{k}</dt>
                      <dd style={{ margin: 0, overflowWrap: "anywhere" }}>{v}</dd>
                    </div>
                  ))}
              </dl>
            </Group>
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}

/** Probes leads from verdicts back to replies and rules. */
export function Probes() {
  const query = useQuery(probes);
  return (
    <Page title="Probes" note="The newest single verifications of this server, from the verdict back to the reply and the rule that read it. Addresses are not kept, only their domains.">
      <Panel>
        <Loaded query={query} what="recent probes">
          {(list) =>
            list.length === 0 ? (
              <Empty icon="probes" title="None since this server started">
                Every single verification is listed here for a while.
              </Empty>
            ) : (
              <div className="scroll" tabIndex={0} role="region" aria-label="Recent probes">
                <Table verticalSpacing="sm">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>At</Table.Th>
                      <Table.Th>Domain</Table.Th>
                      <Table.Th>Verdict</Table.Th>
                      <Table.Th>Reply</Table.Th>
                      <Table.Th>Rule</Table.Th>
                      <Table.Th className="num">Took</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {list.map((p, i) => (
                      <Table.Tr key={i} style={{ verticalAlign: "top" }}>
                        <Table.Td>
                          <Moment at={p.at} />
                          <Text size="xs" c="dimmed">
                            {p.user}
                          </Text>
                        </Table.Td>
                        <Table.Td>
                          {p.domain || "—"}
                          <Text size="xs" c="dimmed">
                            {p.smtp_provider}
                          </Text>
                        </Table.Td>
                        <Table.Td>
                          <Stack gap={2} align="flex-start">
                            <StatusBadge status={p.status} />
                            <span className="mono word">{p.reason}</span>
                          </Stack>
                        </Table.Td>
                        <Table.Td style={{ maxWidth: "26rem" }}>
                          <span className="mono">{p.smtp_message ?? (p.smtp_code || "none")}</span>
                          {p.mx_host && (
                            <Text size="xs" c="dimmed">
                              {p.stage} at {p.mx_host}
                            </Text>
                          )}
                        </Table.Td>
                        <Table.Td className="mono word">{p.rule ?? "—"}</Table.Td>
                        <Table.Td className="num">
                          {number(p.duration_ms)} ms
                          <Text size="xs" c="dimmed">
                            {p.from_cache ? "from the cache" : p.attempts ? `attempt ${p.attempts}` : ""}
                          </Text>
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </div>
            )
          }
        </Loaded>
      </Panel>
    </Page>
  );
}
