import { Button, Group, PasswordInput, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactNode } from "react";
import { api, take, type Schemas } from "../api/client";
import { credits, session, sessions, usage } from "../api/queries";
import { number } from "../format";
import { Ask, Badge, Empty, Icon, Loaded, Moment, Page, Panel, Stat, Stats, To, Trouble } from "../parts";

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
      <Panel title="By day">
        <Loaded query={days} what="the days">
          {({ days: list }) => {
            const busy = list.filter((d) => d.credits_used || d.credits_granted).toReversed();
            if (busy.length === 0) return <Empty icon="usage" title="No credits were used in the last 30 days" />;
            return (
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
            );
          }}
        </Loaded>
      </Panel>
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

/** Account is the password and the browsers that are signed in. */
export function Account() {
  const visit = useQuery(session).data;
  return (
    <Page title="Account" note={visit && `${visit.user.email}, ${visit.user.role}`}>
      {visit && (
        <div className="panel">
          <Stats>
            <Stat name="Single checks a minute">{number(visit.effective_limits.single_per_minute)}</Stat>
            <Stat name="Lists an hour">{number(visit.effective_limits.bulk_per_hour)}</Stat>
            <Stat name="Account since">
              <Moment at={visit.user.created_at} />
            </Stat>
          </Stats>
        </div>
      )}
      <Password email={visit?.user.email ?? ""} />
      <Sessions />
    </Page>
  );
}

function Password({ email }: { email: string }) {
  const client = useQueryClient();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [repeat, setRepeat] = useState("");
  const change = useMutation({
    mutationFn: () => take(api.PUT("/v1/dash/password", { body: { current, password: next } })),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      setRepeat("");
      void client.invalidateQueries({ queryKey: sessions.queryKey });
    },
  });
  const differ = repeat !== "" && repeat !== next;
  const toggle = { "aria-label": "Show or hide the password" };
  function submit(e: FormEvent) {
    e.preventDefault();
    if (!differ) change.mutate();
  }
  return (
    <Panel title="Password">
      <form onSubmit={submit}>
        <Stack maw="24rem">
          <input type="hidden" name="username" autoComplete="username" value={email} readOnly />
          <PasswordInput label="Present password" autoComplete="current-password" required value={current} onChange={(e) => setCurrent(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
          <PasswordInput label="New password" description="At least 10 characters; all other sessions end" autoComplete="new-password" required minLength={10} value={next} onChange={(e) => setNext(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
          <PasswordInput label="New password, again" autoComplete="new-password" required value={repeat} error={differ ? "The two are not the same" : undefined} onChange={(e) => setRepeat(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
          {change.error && <Trouble error={change.error} />}
          {change.isSuccess && (
            <Text size="sm" className="ink-good" role="status">
              The password has changed. All other sessions have ended.
            </Text>
          )}
          <Group>
            <Button type="submit" loading={change.isPending} disabled={differ}>
              Change the password
            </Button>
          </Group>
        </Stack>
      </form>
    </Panel>
  );
}

/** browserName is what a user agent is, in a few words. */
export function browserName(agent: string): string {
  const browser = [
    ["Edg/", "Edge"],
    ["OPR/", "Opera"],
    ["Firefox/", "Firefox"],
    ["Chrome/", "Chrome"],
    ["Safari/", "Safari"],
    ["curl/", "curl"],
  ].find(([mark]) => agent.includes(mark!))?.[1];
  const system = [
    ["Windows", "Windows"],
    ["Android", "Android"],
    ["iPhone", "iPhone"],
    ["iPad", "iPad"],
    ["Mac OS", "macOS"],
    ["Linux", "Linux"],
  ].find(([mark]) => agent.includes(mark!))?.[1];
  if (!browser) return agent || "Unknown";
  return system ? `${browser} on ${system}` : browser;
}

function Sessions() {
  const client = useQueryClient();
  const query = useQuery(sessions);
  const refresh = () => void client.invalidateQueries({ queryKey: sessions.queryKey });
  const end = useMutation({ mutationFn: (id: string) => take(api.DELETE("/v1/dash/sessions/{session_id}", { params: { path: { session_id: id } } })), onSettled: refresh });
  return (
    <Panel
      title="Sessions"
      actions={
        (query.data?.length ?? 0) > 1 && (
          <Ask label="End all others" title="End all other sessions?" button={{ size: "compact-sm" }} act={() => take(api.DELETE("/v1/dash/sessions"))} done={refresh}>
            Every other browser that is signed in to this account has to sign in again.
          </Ask>
        )
      }
    >
      {end.error && <Trouble error={end.error} />}
      <Loaded query={query} what="your sessions">
        {(list) => (
          <div className="scroll" tabIndex={0} role="region" aria-label="Sessions">
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Browser</Table.Th>
                  <Table.Th>Signed in</Table.Th>
                  <Table.Th>Ends</Table.Th>
                  <Table.Th><span className="unseen">End</span>
                  </Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {list.map((s) => (
                  <Table.Tr key={s.id}>
                    <Table.Td title={s.agent}>{browserName(s.agent)}</Table.Td>
                    <Table.Td>
                      <Moment at={s.created_at} />
                    </Table.Td>
                    <Table.Td>
                      <Moment at={s.expires_at} />
                    </Table.Td>
                    <Table.Td className="num">
                      {s.current ? (
                        <Badge tone="busy">this one</Badge>
                      ) : (
                        <Button size="compact-sm" variant="default" onClick={() => end.mutate(s.id)} aria-label={`End the session of ${browserName(s.agent)}`}>
                          End
                        </Button>
                      )}
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </div>
        )}
      </Loaded>
    </Panel>
  );
}
