import { useNavigate, useRouterState } from "@tanstack/react-router";
import type { JobStatus } from "./api/client";

// What a page shows stands in its address, so that Back, a reload and a link lead to it again. E-mail addresses stand in the
// fragment: it reaches no server, and no log on the way.

/** JobsSearch is the part of a table of jobs that is shown. */
export interface JobsSearch {
  status?: JobStatus | undefined;
  cursor?: string | undefined;
}

export const jobStates: readonly JobStatus[] = ["ready", "queued", "running", "paused", "finalizing", "cancelling", "completed", "cancelled", "failed", "expired"];

/** jobsSearch reads it from an address that anyone may have typed. */
export function jobsSearch(raw: Record<string, unknown>): JobsSearch {
  const cursor = raw.cursor === undefined || raw.cursor === "" ? undefined : String(raw.cursor);
  return { status: jobStates.find((s) => s === raw.status), cursor };
}

/** useFragment reads and changes the values in the fragment. */
export function useFragment(): [URLSearchParams, (next: Record<string, string>) => void] {
  const hash = useRouterState({ select: (s) => s.location.hash });
  const navigate = useNavigate();
  const change = (next: Record<string, string>) => void navigate({ to: ".", search: true, hash: new URLSearchParams(next).toString(), hashScrollIntoView: false, resetScroll: false });
  return [new URLSearchParams(hash), change];
}
