import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { ApiError, type Schemas } from "../api/client";
import { anyJob, isOver } from "../api/queries";
import { counted, decimal, number } from "../format";
import { Cut, Empty, Facts, JobBadge, Loaded, Moment, Page, Panel, To, Trouble } from "../parts";
import { OwnerLink, titleOf, usePace } from "../parts/JobTable";
import { useTimeLeft } from "../parts/timeLeft";
import { WhyPanel } from "../parts/WhyPanel";

/** AnyJob is a job of any account, without its rows: how far it is, and what it waits for. */
export function AnyJob() {
  const { jobId } = useParams({ strict: false });
  const query = useQuery(anyJob(jobId!));
  if (query.error instanceof ApiError && query.error.status === 404) {
    return (
      <Page title="Job">
        <Panel>
          <Empty icon="lists" title="Job not found">
            It was deleted. <To to="/operator/jobs">See all jobs</To>.
          </Empty>
        </Panel>
      </Page>
    );
  }
  if (query.error && !query.data) return <Trouble error={query.error} again={() => void query.refetch()} />;
  return (
    <Loaded query={query} what="the job">
      {(job) => <Shown job={job} />}
    </Loaded>
  );
}

function Shown({ job: j }: { job: Schemas["OperatorJob"] }) {
  const pace = usePace(j, useTimeLeft(j));
  return (
    <Page
      title={titleOf(j)}
      note={
        <>
          <JobBadge job={j} /> of <OwnerLink id={j.user_id} email={j.user} /> · uploaded <Moment at={j.created_at} />
        </>
      }
    >
      {j.status === "running" && <WhyPanel id={j.job_id} />}
      <Panel title="Progress">
        <Facts
          list={[
            ["Rows", `${number(j.processed)} of ${counted(j.total_rows, "row")}, ${decimal(j.percent)} %`],
            ["Pace", !isOver(j.status) && pace],
            ["Deferred, to be retried", j.pending_retry > 0 && number(j.pending_retry)],
            ["Started", j.started_at && <Moment key="s" at={j.started_at} />],
            ["Done", j.finished_at && <Moment key="f" at={j.finished_at} />],
            ["Error", j.error],
            ["File", j.filename && <Cut key="n" text={j.filename} />],
            ["Job id", <span className="mono" key="id">{j.job_id}</span>],
          ]}
        />
      </Panel>
    </Page>
  );
}
