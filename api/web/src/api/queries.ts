import { QueryClient, infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { ApiError, api, setCsrf, take, type Job, type JobStatus, type Result, type Schemas, type Status, type Visit } from "./client";
import { isLive } from "./events";
import type { paths } from "./schema";

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (n, error) => n < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
    },
  },
});

/** every is how often to ask where no events come. */
const every = (ms: number) => () => (isLive() ? false : ms);

export const session = queryOptions({
  queryKey: ["session"],
  staleTime: Infinity,
  queryFn: async (): Promise<Visit | null> => {
    try {
      return adopt(await take(api.GET("/v1/dash/session")));
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
});

let last: string | undefined;

/** owner is the id of the user whose answers this page may hold: the last one who was signed in. */
export const owner = () => last;

/** adopt takes a session over: its token guards every change from now on. */
export function adopt(visit: Visit): Visit {
  setCsrf(visit.csrf_token);
  last = visit.user.id;
  return visit;
}

export const credits = queryOptions({
  queryKey: ["credits"],
  queryFn: () => take(api.GET("/v1/credits")),
  refetchInterval: every(10_000),
});

export const recentJobs = queryOptions({
  queryKey: ["jobs", "recent"],
  queryFn: () => take(api.GET("/v1/verify/bulk", { params: { query: { limit: 20 } } })),
  refetchInterval: every(3_000),
});

/** runningJobs are all that run now, however old; more than 100 are no use to a reader. */
export const runningJobs = queryOptions({
  queryKey: ["jobs", "running"],
  queryFn: () => take(api.GET("/v1/verify/bulk", { params: { query: { limit: 100, status: "running" } } })),
  refetchInterval: 5_000,
});

type Asked<Path extends keyof paths> = paths[Path] extends { get: { parameters: { query?: infer Q } } } ? NonNullable<Q> : never;

export const jobsPage = (asked: Asked<"/v1/verify/bulk">) =>
  queryOptions({
    queryKey: ["jobs", "page", asked],
    queryFn: () => take(api.GET("/v1/verify/bulk", { params: { query: { limit: 20, ...asked } } })),
  });

export const isOver = (status: JobStatus) => ["completed", "cancelled", "failed", "expired"].includes(status);

export const job = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: () => take(api.GET("/v1/verify/bulk/{job_id}", { params: { path: { job_id: id } } })),
    // Events follow the newest jobs only: an older one that still runs is asked about.
    refetchInterval: (query) => {
      const data = query.state.data as Job | undefined;
      if (!data || (isOver(data.status) && data.callback_status !== "pending")) return false;
      return isLive() && Date.now() - query.state.dataUpdatedAt < 4_000 ? 5_000 : 2_500;
    },
  });

export const callback = (id: string, pending: boolean) =>
  queryOptions({
    queryKey: ["callback", id],
    queryFn: () => take(api.GET("/v1/verify/bulk/{job_id}/callback", { params: { path: { job_id: id } } })),
    refetchInterval: pending ? 3_000 : false,
  });

/** callbacks are a page of those of all jobs and single calls. */
export const callbacks = (asked: Asked<"/v1/callbacks">) =>
  queryOptions({
    queryKey: ["callbacks", asked],
    queryFn: () => take(api.GET("/v1/callbacks", { params: { query: asked } })),
    refetchInterval: 5_000,
  });

export const requests = (asked: Asked<"/v1/requests">) =>
  queryOptions({
    queryKey: ["requests", asked],
    queryFn: () => take(api.GET("/v1/requests", { params: { query: asked } })),
    refetchInterval: asked.request_id ? false : 10_000,
  });

export const verifications = (asked: Asked<"/v1/verifications">) =>
  queryOptions({
    queryKey: ["verifications", asked],
    queryFn: () => take(api.GET("/v1/verifications", { params: { query: asked } })),
    refetchInterval: asked.request_id ? false : 10_000,
  });

/** receipt is the proof of a single call. */
export const receipt = (request: string) =>
  queryOptions({
    queryKey: ["receipt", request],
    staleTime: Infinity,
    queryFn: () => take(api.POST("/v1/receipts", { body: { request_id: request } })),
  });

/** FoundRow is a row of a job, as a search finds it. */
export interface FoundRow {
  row: number;
  email: string;
  status: Status | "" | null; // none while the row is not verified
  score: number | null;
  reason: Schemas["Reason"] | "" | null;
  smtp_provider?: string;
  details?: Result["details"]; // of a job that was uploaded with details
}

/** FoundRows are the rows that were found up to next_after; it is null at the end of the list. */
export interface FoundRows {
  rows: FoundRow[];
  next_after: number | null;
}

export const rowsShown = 25;

/** jobRows is a page of the rows that a search finds. The server searches a part of a long list for each request: it is asked on until
 * the page is full, and what it found so far is shown meanwhile. */
export const jobRows = (id: string, q: string, status: Status | "", from: number) => {
  const queryKey = ["job", id, "rows", q, status, from];
  return queryOptions({
    queryKey,
    staleTime: 0, // rows change while the job runs
    queryFn: async ({ client, signal }) => {
      const all: FoundRows = { rows: [], next_after: from };
      for (;;) {
        const query = { q: q || undefined, status: status || undefined, after: all.next_after || undefined, limit: rowsShown - all.rows.length };
        const more: FoundRows = await take(api.GET("/v1/dash/jobs/{job_id}/rows", { signal, params: { path: { job_id: id }, query } }));
        all.rows = [...all.rows, ...more.rows];
        all.next_after = more.next_after;
        if (all.next_after === null || all.rows.length >= rowsShown) return all;
        client.setQueryData(queryKey, { ...all });
      }
    },
  });
};

export const jobProviders = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "providers"],
    staleTime: Infinity,
    queryFn: () => take(api.GET("/v1/dash/jobs/{job_id}/providers", { params: { path: { job_id: id } } })),
  });

export const reasons = queryOptions({
  queryKey: ["reasons"],
  staleTime: Infinity,
  queryFn: async () => {
    const { reasons } = await take(api.GET("/v1/reasons"));
    return new Map(reasons.map((r) => [r.reason ?? "", r]));
  },
});

export const accuracy = queryOptions({ queryKey: ["accuracy"], refetchInterval: 5_000, queryFn: () => take(api.GET("/v1/accuracy")) });

export const usage = (days: number) =>
  queryOptions({
    queryKey: ["usage", days],
    staleTime: 30_000,
    queryFn: () => take(api.GET("/v1/usage", { params: { query: { days } } })),
  });

export const keys = queryOptions({ queryKey: ["keys"], queryFn: async () => (await take(api.GET("/v1/dash/keys"))).keys });

export const sessions = queryOptions({
  queryKey: ["sessions"],
  queryFn: async () => (await take(api.GET("/v1/dash/sessions"))).sessions,
});

export const totp = queryOptions({ queryKey: ["totp"], queryFn: () => take(api.GET("/v1/dash/totp")) });

export const signing = queryOptions({ queryKey: ["signing"], queryFn: () => take(api.GET("/v1/callback-secret")) });

/** users are a page of the accounts. */
export const users = (asked: Asked<"/v1/admin/users">) =>
  queryOptions({
    queryKey: ["users", asked],
    queryFn: () => take(api.GET("/v1/admin/users", { params: { query: { limit: 50, ...asked } } })),
  });

/** allJobs are a page of the jobs of all accounts, or of one. */
export const allJobs = (asked: Asked<"/v1/dash/admin/jobs">) =>
  queryOptions({
    queryKey: ["alljobs", asked],
    queryFn: () => take(api.GET("/v1/dash/admin/jobs", { params: { query: { limit: 50, ...asked } } })),
    refetchInterval: 4_000,
  });

export const creditsOf = (user: string) =>
  queryOptions({ queryKey: ["creditsof", user], queryFn: () => take(api.GET("/v1/admin/credits", { params: { query: { user } } })) });

export const keysOf = (user: string) =>
  queryOptions({ queryKey: ["keysof", user], queryFn: async () => (await take(api.GET("/v1/admin/keys", { params: { query: { user } } }))).keys });

export const ledgerOf = (user: string) =>
  infiniteQueryOptions({
    queryKey: ["ledgerof", user],
    initialPageParam: "",
    queryFn: ({ pageParam }) => take(api.GET("/v1/admin/ledger", { params: { query: { user, limit: 25, cursor: pageParam || undefined } } })),
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });

export const anyJob = (id: string) =>
  queryOptions({
    queryKey: ["anyjob", id],
    queryFn: () => take(api.GET("/v1/dash/admin/jobs/{job_id}", { params: { path: { job_id: id } } })),
    refetchInterval: 4_000,
  });

/** why is asked for seldom: each answer asks every node for its queues. */
export const why = (id: string) =>
  queryOptions({
    queryKey: ["why", id],
    queryFn: () => take(api.GET("/v1/verify/bulk/{job_id}/why", { params: { path: { job_id: id } } })),
    refetchInterval: 10_000,
  });

export const suppressions = queryOptions({
  queryKey: ["suppressions"],
  queryFn: async () => (await take(api.GET("/v1/admin/suppressions"))).suppressions,
});

export const erasures = queryOptions({
  queryKey: ["erasures"],
  queryFn: async () => (await take(api.GET("/v1/admin/erasures"))).erasures,
});

export const acts = (by: string, action: string) =>
  infiniteQueryOptions({
    queryKey: ["acts", by, action],
    initialPageParam: "",
    queryFn: ({ pageParam }) => take(api.GET("/v1/admin/audit", { params: { query: { limit: 25, by: by || undefined, action: action || undefined, cursor: pageParam || undefined } } })),
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });

export const node = queryOptions({
  queryKey: ["node"],
  queryFn: () => take(api.GET("/v1/dash/admin/node")),
  refetchInterval: 5_000,
});

export const activity = queryOptions({
  queryKey: ["activity"],
  queryFn: () => take(api.GET("/v1/dash/admin/activity")),
  refetchInterval: 30_000,
});

export const providers = queryOptions({
  queryKey: ["providers"],
  staleTime: 60_000,
  queryFn: () => take(api.GET("/v1/dash/admin/providers")),
});

export const readyQueues = queryOptions({
  queryKey: ["ready-queues"],
  queryFn: () => take(api.GET("/v1/dash/admin/ready-queues")),
  refetchInterval: 5_000,
});

export type TraceQuery = NonNullable<Schemas["TraceQuery"]>;

/** traces are asked for in a body: an address has no place in a path. */
export const traces = (asked: TraceQuery) =>
  queryOptions({
    queryKey: ["traces", asked],
    queryFn: () => take(api.POST("/v1/dash/admin/traces", { body: asked })),
    refetchInterval: 10_000,
  });

export const probes = queryOptions({
  queryKey: ["probes"],
  queryFn: async () => (await take(api.GET("/v1/dash/admin/probes"))).probes,
  refetchInterval: 4_000,
});
