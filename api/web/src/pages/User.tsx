import { Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { allJobs, creditsOf, keysOf, ledgerOf, users } from "../api/queries";
import { number } from "../format";
import { Badge, Empty, Loaded, Moment, More, Page, Panel, Rows, Stat, Stats, To } from "../parts";
import { DataTable } from "../parts/DataTable";
import { jobColumns, jobsPages, useJobsSearch } from "../parts/JobTable";
import { StateFilter } from "../parts/StateFilter";
import { keyColumns } from "./Settings";
import { ledgerColumns, settled } from "./Usage";
import { Change, limitsText } from "./Users";

/** UserPage is an account with its jobs, keys and ledger, for operators. */
export function UserPage() {
  const { userId } = useParams({ strict: false });
  const query = useQuery(users({ q: userId, limit: 1 }));
  const found = query.data?.users.find((u) => u.id === userId);
  if (found) return <Shown user={found} />;
  return (
    <Page title="User">
      <Panel>
        <Loaded query={query} what="the account">
          {() => (
            <Empty icon="users" title="Account not found">
              There is no account with this id. <To to="/operator/users">See all accounts</To>.
            </Empty>
          )}
        </Loaded>
      </Panel>
    </Page>
  );
}

function Shown({ user: u }: { user: Schemas["User"] }) {
  const credits = useQuery(creditsOf(u.id)).data;
  const keys = useQuery(keysOf(u.id));
  return (
    <Page
      title={u.email}
      note={
        <>
          {u.disabled ? <Badge tone="bad">disabled</Badge> : <Badge tone="good">active</Badge>} {u.role}, since <Moment at={u.created_at} />
        </>
      }
      actions={<Change user={u} />}
    >
      <Stats>
        <Stat name="Balance">{credits ? number(credits.balance) : "…"}</Stat>
        <Stat name="Reserved for jobs">{credits ? number(credits.reserved) : "…"}</Stat>
        <Stat name="Custom limits">{limitsText(u.limits)}</Stat>
        <Stat name="Authenticator app">{u.totp ? "on" : "off"}</Stat>
      </Stats>
      <Jobs user={u.id} />
      <Panel title="API keys">
        <Loaded query={keys} what="its keys">
          {(list) => (list.length === 0 ? <Text c="dimmed">No keys.</Text> : <Rows label="API keys" columns={keyColumns} rows={list} keyOf={(k) => k.id} />)}
        </Loaded>
      </Panel>
      <Ledger user={u.id} />
    </Page>
  );
}

const columns = jobColumns<Schemas["OperatorJob"]>("/operator/jobs/$jobId");

function Jobs({ user }: { user: string }) {
  const [search, show] = useJobsSearch();
  const { status, sort, cursor } = search;
  const query = useQuery(allJobs({ user, status, sort, cursor, limit: 10 }));
  return (
    <Panel title="Jobs" actions={<StateFilter status={status} change={(status) => show({ status, sort })} />}>
      <Loaded query={query} what="its jobs">
        {({ jobs, next_cursor: next }) => (
          <DataTable
            label="Jobs"
            columns={columns}
            rows={jobs}
            keyOf={(j) => j.job_id}
            empty={<Text c="dimmed">{status ? `No ${status} jobs.` : "No jobs."}</Text>}
            pages={jobsPages(search, next, show)}
          />
        )}
      </Loaded>
    </Panel>
  );
}

function Ledger({ user }: { user: string }) {
  const query = useInfiniteQuery(ledgerOf(user));
  const entries = query.data?.pages.flatMap((p) => p.entries);
  return (
    <Panel title="Ledger">
      <Loaded query={{ ...query, data: entries }} what="the ledger">
        {(list) => (list.length === 0 ? <Text c="dimmed">The ledger is empty.</Text> : <Rows label="Ledger" columns={ledgerColumns("/operator/jobs/$jobId")} rows={settled(list)} keyOf={(e) => e.number} />)}
      </Loaded>
      {query.hasNextPage && (
        <More loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Show older
        </More>
      )}
    </Panel>
  );
}
