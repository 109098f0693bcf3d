import { Progress, Text } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { Job } from "../api/client";
import { useReached } from "../api/reach";
import { counted, decimal, duration, number, share } from "../format";
import type { JobSort, JobsSearch } from "../search";
import { statuses } from "../verdict";
import type { Pages } from "./DataTable";
import { Badge, Cut, JobBadge, Moment, Note, Rows, StatusBadge, type Column } from "./index";

export const titleOf = (j: Job) => j.name || j.filename || j.job_id;

type Counts = Job["counts"];

const totalOf = (counts: Counts) => statuses.reduce((n, s) => n + counts[s], 0);

/** Split is how a job's rows divide, as a bar. */
function Split({ counts, thick = false }: { counts: Counts; thick?: boolean }) {
  const total = totalOf(counts);
  const text = statuses.map((s) => `${s} ${share(counts[s], total)}`).join(", ");
  return (
    <div className={thick ? "bar thick" : "bar"} role="img" aria-label={text} title={text}>
      {statuses.map((s) => counts[s] > 0 && <i key={s} className={`fill-${s}`} style={{ flexGrow: counts[s] / total }} />)}
    </div>
  );
}

/** Shares is how a job's rows divide, as a bar and in numbers. */
export function Shares({ counts }: { counts: Counts }) {
  const total = totalOf(counts);
  return (
    <>
      <Text mb="xs">
        <b className="great">{share(counts.VALID, total)}</b> safe to send
      </Text>
      <Split counts={counts} thick />
      <ul className="shares">
        {statuses.map((s) => (
          <li key={s}>
            <span>
              <StatusBadge status={s} />
            </span>
            <b>{number(counts[s])}</b>
            <Text component="span" size="sm" c="dimmed" miw="4em">
              {share(counts[s], total)}
            </Text>
          </li>
        ))}
      </ul>
    </>
  );
}

const isBusy = (j: Job) => ["ready", "queued", "running", "finalizing", "cancelling", "paused"].includes(j.status);

const rateLeft = (j: Job) => (j.eta_seconds ? `${duration(j.eta_seconds)} left` : "");

/** pace says how fast a job goes and how long it still takes: at its rate, where that is not known better. */
export function pace(j: Job, left = rateLeft(j)): string {
  if (j.status === "ready") return "Not started";
  if (j.status === "queued") return "Queued";
  if (j.status === "paused") return "Paused";
  if (j.status === "finalizing" || j.status === "cancelling") return "Writing the result file";
  const rate = j.rows_per_second > 0 ? `${decimal(j.rows_per_second)} rows/s` : "Running";
  return left ? `${rate}, ${left}` : rate;
}

/** usePace is that, while the server can tell. */
export const usePace = (j: Job, left?: string) => (useReached() || !isBusy(j) ? pace(j, left) : "Unknown while the server does not answer");

/** receiver names whom rows wait for. */
export const receiver = (provider: string) => (provider === "dns" ? "DNS" : provider);

/** slow says whom a job waits for. */
export function slow(j: Job): string {
  const first = j.slow_routes[0];
  if (!first || !isBusy(j)) return "";
  const more = j.slow_routes.length > 1 ? ` and ${j.slow_routes.length - 1} more` : "";
  return `${counted(first.waiting, "row waits", "rows wait")} for ${receiver(first.provider)}${more}`;
}

/** Going is how far a job is, or how it ended. */
function Going({ job: j }: { job: Job }) {
  const how = usePace(j);
  if (j.status === "failed") return <span className="ink-bad">{j.error ?? "Failed"}</span>;
  if (!isBusy(j)) return totalOf(j.counts) > 0 && <Done counts={j.counts} />;
  return (
    <>
      <Progress value={j.percent} aria-label={`${titleOf(j)}: ${decimal(j.percent)} % done`} />
      <Note>
        {decimal(j.percent)} %{j.status !== "paused" && `, ${how.replace(/^[A-Z]/, (c) => c.toLowerCase())}`}
      </Note>
      {slow(j) && <Note>{slow(j)}</Note>}
    </>
  );
}

function Done({ counts }: { counts: Counts }) {
  return (
    <>
      <Split counts={counts} />
      <Note>{share(counts.VALID, totalOf(counts))} safe to send</Note>
    </>
  );
}

/** OwnerLink leads an operator to an account. */
export function OwnerLink({ id, email }: { id: string; email: string }) {
  return (
    <Link to="/operator/users/$userId" params={{ userId: id }} className="row-link">
      <Cut text={email} />
    </Link>
  );
}

/** jobColumns are what a table of jobs tells of each, with whose it is where that is known. */
export const jobColumns = <J extends Job>(to: JobPlace, owner?: (j: J) => { id: string; email: string }): Column<J>[] => [
  { title: "Job", kind: "name", sort: "name", of: (j) => <Title job={j} to={to} /> },
  ...(owner ? [{ title: "Account", kind: "name" as const, of: (j: J) => <OwnerLink {...owner(j)} /> }] : []),
  { title: "State", of: (j) => <State job={j} /> },
  { title: "Rows", kind: "number", of: (j) => number(j.total_rows) },
  { title: "Progress", kind: owner ? "text" : "wide", of: (j) => <div className="going"><Going job={j} /></div> },
  { title: "Uploaded", sort: "-created_at", of: (j) => <Moment at={j.created_at} /> },
  { title: "Expires", of: (j) => (j.status === "expired" ? "Deleted" : <Moment at={j.expires_at} none="—" />) },
];

/** JobTable lists a few jobs. */
export function JobTable({ jobs }: { jobs: Job[] }) {
  return <Rows label="Jobs" columns={jobColumns("/lists/$jobId")} rows={jobs} keyOf={(j) => j.job_id} />;
}

/** JobPlace is where a job's own page is: its owner's, or the operator's. */
export type JobPlace = "/lists/$jobId" | "/operator/jobs/$jobId";

function Title({ job: j, to }: { job: Job; to: JobPlace }) {
  return (
    <>
      <Link to={to} params={{ jobId: j.job_id }} className="row-link">
        <Cut text={titleOf(j)} />
      </Link>
      {j.name && j.filename && j.name !== j.filename && (
        <Note>
          <Cut text={j.filename} />
        </Note>
      )}
    </>
  );
}

/** callbackFails tells whether a job's callback was refused so far, or for good. */
export const callbackFails = (j: Job) => j.callback_status === "failed" || (j.callback_status === "pending" && j.callback_attempts > 0);

function State({ job: j }: { job: Job }) {
  return (
    <>
      <JobBadge job={j} />{" "}
      {callbackFails(j) && <Badge tone="bad">{j.callback_status === "failed" ? "callback failed" : "callback failing"}</Badge>}
    </>
  );
}

/** useJobsSearch is the part of a table of jobs that the address names, and how another is shown. */
export function useJobsSearch(): [JobsSearch, (next: JobsSearch) => void] {
  const search: JobsSearch = useSearch({ strict: false });
  const navigate = useNavigate();
  return [search, (next) => void navigate({ to: ".", search: () => next, resetScroll: false })];
}

/** jobsPages are the server's pages of jobs, as the address names them. */
export const jobsPages = ({ status, sort, cursor }: JobsSearch, next: string | null | undefined, show: (next: JobsSearch) => void): Pages => ({
  cursor,
  next,
  go: (cursor) => show({ status, sort, cursor }),
  words: sort && sort !== "-created_at" ? ["First", "Next"] : ["Newest", "Older"],
  sort: sort ?? "-created_at",
  sortBy: (sort) => show({ status, sort: sort as JobSort }),
});
