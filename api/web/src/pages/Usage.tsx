import { Button, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, take, type Schemas } from "../api/client";
import { credits, usage } from "../api/queries";
import { number } from "../format";
import { Badge, Empty, Icon, Loaded, Moment, Page, Panel, Stat, Stats, To } from "../parts";

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
      <div className="panel">
        <Stats>
          <Stat name="Balance">{balance.data ? number(balance.data.balance) : "…"}</Stat>
          <Stat name="Set aside for jobs">{balance.data ? number(balance.data.reserved) : "…"}</Stat>
          <Stat name="Used in 30 days">{used === undefined ? "…" : number(used)}</Stat>
        </Stats>
      </div>
      <ByDay query={days} />
      <ByKey query={days} />
      <Panel title="Ledger">
        <Loaded query={{ ...ledger, data: ledger.data && entries }} what="the ledger">
          {(list) =>
            list.length === 0 ? (
              <Empty icon="usage" title="The ledger is empty">
                Every change of your balance will stand here, with its cause.
              </Empty>
            ) : (
              <Ledger entries={list} />
            )
          }
        </Loaded>
        {ledger.hasNextPage && (
          <Button mt="sm" size="compact-sm" variant="default" loading={ledger.isFetchingNextPage} onClick={() => void ledger.fetchNextPage()}>
            Show older
          </Button>
        )}
      </Panel>
    </Page>
  );
}

const kinds = { grant: "good", reserve: "busy", charge: "none", release: "busy" } as const;

/** cause makes links of what the ledger names. */
function cause(text: string): ReactNode {
  const job = /^job ([0-9A-Za-z_-]+)$/.exec(text);
  if (!job) return text;
  return (
    <To to="/lists/$jobId" params={{ jobId: job[1]! }}>
      job {job[1]!.slice(0, 8)}…
    </To>
  );
}

function Ledger({ entries }: { entries: Schemas["Entry"][] }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Ledger">
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th className="num">No.</Table.Th>
            <Table.Th>At</Table.Th>
            <Table.Th>Kind</Table.Th>
            <Table.Th>Cause</Table.Th>
            <Table.Th className="num">Credits</Table.Th>
            <Table.Th className="num">Balance</Table.Th>
            <Table.Th className="num">Set aside</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {entries.map((e) => (
            <Table.Tr key={e.number}>
              <Table.Td className="num">{e.number}</Table.Td>
              <Table.Td>
                <Moment at={e.at} />
              </Table.Td>
              <Table.Td>
                <Badge tone={kinds[e.kind]}>{e.kind}</Badge>
              </Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{cause(e.cause)}</Table.Td>
              <Table.Td className="num">{number(e.credits)}</Table.Td>
              <Table.Td className="num">{number(e.balance)}</Table.Td>
              <Table.Td className="num">{number(e.reserved)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

type Query = ReturnType<typeof useQuery<{ days: Schemas["UsageDay"][]; by_key: Schemas["UsageOfKey"][]; complete: boolean }>>;

function ByDay({ query }: { query: Query }) {
  return (
    <Panel title="By day">
      <Loaded query={query} what="the days">
        {({ days: list, complete }) => {
          const busy = list.filter((d) => d.credits_used || d.credits_granted).toReversed();
          if (busy.length === 0) return <Empty icon="usage" title="No credits were used in the last 30 days" />;
          return (
            <>
              {!complete && <Partial />}
              <div className="scroll" tabIndex={0} role="region" aria-label="Credits by day">
                <Table>
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Day (UTC)</Table.Th>
                      <Table.Th className="num">Used</Table.Th>
                      <Table.Th className="num">of it for single checks</Table.Th>
                      <Table.Th className="num">Granted</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {busy.map((d) => (
                      <Table.Tr key={d.date}>
                        <Table.Td>{d.date}</Table.Td>
                        <Table.Td className="num">{number(d.credits_used)}</Table.Td>
                        <Table.Td className="num">{number(d.singles)}</Table.Td>
                        <Table.Td className="num">{d.credits_granted ? `+${number(d.credits_granted)}` : "—"}</Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </div>
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

const Partial = () => (
  <Text size="sm" c="dimmed" mb="xs">
    There is more than one look can count: the oldest days are not whole. The ledger as CSV has it all.
  </Text>
);

/** keyName is what a key is called: one that is no more is known by its id alone. */
export function keyName(k: Pick<Schemas["UsageOfKey"], "key_id" | "name" | "last4">): string {
  switch (true) {
    case k.key_id === "":
      return "Dashboard";
    case k.key_id === "deleted":
      return "Lists that were deleted";
    case k.name === null:
      return `A revoked key (${k.key_id.slice(0, 8)}…)`;
    default:
      return `${k.name} (…${k.last4})`;
  }
}

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
            <Empty icon="key" title="No key was used in the last 30 days" />
          ) : (
            <div className="scroll" tabIndex={0} role="region" aria-label="Credits by key and day">
              <Table>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Day (UTC)</Table.Th>
                    <Table.Th>Key</Table.Th>
                    <Table.Th className="num">Single checks</Table.Th>
                    <Table.Th className="num">Rows of lists</Table.Th>
                    <Table.Th className="num">Credits used</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {list.map((k) => (
                    <Table.Tr key={k.date + k.key_id}>
                      <Table.Td>{k.date}</Table.Td>
                      <Table.Td>{keyName(k)}</Table.Td>
                      <Table.Td className="num">{number(k.singles)}</Table.Td>
                      <Table.Td className="num">{number(Object.values(k.counts).reduce((a, b) => a + b, 0))}</Table.Td>
                      <Table.Td className="num">{number(k.credits_used)}</Table.Td>
                    </Table.Tr>
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
