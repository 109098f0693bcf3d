import { Button, Group, Select, Text, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import type { Job, Status } from "../api/client";
import { jobProviders, jobRows, rowsShown, type FoundRow } from "../api/queries";
import { number } from "../format";
import { Badge, Facts, Icon, Loaded, Name, Note, Panel, StatusBadge, Trouble, type Column } from "../parts";
import { DataTable } from "../parts/DataTable";
import { evidence } from "../parts/Evidence";
import { useFragment } from "../search";
import { statuses } from "../verdict";

interface OfProvider {
  name: string;
  counts: Record<string, number | undefined>;
  total: number;
}

const providerColumns: Column<OfProvider>[] = [
  { title: "Provider", kind: "name", by: (p) => p.name, of: (p) => p.name },
  ...statuses.map((s): Column<OfProvider> => ({ title: s, kind: "number", by: (p) => p.counts[s] ?? 0, of: (p) => (p.counts[s] ? number(p.counts[s]) : "—") })),
  { title: "Rows", kind: "number", spare: true, by: (p) => p.total, of: (p) => number(p.total) },
];

/** providerName says also what is not a provider by name. */
const providerName = (name: string) => (name === "" ? "No mail server found" : name === "other" ? "Other mail hosts" : name);

export function ByProvider({ job: j }: { job: Job }) {
  const query = useQuery(jobProviders(j.job_id));
  return (
    <Panel title="Providers">
      <Loaded query={query} what="counts by provider">
        {({ providers }) => {
          const rows = Object.entries(providers).map(([name, counts]) => ({ name: providerName(name), counts, total: Object.values(counts).reduce((a, b) => a + b, 0) }));
          return <DataTable label="Rows by provider" columns={providerColumns} rows={rows} keyOf={(p) => p.name} narrow="fit" order="-Rows" pageSize={25} {...(rows.length > 10 && { find: { text: (p: OfProvider) => p.name, placeholder: "Find a provider" } })} />;
        }}
      </Loaded>
    </Panel>
  );
}

const foundColumns: Column<FoundRow>[] = [
  { title: "Address", kind: "name", of: (r) => <Name text={r.email} /> },
  { title: "Row", kind: "number", of: (r) => number(r.row) },
  { title: "Status", of: (r) => (r.status ? <StatusBadge status={r.status} /> : <Badge tone="none">not verified yet</Badge>) },
  { title: "Score", kind: "number", of: (r) => (r.status ? r.score : "—") },
  { title: "Reason", kind: "name", of: (r) => r.reason && <span className="mono word">{r.reason}</span> },
  { title: "Provider", of: (r) => r.smtp_provider },
];

/** Search is the rows of a job, those that the address asks for: what it asks with stands in the fragment. */
export function Search({ job: j }: { job: Job }) {
  const [fragment, show] = useFragment();
  const ofStatus: Status | "" = statuses.find((s) => s === fragment.get("status")) ?? "";
  const q = fragment.get("q") ?? "";
  const after = fragment.get("after") ?? undefined;
  const [text, setText] = useState(q);
  const [status, setStatus] = useState<Status | "">(ofStatus);
  const query = useQuery({ ...jobRows(j.job_id, q, ofStatus, Number(after) || 0), placeholderData: keepPreviousData });
  function submit(e: FormEvent) {
    e.preventDefault();
    const next = { q: text.trim(), status };
    if (next.q === q && status === ofStatus && !after) void query.refetch();
    else show(next);
  }
  const [opened, open] = useState<number | null>(null);
  const evidenceColumn: Column<FoundRow> = {
    title: "Evidence",
    kind: "act",
    of: (r) =>
      r.details && (
        <Button size="compact-sm" variant="default" aria-expanded={opened === r.row} aria-label={`Evidence of row ${r.row}`} onClick={() => open(opened === r.row ? null : r.row)}>
          Evidence
        </Button>
      ),
  };
  return (
    <Panel title="Rows">
      <form onSubmit={submit}>
        <Group align="flex-end" mb="sm">
          <TextInput label="Search by e-mail or domain" placeholder="ann@ or example.com" value={text} onChange={(e) => setText(e.currentTarget.value)} style={{ flex: "1 1 14rem" }} spellCheck={false} autoComplete="off" />
          <Select label="Status" data={[{ value: "", label: "Any" }, ...statuses.map((s) => ({ value: s, label: s }))]} value={status} onChange={(v) => setStatus((v ?? "") as Status | "")} allowDeselect={false} w="9rem" />
          <Button type="submit" variant="default" loading={query.isFetching} leftSection={<Icon name="search" size={16} />}>
            Search
          </Button>
        </Group>
      </form>
      <Loaded query={query} what="the rows">
        {({ rows, next_after: next }) => (
          <>
            <DataTable
              label="Rows found"
              columns={rows.some((r) => r.details) ? [...foundColumns, evidenceColumn] : foundColumns}
              rows={rows}
              keyOf={(r) => String(r.row)}
              below={(r) => r.row === opened && r.details && <Facts list={evidence(r.details, r.email)} />}
              empty={<Text role="status">No matching rows{next === null ? "" : " so far"}.</Text>}
              pages={{ cursor: after, next: next === null ? null : String(next), go: (to) => show({ q, status: ofStatus, ...(to && { after: to }) }), words: ["First", "Next"] }}
            />
            {next !== null && rows.length < rowsShown && (
              <Note>
                Searched {number(next)} of {number(j.total_rows)} rows{query.isFetching ? "…" : ""}
              </Note>
            )}
          </>
        )}
      </Loaded>
      {query.error && query.data && <Trouble error={query.error} again={() => void query.refetch()} />}
    </Panel>
  );
}
