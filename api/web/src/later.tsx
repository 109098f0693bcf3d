import { useCallback, useEffect, useState, type ComponentType } from "react";
import { ApiError } from "./api/client";
import { unanswered, useReached } from "./api/reach";
import { Busy, Page, Trouble } from "./parts";

const waiting: (() => Promise<unknown>)[] = [];

/** later is a page whose code is fetched when it is opened, or when the browser is idle. Where that fails, the dashboard
 * stays: the page says so, and is fetched again by a button, and by itself once the server answers. */
export function later<Name extends string>(load: () => Promise<Record<Name, ComponentType>>, name: Name) {
  let Loaded: ComponentType | undefined;
  const preload = async () => {
    Loaded ??= (await load())[name];
  };
  waiting.push(preload);

  function Later() {
    const [, setTries] = useState(0);
    const [failed, setFailed] = useState(false);
    const reached = useReached();
    const fetchIt = useCallback(() => {
      setFailed(false);
      preload().then(
        () => setTries((n) => n + 1),
        () => {
          unanswered();
          setFailed(true);
        },
      );
    }, []);
    useEffect(() => {
      if (!Loaded) fetchIt(); // at first, and when the server is away or back
    }, [reached, fetchIt]);
    if (Loaded) return <Loaded />;
    if (!failed) return <Busy>Loading the page…</Busy>;
    return (
      <Page title="Page not loaded">
        <Trouble error={new ApiError(0, "Cannot reach the server. Check your connection and try again.")} again={fetchIt} />
      </Page>
    );
  }
  // The router calls it for a link that is pointed at; the page itself tells of a failure.
  return Object.assign(Later, { preload: () => preload().catch(() => {}) });
}

/** preloadPages fetches the code of all pages, one after another, while the browser has nothing else to do. */
export function preloadPages() {
  const idle = globalThis.requestIdleCallback ?? ((then: () => void) => setTimeout(then, 2_000));
  const next = (i: number) => {
    if (i < waiting.length) idle(() => void waiting[i]!().then(() => next(i + 1), () => {})); // the rest comes when it is opened
  };
  next(0);
}
