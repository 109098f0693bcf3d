// What the page at this address begins with is fetched while the rest of the program is still on its way: this file is the first
// that is there, as it imports nothing but the list of pages and what other tabs tell.
import { whenTold } from "./api/tabs";
import { pages } from "./routes";

const path = location.pathname.replace(/^\/app(?=\/|$)/, "").replace(/\/$/, "") || "/";
const fetchPage = Object.entries(pages).find(([route]) => new RegExp(`^${route.replace(/\$\w+/, "\\w+")}$`).test(path))?.[1];

/** jobId is the job whose page is opened, if it is one. */
export const jobId = /^\/lists\/(\w+)$/.exec(path)?.[1];

/** begin holds what was asked for: the session, the job, and the page's code. An answer that does not come is undefined; null says that
 * no session exists. What is overtaken may be another user's, as the session has changed in another tab meanwhile. */
export const begin = {
  overtaken: false,
  session: ask("/v1/dash/session"),
  job: jobId && ask(`/v1/verify/bulk/${jobId}`),
  page: fetchPage?.().catch(() => {}), // the page itself fetches it again
};

whenTold(() => {
  begin.overtaken = true;
});

async function ask(path: string): Promise<unknown> {
  const answer = await fetch(path).catch(() => undefined);
  if (answer?.status === 401) return null;
  return answer?.ok ? answer.json().catch(() => undefined) : undefined;
}
