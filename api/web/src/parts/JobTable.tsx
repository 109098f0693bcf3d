import { Progress, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Job } from "../api/client";
import { counted, decimal, duration, number, share } from "../format";
import { statuses } from "../verdict";
import { JobBadge, Moment } from "./index";

export const titleOf = (j: Job) => j.name || j.filename || j.job_id;

/** Split is how a job's rows divide, as a bar. */
export function Split({ counts }: { counts: Job["counts"] }) {
  const total = statuses.reduce((n, s) => n + counts[s], 0);
  if (total === 0) return null;
  const text = statuses.map((s) => `${s} ${share(counts[s], total)}`).join(", ");
  return (
    <div className="bar" role="img" aria-label={text} title={text}>
      {statuses.map((s) => (
        <i key={s} className={`fill-${s}`} style={{ width: `${(counts[s] / total) * 100}%` }} />
      ))}
    </div>
  );
}

const isBusy = (j: Job) => ["queued", "running", "finalizing", "cancelling", "paused"].includes(j.status);

/** pace says how fast a job goes and when it will be done. */
export function pace(j: Job): string {
  if (j.status === "queued") return "Waiting to begin";
  if (j.status === "paused") return "Paused";
  if (j.status === "finalizing" || j.status === "cancelling") return "Writing the result file";
  const rate = j.rows_per_second > 0 ? `${decimal(j.rows_per_second)} rows/s` : "Under way";
  return j.eta_seconds ? `${rate}, ${duration(j.eta_seconds)} left` : rate;
}

/** receiver names whom rows wait for. */
export const receiver = (provider: string) => (provider === "tail" ? "smaller mail hosts" : provider);

/** slow says whom a job waits for. */
export function slow(j: Job): string {
  const first = j.slow_routes[0];
  if (!first || !isBusy(j)) return "";
  const more = j.slow_routes.length > 1 ? ` and ${j.slow_routes.length - 1} more` : "";
  return `${counted(first.waiting, "row waits", "rows wait")} for ${receiver(first.provider)}${more}`;
}

/** JobTable lists jobs, with whose they are where that is told. */
export function JobTable({ jobs, owner, link = true }: { jobs: Job[]; owner?: (j: Job) => string; link?: boolean }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Jobs">
      <Table verticalSpacing="sm" highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>List</Table.Th>
            {owner && <Table.Th>Account</Table.Th>}
            <Table.Th>State</Table.Th>
            <Table.Th className="num">Rows</Table.Th>
            <Table.Th style={{ minWidth: "13rem" }}>Progress</Table.Th>
            <Table.Th>Uploaded</Table.Th>
            <Table.Th>Kept until</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {jobs.map((j) => (
            <Table.Tr key={j.job_id}>
              <Table.Td className="first">
                {link ? (
                  <Link to="/lists/$jobId" params={{ jobId: j.job_id }} className="row-link">
                    {titleOf(j)}
                  </Link>
                ) : (
                  titleOf(j)
                )}
                {j.name && j.filename && j.name !== j.filename && (
                  <Text size="xs" c="dimmed">
                    {j.filename}
                  </Text>
                )}
              </Table.Td>
              {owner && <Table.Td style={{ overflowWrap: "anywhere" }}>{owner(j)}</Table.Td>}
              <Table.Td>
                <JobBadge status={j.status} />
              </Table.Td>
              <Table.Td className="num">{number(j.total_rows)}</Table.Td>
              <Table.Td>
                {isBusy(j) ? (
                  <>
                    <Progress value={j.percent} aria-label={`${titleOf(j)}: ${j.percent} % done`} mb={4} />
                    <Text size="xs" c="dimmed">
                      {decimal(j.percent)} %, {pace(j)}
                    </Text>
                    {slow(j) && (
                      <Text size="xs" c="dimmed">
                        {slow(j)}
                      </Text>
                    )}
                  </>
                ) : j.status === "failed" ? (
                  <Text size="sm" className="ink-bad">
                    {j.error ?? "Failed"}
                  </Text>
                ) : (
                  <Split counts={j.counts} />
                )}
              </Table.Td>
              <Table.Td>
                <Moment at={j.created_at} />
              </Table.Td>
              <Table.Td>{j.status === "expired" ? "Deleted" : <Moment at={j.expires_at} none="—" />}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
