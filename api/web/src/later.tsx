import { useCallback, useEffect, useState, type ComponentType, type ReactNode } from "react";
import { ApiError } from "./api/client";
import { unanswered, useReached } from "./api/reach";
import { Busy, Page, Trouble } from "./parts";

const waiting: (() => Promise<unknown>)[] = [];

type Frame = ComponentType<{ children: ReactNode }>;

const NotLoaded: Frame = ({ children }) => <Page title="Page not loaded">{children}</Page>;

/** later is a page, or a part of one, whose code is fetched when it is opened, or when the browser is idle. Where that fails, the
 * dashboard stays: the frame says so, and the code is fetched again by a button, and by itself once the server answers. */
export function later<Props extends object>(load: () => Promise<ComponentType<Props>>, InFrame = NotLoaded) {
  let Loaded: ComponentType<Props> | undefined;
  const preload = async () => {
    Loaded ??= await load();
  };
  waiting.push(preload);

  function Later(props: Props) {
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
    if (Loaded) return <Loaded {...props} />;
    if (!failed) return <Busy>Loading the page…</Busy>;
    return (
      <InFrame>
        <Trouble error={new ApiError(0, "Cannot reach the server. Check your connection and try again.")} again={fetchIt} />
      </InFrame>
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
