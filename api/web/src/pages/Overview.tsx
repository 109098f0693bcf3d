import { Button, SegmentedControl, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment, useState } from "react";
import type { Schemas } from "../api/client";
import { DayBars } from "../charts/Bars";
import { credits, isOver, recentJobs, runningJobs, usage } from "../api/queries";
import { counted, day, duration, number, share } from "../format";
import { AsTable, Cut, Empty, Icon, Loaded, Page, Panel, Rows, Stat, Stats, To, Warning, type Column } from "../parts";
import { FirstRun, useFirstSteps } from "../parts/FirstRun";
import { callbackFails, JobTable, titleOf } from "../parts/JobTable";
import { statuses } from "../verdict";

type Day = Schemas["UsageDay"];

/** sum adds the days up. */
export function sum(days: readonly Day[]) {
  const counts = { VALID: 0, RISKY: 0, INVALID: 0, UNKNOWN: 0 };
  let singles = 0;
  let used = 0;
  for (const d of days) {
    for (const s of statuses) counts[s] += d.counts[s] ?? 0;
    singles += d.singles;
    used += d.credits_used;
  }
  const rows = statuses.reduce((n, s) => n + counts[s], 0);
  return { counts, singles, used, rows };
}

/** lasting is how many days the balance lasts at the pace of the last seven; null where nothing was used. */
export function lasting(balance: number, days: readonly Day[]): number | null {
  const used = days.slice(-7).reduce((n, d) => n + d.credits_used, 0);
  return used === 0 ? null : balance / (used / Math.min(7, days.length));
}

const lengthOf = (n: number) => (n < 2 ? duration(n * 86400) : `${number(Math.floor(n))} days`);

/** some is a share of what there is, and a dash of nothing. */
const some = (part: number, of: number) => (of === 0 ? "—" : share(part, of));

export function Overview() {
  const [span, setSpan] = useState("30");
  const days = useQuery(usage(Number(span)));
  const week = useQuery(usage(7));
  const balance = useQuery(credits);
  const jobs = useQuery(recentJobs);
  const running = useQuery(runningJobs).data;
  const failing = jobs.data?.jobs.filter(callbackFails) ?? [];
  const lasts = balance.data && week.data ? lasting(balance.data.balance, week.data.days) : null;
  const low = balance.data !== undefined && (balance.data.balance < 100 || (lasts !== null && lasts < 7));
  const all = days.data ? sum(days.data.days) : null;
  const first = useFirstSteps();
  const fresh = first !== null && all !== null && all.rows + all.singles === 0 && jobs.data?.jobs.length === 0;
  return (
    <Page
      title="Overview"
      actions={
        <>
          <Button variant="default" renderRoot={(p) => <Link to="/verify" {...p} />} leftSection={<Icon name="verify" size={16} />}>
            Verify an address
          </Button>
          <Button renderRoot={(p) => <Link to="/lists" {...p} />} leftSection={<Icon name="upload" size={16} />}>
            Upload a list
          </Button>
        </>
      }
    >
      {low && balance.data && (
        <Warning title={balance.data.balance === 0 ? "There are no credits left" : "Credits run low"}>
          {lasts !== null && balance.data.balance > 0
            ? `At your 7-day average, about ${lengthOf(lasts)} left.`
            : "Requests that need more credits than you have are rejected."}{" "}
          Contact your administrator to add credits.
        </Warning>
      )}
      {failing.length > 0 && (
        <Warning title={failing.length === 1 ? "The callback of a job is failing" : `The callbacks of ${number(failing.length)} jobs are failing`}>
          The receiver has not accepted {failing.length === 1 ? "it" : "them"} yet. See its answers:{" "}
          {failing.slice(0, 5).map((j, i) => (
            <Fragment key={j.job_id}>
              {i > 0 && ", "}
              <To to="/lists/$jobId" params={{ jobId: j.job_id }} search={{ tab: "callback" }}>
                <Cut text={titleOf(j)} />
              </To>
            </Fragment>
          ))}
          , or <To to="/logs">send them again</To>.
        </Warning>
      )}
      {first && <FirstRun {...first} />}
      {!fresh && (
        <>
          <Stats>
            <Stat name="Credits" note={balance.data && balance.data.reserved > 0 ? `${number(balance.data.reserved)} reserved for jobs that are not finished` : lasts !== null ? `about ${lengthOf(lasts)} left at this pace` : "1 credit per result; UNKNOWN is free"}>
              {balance.data ? number(balance.data.balance) : "…"}
            </Stat>
            <Stat name={`Rows verified, ${span} days`} note={all ? `and ${counted(all.singles, "single check")}` : undefined}>
              {all ? number(all.rows) : "…"}
            </Stat>
            <Stat name="Safe to send" note={all ? counted(all.counts.VALID, "row") : undefined}>
              {all ? some(all.counts.VALID, all.rows) : "…"}
            </Stat>
            <Stat name="Unknown" note="free of charge">
              {all ? some(all.counts.UNKNOWN, all.rows) : "…"}
            </Stat>
            <Stat name="Running jobs" note={running && running.jobs.length > 0 ? `${number(running.jobs.reduce((n, j) => n + j.total_rows - j.processed, 0))} rows left` : undefined}>
              {running ? number(running.jobs.length) + (running.next_cursor ? " and more" : "") : "…"}
            </Stat>
          </Stats>
          <Panel
            title="Verifications by day"
            actions={<SegmentedControl size="xs" value={span} onChange={setSpan} data={["7", "30", "90"].map((v) => ({ value: v, label: `${v} days` }))} aria-label="Time span" />}
          >
            <Loaded query={days} what="your verifications">
              {({ days: list, complete }) =>
                sum(list).rows + sum(list).singles === 0 ? (
                  <Empty icon="usage" title="Nothing verified yet">
                    <To to="/verify">Verify an address</To> or <To to="/lists">upload a list</To>. Your results will appear here.
                  </Empty>
                ) : (
                  <>
                    <DayBars days={list} />
                    {!complete && (
                      <Text size="xs" c="dimmed" mt="xs">
                        Only part of the history is shown; older days may be incomplete.
                      </Text>
                    )}
                    <AsTable>
                      <DayTable days={list} />
                    </AsTable>
                  </>
                )
              }
            </Loaded>
          </Panel>
          <Panel title="Latest jobs" actions={<To to="/lists">All your jobs</To>}>
            <Loaded query={jobs} what="your jobs">
              {({ jobs: list }) =>
                list.length === 0 ? (
                  <Empty icon="lists" title="No jobs yet">
                    <To to="/lists">Upload a list</To>: a CSV file with a column of e-mail addresses.
                  </Empty>
                ) : (
                  <JobTable jobs={[...list.filter((j) => !isOver(j.status)), ...list.filter((j) => isOver(j.status))].slice(0, 5)} />
                )
              }
            </Loaded>
          </Panel>
        </>
      )}
    </Page>
  );
}

const dayColumns: Column<Day>[] = [
  { title: "Day (UTC)", kind: "word", of: (d) => day(d.date) },
  ...statuses.map((s): Column<Day> => ({ title: s, kind: "number", of: (d) => number(d.counts[s] ?? 0) })),
  { title: "Single", kind: "number", of: (d) => number(d.singles) },
  { title: "Credits", kind: "number", of: (d) => number(d.credits_used) },
];

function DayTable({ days }: { days: Day[] }) {
  const busy = days.filter((d) => statuses.some((s) => d.counts[s]) || d.singles || d.credits_used);
  return <Rows label="Verifications by day" columns={dayColumns} rows={busy.toReversed()} keyOf={(d) => d.date} narrow="fit" />;
}
