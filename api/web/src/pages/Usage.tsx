import { Button, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, take, type Schemas } from "../api/client";
import { credits, usage } from "../api/queries";
import { CreditBars } from "../charts/Bars";
import { day, number } from "../format";
import { AsTable, Badge, Cut, Empty, Icon, Loaded, Moment, More, Page, Panel, Rows, Stat, Stats, To, type Column } from "../parts";
import type { JobPlace } from "../parts/JobTable";

/** UsagePage is where credits went. */
export function UsagePage() {
  const balance = useQuery(credits);
  const days = useQuery(usage(30));
  const ledger = useInfiniteQuery({
    queryKey: ["ledger"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => take(api.GET("/v1/dash/ledger", { params: { query: { limit: 50, cursor: pageParam || undefined } } })),
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const entries = ledger.data?.pages.flatMap((p) => p.entries) ?? [];
  const used = days.data?.days.reduce((n, d) => n + d.credits_used, 0);
  return (
    <Page
      title="Usage and credits"
      note="A verdict costs one credit. UNKNOWN, blank rows, duplicates and test keys cost nothing."
      actions={
        <Button component="a" href="/v1/dash/ledger.csv" download variant="default" leftSection={<Icon name="download" size={16} />}>
          Ledger as CSV
        </Button>
      }
    >
      <Stats>
        <Stat name="Balance">{balance.data ? number(balance.data.balance) : "…"}</Stat>
        <Stat name="Reserved for jobs">{balance.data ? number(balance.data.reserved) : "…"}</Stat>
        <Stat name="Used in 30 days">{used === undefined ? "…" : number(used)}</Stat>
      </Stats>
      <ByDay query={days} />
      <ByKey query={days} />
      <Panel title="Ledger">
        <Text size="sm" c="dimmed" mb="xs">
          A credit is reserved before a check and charged, or refunded, after it. Single checks are shown once settled. Download the CSV for every entry.
        </Text>
        <Loaded query={{ ...ledger, data: ledger.data && entries }} what="the ledger">
          {(list) =>
            list.length === 0 ? (
              <Empty icon="usage" title="The ledger is empty">
                Changes to your balance will appear here.
              </Empty>
            ) : (
              <Rows label="Ledger" columns={ledgerColumns("/lists/$jobId")} rows={settled(list)} keyOf={(e) => e.number} />
            )
          }
        </Loaded>
        {ledger.hasNextPage && (
          <More loading={ledger.isFetchingNextPage} onClick={() => void ledger.fetchNextPage()}>
            Show older
          </More>
        )}
      </Panel>
    </Page>
  );
}

const kinds = { grant: ["good", "granted"], reserve: ["busy", "reserved"], charge: ["none", "charged"], release: ["busy", "refunded"] } as const;

/** cause makes links of what the ledger names, and shortens what only machines read. */
function cause(text: string, place: JobPlace): ReactNode {
  const [, what, id] = /^(job|single) ([0-9A-Za-z_-]+)$/.exec(text) ?? [];
  if (!id) return text;
  if (what === "single") return <span title={text}>single check …{id.slice(-6)}</span>;
  return (
    <To to={place} params={{ jobId: id }}>
      job {id.slice(0, 8)}…
    </To>
  );
}

/** settled leaves out that a credit was set aside for a single check, where the list says what became of it. */
export function settled<E extends Pick<Schemas["Entry"], "cause" | "kind">>(entries: readonly E[]): E[] {
  const done = new Set(entries.filter((e) => e.kind === "charge" || e.kind === "release").map((e) => e.cause));
  return entries.filter((e) => !(e.kind === "reserve" && e.cause.startsWith("single ") && done.has(e.cause)));
}

/** ledgerColumns tell an entry, with its job at a place. */
export const ledgerColumns = (place: JobPlace): Column<Schemas["Entry"]>[] => [
  { title: "Cause", kind: "name", of: (e) => cause(e.cause, place) },
  { title: "No.", kind: "number", of: (e) => number(e.number) },
  { title: "At", of: (e) => <Moment at={e.at} /> },
  { title: "What", of: (e) => <Badge tone={kinds[e.kind][0]}>{kinds[e.kind][1]}</Badge> },
  { title: "Credits", kind: "number", of: (e) => number(e.credits) },
  { title: "Balance", kind: "number", of: (e) => number(e.balance) },
  { title: "Reserved", kind: "number", of: (e) => number(e.reserved) },
];

type Query = ReturnType<typeof useQuery<{ days: Schemas["UsageDay"][]; by_key: Schemas["UsageOfKey"][]; complete: boolean }>>;

const dayColumns: Column<Schemas["UsageDay"]>[] = [
  { title: "Day (UTC)", kind: "word", of: (d) => day(d.date) },
  { title: "Used", kind: "number", of: (d) => number(d.credits_used) },
  { title: "Single checks", kind: "number", of: (d) => number(d.singles) },
  { title: "Granted", kind: "number", of: (d) => (d.credits_granted ? `+${number(d.credits_granted)}` : "—") },
];

function ByDay({ query }: { query: Query }) {
  return (
    <Panel title="By day">
      <Loaded query={query} what="the days">
        {({ days: list, complete }) => {
          const busy = list.filter((d) => d.credits_used || d.credits_granted).toReversed();
          if (busy.length === 0) {
            return (
              <Empty icon="usage" title="No credits were used in the last 30 days">
                <To to="/verify">Verify an address</To> or <To to="/lists">upload a list</To>.
              </Empty>
            );
          }
          return (
            <>
              {!complete && <Partial />}
              <CreditBars days={list} />
              <AsTable>
                <Rows label="Credits by day" columns={dayColumns} rows={busy} keyOf={(d) => d.date} narrow="fit" />
              </AsTable>
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

const Partial = () => (
  <Text size="sm" c="dimmed" mb="xs">
    Partial data: older days may be incomplete. The CSV has everything.
  </Text>
);

/** keyName is what a key is called: one that is no more is known by its id alone. */
export function keyName(k: Pick<Schemas["UsageOfKey"], "key_id" | "name" | "last4">): string {
  switch (true) {
    case k.key_id === "":
      return "Dashboard";
    case k.key_id === "deleted":
      return "Deleted jobs";
    case k.name === null:
      return `A revoked key (${k.key_id.slice(0, 8)}…)`;
    default:
      return `${k.name} (…${k.last4})`;
  }
}

const keyColumns: Column<Schemas["UsageOfKey"]>[] = [
  { title: "Key", kind: "name", of: (k) => <Cut text={keyName(k)} /> },
  { title: "Day (UTC)", kind: "word", of: (k) => day(k.date) },
  { title: "Single checks", kind: "number", of: (k) => number(k.singles) },
  { title: "Job rows", kind: "number", of: (k) => number(Object.values(k.counts).reduce((a, b) => a + b, 0)) },
  { title: "Credits used", kind: "number", of: (k) => number(k.credits_used) },
];

function ByKey({ query }: { query: Query }) {
  return (
    <Panel
      title="By key and day"
      actions={
        <Button component="a" href="/v1/dash/usage.csv?days=90" download variant="default" size="compact-sm" leftSection={<Icon name="download" size={14} />}>
          90 days as CSV
        </Button>
      }
    >
      <Loaded query={query} what="the keys">
        {({ by_key: list }) =>
          list.length === 0 ? (
            <Empty icon="key" title="No key was used in the last 30 days">
              Programs call the API with <To to="/settings/keys">a key</To>. <To to="/docs">How to use one</To>.
            </Empty>
          ) : (
            <Rows label="Credits by key and day" columns={keyColumns} rows={list} keyOf={(k) => k.date + k.key_id} />
          )
        }
      </Loaded>
    </Panel>
  );
}
