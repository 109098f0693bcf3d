import { Button, Group, Select, Stack, Tabs, Text, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type FormEvent, type ReactNode } from "react";
import type { Schemas } from "../api/client";
import { probes, providers, traces, type TraceQuery } from "../api/queries";
import { number } from "../format";
import type { Outcome, ProbesSearch } from "../search";
import { Badge, Cut, Empty, Icon, Loaded, Moment, More, Name, Note, Page, Panel, Rows, StatusBadge, toneOf, type Column } from "../parts";

/** Probes leads from verdicts back to replies and rules. */
export function Probes() {
  const { tab = "all" } = useSearch({ from: "/operator/probes" });
  const navigate = useNavigate({ from: "/operator/probes" });
  return (
    <Page title="Probes" note="Recent SMTP probes with reply and matching rule. Addresses are not stored; search by exact address.">
      <Tabs value={tab} onChange={(v) => void navigate({ search: { tab: v === "singles" ? v : undefined } })} keepMounted={false}>
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

const step = 25;

const most = 500;

function All() {
  const { status, provider, host } = useSearch({ from: "/operator/probes" });
  const navigate = useNavigate({ from: "/operator/probes" });
  const [asked, setAsked] = useState<Pick<TraceQuery, "email" | "limit">>({ limit: step });
  const [email, setEmail] = useState("");
  const query = useQuery({ ...traces({ ...asked, limit: host ? most : (asked.limit ?? step), status, provider }), placeholderData: keepPreviousData });
  const table = useQuery(providers).data;
  const names = new Map(table?.providers.map((p) => [p.id, p.name || p.id]));
  const set = (news: ProbesSearch) => void navigate({ search: (old: ProbesSearch) => ({ ...old, ...news }), replace: true });
  function find(e: FormEvent) {
    e.preventDefault();
    setAsked({ limit: step, email: email.trim() || undefined });
  }
  return (
    <Panel>
      <Group className="asks" align="flex-end" gap="sm" mb="sm">
        <Select label="Outcome" data={outcomes} value={status ?? ""} onChange={(v) => set({ status: (v || undefined) as Outcome | undefined })} allowDeselect={false} w="15rem" />
        <Select
          label="Provider"
          searchable
          clearable
          placeholder="Any"
          data={(table?.providers ?? []).filter((p) => p.id).map((p) => ({ value: p.id, label: p.name || p.id }))}
          value={provider ?? null}
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
        {host && (
          <Button variant="default" rightSection={<Icon name="cross" size={14} />} onClick={() => set({ host: undefined })} aria-label={`Show hosts other than ${host} too`}>
            <Cut text={host} />
          </Button>
        )}
      </Group>
      <Loaded query={query} what="recent probes">
        {({ traces: all, unresponsive }) => {
          const list = host ? all.filter((t) => t.mx === host) : all;
          return (
          <Stack gap="sm">
            {unresponsive.length > 0 && (
              <Text size="sm" className="ink-bad" role="status">
                {unresponsive.join(", ")} cannot be asked: what was probed there is not listed.
              </Text>
            )}
            {list.length === 0 ? (
              <Empty icon="probes" title={status || provider || host || asked.email ? "No matching probes" : "No probes yet"}>
                Nodes remember some probes of each second, the newest thousand; those that ended UNKNOWN longer, five thousand of them. What came from the cache or needed no mail server was not probed.
              </Empty>
            ) : (
              <Rows label="Recent probes" columns={traceColumns(names)} rows={list} keyOf={(_, i) => i} />
            )}
            {!host && list.length >= (asked.limit ?? step) && list.length < most && (
              <Group>
                <More loading={query.isPlaceholderData} onClick={() => setAsked((old) => ({ ...old, limit: most }))}>
                  Show more
                </More>
              </Group>
            )}
          </Stack>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function OutcomeBadge({ status }: { status: Schemas["Trace"]["status"] }) {
  return status === "DEFERRED" ? <Badge tone="busy">DEFERRED</Badge> : <span className={`badge tone-${toneOf(status)}`}>{status}</span>;
}

type Trace = Schemas["Trace"];

/** traceColumns calls providers by their names. */
const traceColumns = (names: ReadonlyMap<string, string>): Column<Trace>[] => [
  { title: "Verdict", of: (p) => <Verdict badge={<OutcomeBadge status={p.status} />} reason={p.reason} /> },
  { title: "At", of: (p) => <Moment at={p.time} /> },
  { title: "From", of: (p) => <From trace={p} /> },
  { title: "Host", kind: "name", of: (p) => <Host trace={p} provider={names.get(p.provider) ?? p.provider} /> },
  { title: "Reply", kind: "text", of: (p) => <Reply trace={p} /> },
  { title: "Rule", kind: "name", of: (p) => <Rule trace={p} /> },
];

function Verdict({ badge, reason }: { badge: ReactNode; reason: string | null | undefined }) {
  return (
    <>
      {badge}
      {reason && (
        <div>
          <span className="mono">
            <Name text={reason} />
          </span>
        </div>
      )}
    </>
  );
}

function From({ trace: p }: { trace: Trace }) {
  return (
    <>
      {p.egress}
      <Note>node {p.node}</Note>
    </>
  );
}

function Host({ trace: p, provider }: { trace: Trace; provider: string }) {
  const more = [provider !== "other" && provider, p.attempts > 1 && `attempt ${p.attempts}`].filter(Boolean);
  return (
    <>
      <Name text={p.mx || "none"} />
      {more.length > 0 && <Note>{more.join(", ")}</Note>}
    </>
  );
}

function Reply({ trace: p }: { trace: Trace }) {
  return (
    <>
      <span className="mono">{p.code ? `${p.code} ${p.message ?? ""}` : p.event || "none"}</span>
      {p.stage && (
        <Note>
          at {p.stage}
          {p.meaning && `: ${p.meaning.replaceAll("_", " ")}`}
        </Note>
      )}
      {p.decoy && (
        <Note>
          decoy: {p.decoy.code ? `${p.decoy.code} ${p.decoy.message ?? p.decoy.enhanced ?? ""}` : p.decoy.event}
          {p.decoy.meaning && `, ${p.decoy.meaning.replaceAll("_", " ")}`}
        </Note>
      )}
    </>
  );
}

function Rule({ trace: p }: { trace: Trace }) {
  return (
    <>
      <span className="mono">{p.rule ? <Name text={p.rule} /> : "—"}</span>
      {p.source && <Note>{p.source}</Note>}
      {p.decoy?.rule && (
        <Note>
          decoy: <Name text={p.decoy.rule} />
          {p.decoy.source && `, ${p.decoy.source}`}
        </Note>
      )}
    </>
  );
}

type Probe = Schemas["Probe"];

const singleColumns: Column<Probe>[] = [
  { title: "Verdict", of: (p) => <Verdict badge={<StatusBadge status={p.status} />} reason={p.reason} /> },
  { title: "At", of: (p) => <Moment at={p.at} /> },
  { title: "Account", kind: "name", of: (p) => <Cut text={p.user} /> },
  { title: "Domain", kind: "name", of: (p) => <Domain probe={p} /> },
  { title: "Reply", kind: "text", of: (p) => <SingleReply probe={p} /> },
  { title: "Rule", of: (p) => <span className="mono">{p.rule ? <Name text={p.rule} /> : "—"}</span> },
  { title: "Took", kind: "number", of: (p) => <Took probe={p} /> },
];

function Domain({ probe: p }: { probe: Probe }) {
  return (
    <>
      <Name text={p.domain || "—"} />
      {p.smtp_provider && p.smtp_provider !== "other" && <Note>{p.smtp_provider}</Note>}
    </>
  );
}

function SingleReply({ probe: p }: { probe: Probe }) {
  return (
    <>
      <span className="mono">{p.smtp_message ?? (p.smtp_code || "none")}</span>
      {p.mx_host && (
        <Note>
          {p.stage} at <Name text={p.mx_host} />
        </Note>
      )}
    </>
  );
}

function Took({ probe: p }: { probe: Probe }) {
  return (
    <>
      {number(p.duration_ms)} ms
      {p.from_cache ? <Note>from the cache</Note> : p.attempts > 1 && <Note>attempt {p.attempts}</Note>}
    </>
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
            <Empty icon="probes" title="No single verifications yet">
              Recent single verifications appear here.
            </Empty>
          ) : (
            <Rows label="Single calls" columns={singleColumns} rows={list} keyOf={(_, i) => i} />
          )
        }
      </Loaded>
    </Panel>
  );
}
