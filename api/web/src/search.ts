import { useNavigate, useRouterState } from "@tanstack/react-router";
import type { JobStatus, Schemas, Status } from "./api/client";
import { statuses } from "./verdict";

// What a page shows stands in its address, so that Back, a reload and a link lead to it again. E-mail addresses stand in the
// fragment: it reaches no server, and no log on the way.

export const jobSorts = ["created_at", "-created_at", "name", "-name"] as const;
export const userSorts = ["email", "-email", "created_at", "-created_at"] as const;
export type JobSort = (typeof jobSorts)[number];
export type UserSort = (typeof userSorts)[number];

/** JobsSearch is the part of a table of jobs that is shown; without a sort the newest first. */
export interface JobsSearch {
  status?: JobStatus | undefined;
  sort?: JobSort | undefined;
  cursor?: string | undefined;
}

export const jobStates: readonly JobStatus[] = ["ready", "queued", "running", "paused", "finalizing", "cancelling", "completed", "cancelled", "failed", "expired"];

const textOf = (raw: unknown) => (raw === undefined || raw === null || raw === "" ? undefined : String(raw));

/** jobsSearch reads it from an address that anyone may have typed. */
export function jobsSearch(raw: Record<string, unknown>): JobsSearch {
  return { status: jobStates.find((s) => s === raw.status), sort: jobSorts.find((s) => s === raw.sort), cursor: textOf(raw.cursor) };
}

/** UsersSearch is the part of the table of accounts that is shown; without a sort by e-mail address. */
export interface UsersSearch {
  sort?: UserSort | undefined;
  cursor?: string | undefined;
}

/** usersSearch reads it from an address. What is looked for is in the fragment: it is an e-mail address. */
export function usersSearch(raw: Record<string, unknown>): UsersSearch {
  return { sort: userSorts.find((s) => s === raw.sort), cursor: textOf(raw.cursor) };
}

export const jobTabs = ["receivers", "reasons", "rows", "callback", "details"] as const;
export type JobTab = (typeof jobTabs)[number];

/** jobSearch reads which part of a job is shown; none for what matters most. */
export function jobSearch(raw: Record<string, unknown>): { tab?: JobTab | undefined } {
  return { tab: jobTabs.find((t) => t === raw.tab) };
}

export const logTabs = ["callbacks", "requests", "verifications"] as const;
export type LogTab = (typeof logTabs)[number];
export type CallbackState = Schemas["Callback"]["status"];

export const callbackStates: readonly CallbackState[] = ["pending", "delivered", "stopped", "failed"];

/** LogsSearch is the part of the logs that is shown: a page of a tab, or one request. */
export interface LogsSearch {
  tab?: LogTab | undefined;
  state?: CallbackState | undefined;
  errors?: true | undefined;
  status?: Status | undefined;
  request?: string | undefined;
  cursor?: string | undefined;
}

/** logsSearch reads it from an address. */
export function logsSearch(raw: Record<string, unknown>): LogsSearch {
  return {
    tab: logTabs.find((t) => t === raw.tab),
    state: callbackStates.find((s) => s === raw.state),
    errors: raw.errors === true ? true : undefined,
    status: statuses.find((s) => s === raw.status),
    request: textOf(raw.request),
    cursor: textOf(raw.cursor),
  };
}

export type Outcome = Status | "DEFERRED";

/** ProbesSearch is which probes are shown. */
export interface ProbesSearch {
  tab?: "singles" | undefined;
  status?: Outcome | undefined;
  provider?: string | undefined;
  host?: string | undefined;
}

/** probesSearch reads it from an address. */
export function probesSearch(raw: Record<string, unknown>): ProbesSearch {
  return {
    tab: raw.tab === "singles" ? "singles" : undefined,
    status: ([...statuses, "DEFERRED"] as const).find((s) => s === raw.status),
    provider: textOf(raw.provider),
    host: textOf(raw.host),
  };
}

/** findSearch reads what is looked for by name. */
export const findSearch = (raw: Record<string, unknown>): { find?: string | undefined } => ({ find: textOf(raw.find) });

/** useFragment reads and changes the values in the fragment, with the rest of the address if it is given. */
export function useFragment(): [URLSearchParams, (next: Record<string, string>, search?: UsersSearch) => void] {
  const hash = useRouterState({ select: (s) => s.location.hash });
  const navigate = useNavigate();
  const change = (next: Record<string, string>, search?: UsersSearch) => void navigate({ to: ".", search: search ?? true, hash: new URLSearchParams(next).toString(), hashScrollIntoView: false, resetScroll: false });
  return [new URLSearchParams(hash), change];
}
