import { useQuery } from "@tanstack/react-query";
import { allJobs } from "../api/queries";
import { counted } from "../format";
import { Empty, Loaded, Page, Panel } from "../parts";
import { JobTable, Pager, StateFilter, useJobsSearch } from "../parts/JobTable";

/** AllJobs is what the service works on, for whom. What is in a list is its owner's alone. */
export function AllJobs() {
  const [{ status, cursor }, show] = useJobsSearch();
  const query = useQuery(allJobs({ status, cursor }));
  const next = query.data?.next_cursor;
  return (
    <Page title="All jobs" note="Jobs across all accounts, the newest first. You can see progress, not list contents.">
      <Panel
        title={query.data ? counted(query.data.total, "job") : "Jobs"}
        actions={<StateFilter status={status} change={(status) => show({ status })} />}
      >
        <Loaded query={query} what="jobs">
          {({ jobs }) => (jobs.length === 0 ? <Empty icon="lists" title={status ? `No ${status} jobs` : "No jobs yet"} /> : <JobTable jobs={jobs} owner={(j) => ({ id: j.user_id, email: j.user })} to="/operator/jobs/$jobId" />)}
        </Loaded>
        <Pager cursor={cursor} next={next} go={(cursor) => show({ status, cursor })} />
      </Panel>
    </Page>
  );
}
