import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { JobStatus } from "../api/client";
import { allJobs } from "../api/queries";
import { counted } from "../format";
import { Empty, Loaded, Page, Panel } from "../parts";
import { JobTable } from "../parts/JobTable";

/** AllJobs is what the service works on, for whom. What is in a list is its owner's alone. */
export function AllJobs() {
  const [status, setStatus] = useState<JobStatus | "">("");
  const query = useQuery(allJobs(status));
  return (
    <Page title="Jobs of all" note="The newest jobs of every account. Operators see how they go, not what is in them.">
      <Panel
        title={query.data ? counted(query.data.total, "job") : "Jobs"}
        actions={
          <Select
            size="xs"
            aria-label="Show jobs in the state"
            data={[{ value: "", label: "All states" }, ...["queued", "running", "paused", "finalizing", "completed", "cancelled", "failed", "expired"]]}
            value={status}
            onChange={(v) => setStatus((v ?? "") as JobStatus | "")}
            allowDeselect={false}
            w="10rem"
          />
        }
      >
        <Loaded query={query} what="jobs">
          {({ jobs }) => (jobs.length === 0 ? <Empty icon="lists" title={status ? `No ${status} jobs` : "No jobs yet"} /> : <JobTable jobs={jobs} owner={(j) => j.user} link={false} />)}
        </Loaded>
      </Panel>
    </Page>
  );
}
