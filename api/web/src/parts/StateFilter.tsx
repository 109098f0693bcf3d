import { Select } from "@mantine/core";
import type { JobStatus } from "../api/client";
import { jobStates } from "../search";

/** StateFilter chooses the state of the jobs that are shown. */
export function StateFilter({ status, change }: { status: JobStatus | undefined; change: (status: JobStatus | undefined) => void }) {
  return (
    <Select
      size="xs"
      aria-label="Filter by status"
      data={[{ value: "", label: "All states" }, ...jobStates.map((s) => ({ value: s, label: s.charAt(0).toUpperCase() + s.slice(1) }))]}
      value={status ?? ""}
      onChange={(v) => change((v || undefined) as JobStatus | undefined)}
      allowDeselect={false}
      w="10rem"
    />
  );
}
