import { Button, Group, Select, Stack, Table, Tabs, Text, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import type { Schemas } from "../api/client";
import { probes, providers, traces, type TraceQuery } from "../api/queries";
import { number } from "../format";
import { Badge, Empty, Icon, Loaded, Moment, Page, Panel, StatusBadge, toneOf } from "../parts";

/** Probes leads from verdicts back to replies and rules. */
export function Probes() {
  return (
    <Page title="Probes" note="From the verdict back to the reply and the rule that read it. Addresses are not kept, so none is shown; yet the probes of one can be found.">
      <Tabs defaultValue="all" keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="all">All probes</Tabs.Tab>
          <Tabs.Tab value="singles">Single calls</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="all">
          <All />
        </Tabs.Panel>
        <Tabs.Panel value="singles">
          <Singles />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

const outcomes = [
  { value: "", label: "Any outcome" },
  { value: "VALID", label: "VALID" },
  { value: "RISKY", label: "RISKY" },
  { value: "INVALID", label: "INVALID" },
  { value: "UNKNOWN", label: "UNKNOWN (kept longer)" },
  { value: "DEFERRED", label: "DEFERRED: asked again later" },
];

const step = 50;

function All() {
  const [asked, setAsked] = useState<TraceQuery>({ limit: step });
  const [email, setEmail] = useState("");
  const query = useQuery({ ...traces(asked), placeholderData: keepPreviousData });
  const table = useQuery(providers).data;
  const set = (news: Partial<TraceQuery>) => setAsked((old) => ({ ...old, limit: step, ...news }));
  function find(e: FormEvent) {
    e.preventDefault();
    set({ email: email.trim() || undefined });
  }
  return (
    <Panel>
      <Group align="flex-end" gap="sm" mb="sm">
        <Select label="Outcome" data={outcomes} value={asked.status ?? ""} onChange={(v) => set({ status: (v || undefined) as TraceQuery["status"] })} allowDeselect={false} w="15rem" />
        <Select
          label="Provider"
          searchable
          clearable
          placeholder="Any"
          data={(table?.providers ?? []).filter((p) => p.id).map((p) => ({ value: p.id, label: p.name || p.id }))}
          value={asked.provider ?? null}
          onChange={(v) => set({ provider: v ?? undefined })}
          clearButtonProps={{ "aria-label": "Any provider" }}
          w="13rem"
        />
        <form onSubmit={find}>
          <Group align="flex-end" gap="xs">
            <TextInput label="Address" placeholder="ann@example.org" value={email} onChange={(e) => setEmail(e.currentTarget.value)} autoComplete="off" w="15rem" />
            <Button type="submit" variant="default" leftSection={<Icon name="search" size={16} />}>
              Find
            </Button>
          </Group>
        </form>
      </Group>
      <Loaded query={query} what="recent probes">
        {({ traces: list, mute }) => (
          <Stack gap="sm">
            {mute.length > 0 && (
              <Text size="sm" className="ink-bad" role="status">
                {mute.join(", ")} cannot be asked: what was probed there is not listed.
              </Text>
            )}
            {list.length === 0 ? (
              <Empty icon="probes" title={asked.status || asked.provider || asked.email ? "No such probe is remembered" : "None since the nodes started"}>
                Nodes remember some probes of each second, the newest thousand; those that ended UNKNOWN longer, five thousand of them. What came from the cache or needed no mail server was not probed.
              </Empty>
            ) : (
              <Traces list={list} />
            )}
            {list.length >= (asked.limit ?? step) && list.length < 500 && (
              <Group>
                <Button size="compact-sm" variant="default" loading={query.isPlaceholderData} onClick={() => setAsked((old) => ({ ...old, limit: 500 }))}>
                  Show more
                </Button>
              </Group>
            )}
          </Stack>
        )}
      </Loaded>
    </Panel>
  );
}

function Outcome({ status }: { status: Schemas["Trace"]["status"] }) {
  return status === "DEFERRED" ? <Badge tone="busy">DEFERRED</Badge> : <span className={`badge tone-${toneOf(status)}`}>{status}</span>;
}

function Traces({ list }: { list: Schemas["Trace"][] }) {
  return (
    <div className="scroll wide" tabIndex={0} role="region" aria-label="Recent probes">
      <Table verticalSpacing="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>At</Table.Th>
            <Table.Th>Verdict</Table.Th>
            <Table.Th>Host</Table.Th>
            <Table.Th>Reply</Table.Th>
            <Table.Th>Rule</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {list.map((p, i) => (
            <Table.Tr key={i} style={{ verticalAlign: "top" }}>
              <Table.Td>
                <Moment at={p.time} />
                <Text size="xs" c="dimmed">
                  {p.egress} of {p.node}
                </Text>
              </Table.Td>
              <Table.Td>
                <Stack gap={2} align="flex-start">
                  <Outcome status={p.status} />
                  <span className="mono word">{p.reason}</span>
                </Stack>
              </Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere", maxWidth: "16rem" }}>
                {p.mx || "none"}
                <Text size="xs" c="dimmed">
                  {p.provider || "no provider we know"}, attempt {p.attempts}
                </Text>
              </Table.Td>
              <Table.Td style={{ maxWidth: "26rem" }}>
                <span className="mono">{p.code ? `${p.code} ${p.message ?? ""}` : p.event || "none"}</span>
                {p.stage && (
                  <Text size="xs" c="dimmed">
                    at {p.stage}
                    {p.meaning && `: ${p.meaning.replaceAll("_", " ")}`}
                  </Text>
                )}
              </Table.Td>
              <Table.Td style={{ maxWidth: "18rem" }}>
                <span className="mono" style={{ overflowWrap: "anywhere" }}>{p.rule || "—"}</span>
                {p.source && (
                  <Text size="xs" c="dimmed">
                    {p.source}
                  </Text>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

/** Singles are the newest calls of customers, with whose they were. */
function Singles() {
  const query = useQuery(probes);
  return (
    <Panel>
      <Loaded query={query} what="recent calls">
        {(list) =>
          list.length === 0 ? (
            <Empty icon="probes" title="None since this server started">
              Every single verification is listed here for a while.
            </Empty>
          ) : (
            <div className="scroll wide" tabIndex={0} role="region" aria-label="Single calls">
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
                    <SingleRow key={i} probe={p} />
                  ))}
                </Table.Tbody>
              </Table>
            </div>
          )
        }
      </Loaded>
    </Panel>
  );
}

function SingleRow({ probe: p }: { probe: Schemas["Probe"] }) {
  return (
    <Table.Tr style={{ verticalAlign: "top" }}>
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
  );
}
