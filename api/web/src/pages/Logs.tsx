import { Button, Group, Select, Stack, Switch, Tabs, Text, TextInput } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type FormEvent, type ReactNode } from "react";
import { api, take, type Schemas, type Status } from "../api/client";
import { callbacks, receipt, requests, verifications } from "../api/queries";
import { counted, exactly, number } from "../format";
import { Badge, Code, Cut, Empty, Facts, Icon, Loaded, Moment, Name, Note, Page, Panel, Rows, StatusBadge, To, Trouble, type Column } from "../parts";
import { DataTable } from "../parts/DataTable";
import { Control, Rule } from "../parts/Evidence";
import { callbackStates, logTabs, useFragment, type CallbackState, type LogsSearch, type LogTab } from "../search";
import { statuses } from "../verdict";

type Show = (next: LogsSearch, fragment?: Record<string, string>) => void;

/** useLogsSearch is the part that the address names, and how another is shown; the fragment stays where a page names none. */
function useLogsSearch(): [LogsSearch, Show] {
  const search: LogsSearch = useSearch({ strict: false });
  const navigate = useNavigate();
  return [search, (next, fragment) => void navigate({ to: ".", search: () => next, hash: fragment ? new URLSearchParams(fragment).toString() : true, resetScroll: false })];
}

/** Logs is what the account's programs asked, and what was sent to them. */
export function Logs() {
  const [search, show] = useLogsSearch();
  if (search.request) return <OneRequest id={search.request} />;
  const tab = search.tab ?? "callbacks";
  return (
    <Page title="Logs" note="Callbacks that were sent, requests to the API, and addresses that were verified one by one. Requests and verifications are kept for 30 days.">
      <Tabs value={tab} onChange={(t) => show({ tab: logTabs.find((x) => x === t) }, {})} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="callbacks">Callbacks</Tabs.Tab>
          <Tabs.Tab value="requests">API requests</Tabs.Tab>
          <Tabs.Tab value="verifications">Verifications</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="callbacks">
          <Stack gap="lg">
            <Failing />
            <AllCallbacks search={search} show={show} />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="requests">
          <Requests search={search} show={show} />
        </Tabs.Panel>
        <Tabs.Panel value="verifications">
          <Verifications search={search} show={show} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

type Listed = Schemas["ListedCallback"];

const fails = (c: Listed) => c.status === "failed" || (c.status === "pending" && c.attempts > 0);

const callbackColumns: Column<Listed>[] = [
  { title: "Callback", kind: "name", of: (c) => <OfWhat callback={c} /> },
  { title: "State", of: (c) => <StateOf callback={c} /> },
  { title: "Answer", kind: "text", of: (c) => <LastAnswer callback={c} /> },
  { title: "Last attempt", of: (c) => <Moment at={c.last_attempt?.at} none="none yet" /> },
  { title: "Next attempt", of: (c) => <Moment at={c.status === "pending" ? c.next_attempt_at : null} none="none" /> },
  { title: "Send again", kind: "act", of: (c) => <Replay callback={c} /> },
];

function OfWhat({ callback: c }: { callback: Listed }) {
  return (
    <>
      {c.job_id ? (
        <Link to="/lists/$jobId" params={{ jobId: c.job_id }} search={{ tab: "callback" }} className="row-link">
          <Cut text={c.job_name || c.job_id} />
        </Link>
      ) : (
        <Link to="/logs" search={{ tab: "verifications", request: c.request_id ?? "" }} className="row-link">
          Single verification
        </Link>
      )}
      <Note>
        <Cut text={c.callback_url} />
      </Note>
    </>
  );
}

function StateOf({ callback: c }: { callback: Listed }) {
  const tone = fails(c) ? "bad" : c.status === "delivered" ? "good" : c.status === "pending" ? "busy" : "none";
  return (
    <>
      <Badge tone={tone}>{c.status === "pending" && fails(c) ? "failing" : c.status}</Badge>
      {c.attempts > 0 && <Note>{counted(c.attempts, "attempt")}</Note>}
    </>
  );
}

/** LastAnswer is what the receiver said to the newest attempt, and what was sent to it. */
function LastAnswer({ callback: c }: { callback: Listed }) {
  const a = c.last_attempt;
  if (!a) return <Text size="sm" c="dimmed">Not sent yet</Text>;
  return (
    <>
      <span className={fails(c) ? "ink-bad" : undefined}>{a.error ?? `answered ${a.status}`}</span>
      {a.answer && (
        <Note>
          <span className="mono">{a.answer}</span>
        </Note>
      )}
      <Note>
        {number(a.bytes)} bytes sent in {number(a.duration_ms)} ms{a.link && ", with a link in place of the results"}
      </Note>
    </>
  );
}

function Replay({ callback: c }: { callback: Listed }) {
  const client = useQueryClient();
  const send = useMutation({
    mutationFn: () => take(api.POST("/v1/callbacks/{callback_id}/replay", { params: { path: { callback_id: c.callback_id } } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["callbacks"] });
      if (c.job_id) void client.invalidateQueries({ queryKey: ["callback", c.job_id] });
    },
  });
  const what = c.job_id ? `the callback of ${c.job_name || c.job_id}` : "the callback of a single verification";
  return (
    <>
      <Button size="compact-sm" variant="default" loading={send.isPending} onClick={() => send.mutate()} aria-label={`Send again: ${what}`}>
        Send again
      </Button>
      <span role="status">
        {send.isSuccess && <Note>Sent again</Note>}
        {send.error && <Note bad>{send.error.message}</Note>}
      </span>
    </>
  );
}

/** Failing is what was refused so far or for good, before all the rest. */
function Failing() {
  const query = useQuery(callbacks({ failing: true, limit: 20 }));
  if (!query.data || query.data.callbacks.length === 0) return null;
  return (
    <Panel title="Failing" actions={<Badge tone="bad">{counted(query.data.callbacks.length, "callback")}{query.data.next_cursor && " and more"}</Badge>}>
      <Rows label="Failing callbacks" columns={callbackColumns} rows={query.data.callbacks} keyOf={(c) => c.callback_id} />
    </Panel>
  );
}

interface TabProps {
  search: LogsSearch;
  show: Show;
}

interface LogProps<T> extends TabProps {
  query: { data: { rows: T[]; next: string | null } | undefined; error: unknown; isPending: boolean; refetch: () => unknown };
  what: string;
  label: string;
  columns: Column<T>[];
  keyOf: (row: T, index: number) => string;
  empty: ReactNode;
}

/** Log is a page of a log, the newest first. */
function Log<T>({ query, what, label, columns, keyOf, empty, search, show }: LogProps<T>) {
  return (
    <>
      <Loaded query={query} what={what}>
        {({ rows, next }) => (
          <DataTable
            label={label}
            columns={columns}
            rows={rows}
            keyOf={keyOf}
            empty={next ? <Text my="sm">None among the newest ones; there are older ones.</Text> : empty}
            pages={{ cursor: search.cursor, next, go: (cursor) => show({ ...search, cursor }) }}
          />
        )}
      </Loaded>
      {query.error !== null && query.data && <Trouble error={query.error} />}
    </>
  );
}

function AllCallbacks({ search, show }: TabProps) {
  const query = useQuery({
    ...callbacks({ status: search.state, cursor: search.cursor, limit: 20 }),
    placeholderData: keepPreviousData,
    select: (d) => ({ rows: d.callbacks, next: d.next_cursor }),
  });
  return (
    <Panel
      title="All callbacks"
      actions={
        <Select
          size="xs"
          aria-label="Filter by state"
          data={[{ value: "", label: "All states" }, ...callbackStates.map((s) => ({ value: s, label: s.charAt(0).toUpperCase() + s.slice(1) }))]}
          value={search.state ?? ""}
          onChange={(v) => show({ tab: "callbacks", state: (v || undefined) as CallbackState | undefined })}
          allowDeselect={false}
          w="10rem"
        />
      }
    >
      <Log
        query={query}
        what="callbacks"
        label="All callbacks"
        columns={callbackColumns}
        keyOf={(c) => c.callback_id}
        search={search}
        show={show}
        empty={
          <Empty icon="callback" title={search.state ? `No ${search.state} callbacks` : "No callbacks yet"}>
            Name a callback URL with a list, and its results are sent there. <To to="/settings/callbacks">Send a test callback</To>.
          </Empty>
        }
      />
    </Panel>
  );
}

type LoggedRequest = Schemas["LoggedRequest"];

/** Of is a link to a request, with what the API answered and which addresses it verified. */
function Of({ request, tab, children }: { request: string; tab: LogTab; children: ReactNode }) {
  return (
    <Link to="/logs" search={{ tab, request }} className="row-link">
      {children}
    </Link>
  );
}

/** Caller is the key that a program used, or the dashboard. */
const caller = (r: { key_id: string | null; key_name: string | null }) => (r.key_id === null ? "Dashboard" : (r.key_name ?? "revoked key"));

function StatusCode({ code }: { code: number }) {
  return <Badge tone={code >= 500 ? "bad" : code >= 400 ? "fair" : "good"}>{code}</Badge>;
}

const requestColumns: Column<LoggedRequest>[] = [
  { title: "Request", kind: "name", of: (r) => <Of request={r.request_id} tab="requests">{r.method} <Name text={r.route} /></Of> },
  { title: "Status", of: (r) => <StatusCode code={r.status_code} /> },
  { title: "Answer", kind: "text", of: (r) => r.detail },
  { title: "At", of: (r) => <Moment at={r.at} /> },
  { title: "Took", kind: "number", of: (r) => `${number(r.duration_ms)} ms` },
  { title: "Key", kind: "name", of: (r) => <Cut text={caller(r)} /> },
];

function Requests({ search, show }: TabProps) {
  const query = useQuery({
    ...requests({ errors: search.errors, cursor: search.cursor, limit: 25 }),
    placeholderData: keepPreviousData,
    select: (d) => ({ rows: d.requests, next: d.next_cursor }),
  });
  return (
    <Panel title="API requests" actions={<Switch label="Errors only" checked={search.errors === true} onChange={(e) => show({ tab: "requests", errors: e.currentTarget.checked || undefined })} />}>
      <Log
        query={query}
        what="requests"
        label="API requests"
        columns={requestColumns}
        keyOf={(r) => r.request_id + r.at}
        search={search}
        show={show}
        empty={
          <Empty icon="logs" title={search.errors ? "No request failed" : "No requests yet"}>
            {search.errors ? "Every request was answered without an error." : <>Programs call the API with a <To to="/settings/keys">key</To>; their requests appear here.</>}
          </Empty>
        }
      />
    </Panel>
  );
}

type LoggedVerification = Schemas["LoggedVerification"];

const verificationColumns: Column<LoggedVerification>[] = [
  { title: "Address", kind: "name", of: (v) => <Of request={v.request_id} tab="verifications"><Name text={v.email} /></Of> },
  { title: "Status", of: (v) => <><StatusBadge status={v.status} />{v.test && <> <Badge tone="none">test</Badge></>}</> },
  { title: "Score", kind: "number", of: (v) => v.score },
  { title: "Reason", kind: "name", of: (v) => v.reason && <span className="mono word">{v.reason}</span> },
  { title: "At", of: (v) => <Moment at={v.at} /> },
  { title: "Credits", kind: "number", of: (v) => number(v.credits_used) },
  { title: "Key", kind: "name", of: (v) => <Cut text={caller(v)} /> },
];

function Verifications({ search, show }: TabProps) {
  const [fragment] = useFragment();
  const q = fragment.get("q") ?? "";
  const [text, setText] = useState(q);
  const query = useQuery({
    ...verifications({ status: search.status, q: q || undefined, cursor: search.cursor, limit: 25 }),
    placeholderData: keepPreviousData,
    select: (d) => ({ rows: d.verifications, next: d.next_cursor }),
  });
  function submit(e: FormEvent) {
    e.preventDefault();
    show({ tab: "verifications", status: search.status }, text.trim() ? { q: text.trim() } : {});
  }
  return (
    <Panel title="Verifications of single addresses">
      <form onSubmit={submit}>
        <Group className="asks" align="flex-end" gap="sm" mb="sm">
          <TextInput label="Part of the address" placeholder="ann@ or example.com" value={text} onChange={(e) => setText(e.currentTarget.value)} spellCheck={false} autoComplete="off" style={{ flex: "1 1 14rem" }} />
          <Select
            label="Status"
            data={[{ value: "", label: "Any" }, ...statuses.map((s) => ({ value: s, label: s }))]}
            value={search.status ?? ""}
            onChange={(v) => show({ tab: "verifications", status: (v || undefined) as Status | undefined })}
            allowDeselect={false}
            w="9rem"
          />
          <Button type="submit" variant="default" leftSection={<Icon name="search" size={16} />}>
            Search
          </Button>
        </Group>
      </form>
      <Log
        query={query}
        what="verifications"
        label="Verifications"
        columns={verificationColumns}
        keyOf={(v, i) => v.request_id + i}
        search={search}
        show={show}
        empty={
          <Empty icon="verify" title={search.status || q ? "No matching verifications" : "No verifications yet"}>
            Addresses that were <To to="/verify">verified one by one</To> or in a batch appear here. Rows of lists are in their <To to="/lists">jobs</To>.
          </Empty>
        }
      />
    </Panel>
  );
}

/** OneRequest is a request with the addresses that it verified, and the evidence of a single one. */
function OneRequest({ id }: { id: string }) {
  const search: LogsSearch = useSearch({ strict: false });
  const request = useQuery({ ...requests({ request_id: id, limit: 1 }), select: (d) => d.requests[0] ?? null });
  const found = useQuery({ ...verifications({ request_id: id, limit: 100 }), select: (d) => d.verifications });
  const proven = found.data?.length === 1 && found.data[0]!.receipt;
  return (
    <Page title="Request" note={<To to="/logs" search={{ tab: search.tab }}>Back to the logs</To>}>
      <Panel title={<span className="mono">{id}</span>}>
        <Loaded query={request} what="the request">
          {(r) => (r === null ? <Text c="dimmed">This request is not in the log any more.</Text> : <RequestFacts request={r} />)}
        </Loaded>
      </Panel>
      <Loaded query={found} what="its verifications">
        {(list) =>
          list.length > 0 && (
            <Panel title={list.length === 1 ? "Verdict" : "Verdicts"}>
              <Rows label="Verdicts of the request" columns={verdictColumns} rows={list} keyOf={(v, i) => v.email + i} />
            </Panel>
          )
        }
      </Loaded>
      {proven && <Evidence request={id} />}
    </Page>
  );
}

const verdictColumns: Column<LoggedVerification>[] = [{ title: "Address", kind: "name", of: (v) => <b><Name text={v.email} /></b> }, ...verificationColumns.slice(1, 6)];

function RequestFacts({ request: r }: { request: LoggedRequest }) {
  return (
    <Facts
      list={[
        ["Request", <span className="mono" key="route">{r.method} {r.route}</span>],
        ["Status", <StatusCode key="status" code={r.status_code} />],
        ["Answer", r.detail],
        ["At", exactly(r.at)],
        ["Took", `${number(r.duration_ms)} ms`],
        ["Key", caller(r)],
      ]}
    />
  );
}

interface Reply {
  mx_host?: string | null;
  smtp_code?: number | null;
  smtp_message?: string | null;
  stage?: string | null;
  egress_source?: string | null;
  at?: string | null;
}

/** Evidence is what the verdict of a single call rests on, as its receipt says. */
function Evidence({ request }: { request: string }) {
  const query = useQuery(receipt(request));
  return (
    <>
      <Panel title="Evidence">
        <Loaded query={query} what="the evidence">
          {({ statement: s }) => {
            const reply = s.reply as Reply | null;
            return (
              <Facts
                list={[
                  ["Reply", reply ? <span className="mono" key="reply">{reply.smtp_message ?? reply.smtp_code}</span> : "no mail server had to be asked"],
                  ["SMTP stage", reply?.stage],
                  ["Host", reply?.mx_host && <span className="mono" key="host"><Name text={reply.mx_host} /></span>],
                  ["Asked from", reply?.egress_source],
                  ["Replied", reply?.at && exactly(reply.at)],
                  ["Rule applied", s.rule && <Rule key="rule" rule={s.rule} source={s.rule_source} date={s.rule_date} />],
                  ["Rests on", s.control && <Control key="control" control={s.control} />],
                  ["Node", s.node],
                ]}
              />
            );
          }}
        </Loaded>
      </Panel>
      {query.data && (
        <Panel title="Signed receipt">
          <Code text={JSON.stringify(query.data, null, 2)} label="The receipt as JSON" copy="Copy JSON" />
        </Panel>
      )}
    </>
  );
}
