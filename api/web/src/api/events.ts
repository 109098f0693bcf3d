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

/** follow keeps what pages show true while the page is looked at, until the returned function is called. */
export function follow(client: QueryClient): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function close() {
    source?.close();
    source = undefined;
    clearTimeout(timer);
    become("asking");
  }

  function open() {
    close();
    if (document.hidden || typeof EventSource === "undefined") return;
    source = new EventSource("/v1/dash/events");
    source.addEventListener("state", (event) => {
      become("live");
      apply(client, JSON.parse(event.data) as { credits: Credits; jobs: Job[] });
    });
    source.addEventListener("ended", signedOut);
    source.onerror = () => {
      become("asking");
      ask();
      if (source?.readyState === EventSource.CLOSED) timer = setTimeout(open, retryAfter);
    };
  }

  open();
  document.addEventListener("visibilitychange", open);
  return () => {
    document.removeEventListener("visibilitychange", open);
    close();
  };
}

/** apply puts news where the pages look for it. */
export function apply(client: QueryClient, news: { credits: Credits; jobs: Job[] }) {
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
