import { useSyncExternalStore } from "react";
import type { QueryClient } from "@tanstack/react-query";
import { announce } from "./news";
import { ask } from "./reach";
import { signedOut, type Credits, type Job } from "./client";

// Events bring credits and the newest jobs as they change. Where they do not come (a proxy that holds them back, too many
// tabs), queries ask again and again instead: isLive tells them which.

type Liveness = "live" | "asking";
let state: Liveness = "asking";
const watchers = new Set<() => void>();

function become(next: Liveness) {
  if (next === state) return;
  state = next;
  for (const w of watchers) w();
}

export const isLive = () => state === "live";

export function useLiveness(): Liveness {
  return useSyncExternalStore(
    (then) => {
      watchers.add(then);
      return () => watchers.delete(then);
    },
    () => state,
  );
}

const retryAfter = 15_000;

interface News {
  credits: Credits;
  jobs: Job[];
}

/** Word is what tabs of one session tell each other: the news, that they come no more, that the session is over, or that a tab
 * that has just come wants the latest. */
type Word = { session: string } & ({ news: News } | { lost: true } | { ended: true } | { wants: true });

/** follow keeps what pages show true while the page is looked at, until the returned function is called. A browser opens six
 * connections to a server, so one tab has the stream, by a lock that ends with it, and tells the others. Where pages without TLS
 * have no locks, each tab asks. */
export function follow(client: QueryClient, session: string): () => void {
  if (typeof EventSource === "undefined" || typeof BroadcastChannel === "undefined" || !navigator.locks) return () => {};
  const channel = new BroadcastChannel("probity.events");
  const tell = (word: Word) => channel.postMessage(word);
  let latest: News | null = null; // of the stream that this tab has
  let looking: AbortController | null = null; // while the page is looked at

  channel.onmessage = ({ data: word }: MessageEvent<Word>) => {
    if (word.session !== session) return;
    if ("wants" in word) {
      if (latest) tell({ session, news: latest });
    } else if ("ended" in word) signedOut();
    else if (!looking) return;
    else if ("news" in word) hear(word.news);
    else become("asking");
  };

  function hear(news: News) {
    become("live");
    apply(client, news);
  }

  /** lead has the stream until the page is looked at no more. */
  function lead(signal: AbortSignal): Promise<void> {
    return new Promise((done) => {
      let source: EventSource;
      let timer: ReturnType<typeof setTimeout> | undefined;
      function open() {
        source = new EventSource("/v1/dash/events");
        source.addEventListener("state", (event) => {
          latest = JSON.parse(event.data) as News;
          hear(latest);
          tell({ session, news: latest });
        });
        source.addEventListener("ended", () => {
          tell({ session, ended: true });
          signedOut();
        });
        source.onerror = () => {
          latest = null;
          become("asking");
          tell({ session, lost: true });
          ask();
          if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, retryAfter);
        };
      }
      open();
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        source.close();
        latest = null;
        done();
      });
    });
  }

  function look() {
    looking?.abort();
    looking = null;
    become("asking");
    if (document.hidden) return;
    looking = new AbortController();
    const { signal } = looking;
    tell({ session, wants: true });
    navigator.locks.request("probity.events", { signal }, () => (signal.aborted ? undefined : lead(signal))).catch(() => {}); // looked at no more while it waited
  }

  look();
  document.addEventListener("visibilitychange", look);
  return () => {
    document.removeEventListener("visibilitychange", look);
    looking?.abort();
    looking = null;
    channel.close();
    become("asking");
  };
}

/** apply puts news where the pages look for it. */
export function apply(client: QueryClient, news: News) {
  client.setQueryData(["credits"], news.credits);
  client.setQueryData(["jobs", "recent"], (old: { next_cursor: string | null } | undefined) => ({
    jobs: news.jobs,
    next_cursor: old?.next_cursor ?? null,
  }));
  for (const j of news.jobs) {
    const before = client.getQueryData<Job>(["job", j.job_id]);
    client.setQueryData(["job", j.job_id], j.status === "ready" ? { ...j, preview: before?.preview } : j); // news have no preview
    if (before && before.status !== j.status && j.finished_at) announce(`${j.name || j.filename || "A job"}: ${j.status}`);
    if (before && before.status !== j.status) void client.invalidateQueries({ queryKey: ["usage"] });
  }
}
