import { Button, Group, Select } from "@mantine/core";
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
  const [cursors, setCursors] = useState<string[]>([""]);
  const query = useQuery(allJobs(status, cursors.at(-1)!));
  const next = query.data?.next_cursor;
  return (
    <Page title="All jobs" note="Jobs across all accounts, the newest first. You can see progress, not list contents.">
      <Panel
        title={query.data ? counted(query.data.total, "job") : "Jobs"}
        actions={
          <Select
            size="xs"
            aria-label="Filter by status"
            data={[{ value: "", label: "All states" }, ...["ready", "queued", "running", "paused", "finalizing", "completed", "cancelled", "failed", "expired"]]}
            value={status}
            onChange={(v) => {
              setStatus((v ?? "") as JobStatus | "");
              setCursors([""]);
            }}
            allowDeselect={false}
            w="10rem"
          />
        }
      >
        <Loaded query={query} what="jobs">
          {({ jobs }) => (jobs.length === 0 ? <Empty icon="lists" title={status ? `No ${status} jobs` : "No jobs yet"} /> : <JobTable jobs={jobs} owner={(j) => j.user} link={false} />)}
        </Loaded>
        {(cursors.length > 1 || next) && (
          <Group justify="flex-end" mt="sm">
            <Button size="compact-sm" variant="default" disabled={cursors.length === 1} onClick={() => setCursors((c) => c.slice(0, -1))}>
              Newer
            </Button>
            <Button size="compact-sm" variant="default" disabled={!next} onClick={() => next && setCursors((c) => [...c, next])}>
              Older
            </Button>
          </Group>
        )}
      </Panel>
    </Page>
  );
}
