import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { allJobs } from "../api/queries";
import { counted } from "../format";
import { Empty, Loaded, Page, Panel } from "../parts";
import { DataTable } from "../parts/DataTable";
import { jobColumns, jobsPages, useJobsSearch } from "../parts/JobTable";
import { StateFilter } from "../parts/StateFilter";

const columns = jobColumns<Schemas["OperatorJob"]>("/operator/jobs/$jobId", (j) => ({ id: j.user_id, email: j.user }));

/** AllJobs is what the service works on, for whom. What is in a list is its owner's alone. */
export function AllJobs() {
  const [search, show] = useJobsSearch();
  const { status, sort, cursor } = search;
  const query = useQuery(allJobs({ status, sort, cursor }));
  return (
    <Page title="All jobs" note="Jobs across all accounts. You can see progress, not list contents.">
      <Panel
        title={query.data ? counted(query.data.total, "job") : "Jobs"}
        actions={<StateFilter status={status} change={(status) => show({ status, sort })} />}
      >
        <Loaded query={query} what="jobs">
          {({ jobs, next_cursor: next }) => (
            <DataTable
              label="Jobs"
              columns={columns}
              rows={jobs}
              keyOf={(j) => j.job_id}
              empty={
                <Empty icon="lists" title={status ? `No ${status} jobs` : "No jobs yet"}>
                  {status ? "Choose another state above." : "A job appears here when an account uploads a list."}
                </Empty>
              }
              pages={jobsPages(search, next, show)}
            />
          )}
        </Loaded>
      </Panel>
    </Page>
  );
}
