import { useSyncExternalStore } from "react";

// Whether the server answers. Any answer says that it does; a request or a stream that breaks says that it does not, until
// it is asked again, every few seconds.

const patience = 3_000;
let reached = true;
let asking: ReturnType<typeof setTimeout> | undefined;
const watchers = new Set<() => void>();
let onBack: () => void = () => {};

/** whenBack is told when the server answers again. */
export function whenBack(then: () => void) {
  onBack = then;
}

/** answered notes that the server answered. */
export function answered() {
  clearTimeout(asking);
  asking = undefined;
  if (reached) return;
  reached = true;
  for (const w of watchers) w();
  onBack();
}

/** unanswered notes that it did not. */
export function unanswered() {
  asking ??= setTimeout(() => {
    asking = undefined;
    ask();
  }, patience);
  if (!reached) return;
  reached = false;
  for (const w of watchers) w();
}

/** ask finds out whether the server answers. */
export function ask() {
  fetch("/v1/dash/session", { cache: "no-store" }).then(answered, unanswered);
}

/** back resolves when the server answers, at once where it does. */
export function back(): Promise<void> {
  return new Promise((done) => {
    const look = () => {
      if (!reached) return;
      watchers.delete(look);
      done();
    };
    watchers.add(look);
    look();
  });
}

/** useReached tells a page whether the server answers. */
export function useReached(): boolean {
  return useSyncExternalStore(
    (then) => {
      watchers.add(then);
      return () => watchers.delete(then);
    },
    () => reached,
  );
}

window.addEventListener("offline", unanswered);
window.addEventListener("online", ask);
