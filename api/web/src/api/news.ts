import { useSyncExternalStore } from "react";

// What happened on its own is said aloud once, wherever the user is.

let latest = "";
const watchers = new Set<() => void>();

/** announce has a sentence read by those who hear the page. */
export function announce(sentence: string) {
  latest = sentence;
  for (const w of watchers) w();
}

/** useAnnounced is the latest sentence. */
export function useAnnounced(): string {
  return useSyncExternalStore(
    (then) => {
      watchers.add(then);
      return () => watchers.delete(then);
    },
    () => latest,
  );
}
