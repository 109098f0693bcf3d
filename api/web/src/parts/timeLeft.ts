import { useQuery } from "@tanstack/react-query";
import type { Job, Schemas } from "../api/client";
import { why } from "../api/queries";
import { duration } from "../format";

/** Left is how long a job still takes, in seconds; most is null where only what the budgets allow is known. */
export interface Left {
  least: number;
  most: number | null;
}

type Receivers = readonly Pick<Schemas["Why"]["receivers"][number], "done_by">[];

/** timeLeft puts two answers of the server together: the rate so far says eta, and the receivers' budgets say when each of them
 * is done at the earliest. The job takes no less than the budgets allow, however fast it was so far. */
export function timeLeft(eta: number | null, receivers: Receivers, now: number): Left | null {
  const ends = receivers.flatMap((r) => (r.done_by ? [Date.parse(r.done_by)] : []));
  if (ends.length === 0) return eta === null ? null : { least: eta, most: eta };
  const least = Math.max(0, (Math.max(...ends) - now) / 1000);
  return { least, most: eta === null ? null : Math.max(eta, least) };
}

/** close is how much longer the most may be than the least for one figure to tell both. */
const close = 1.15;

/** leftText says it in words; nothing where nothing is known. */
export function leftText(left: Left | null): string {
  if (!left) return "";
  const { least, most } = left;
  if (most === null) return `at least ${duration(least)} left`;
  if (most < 60 || most <= least * close) return `about ${duration(most)} left`;
  return least < 60 ? `up to ${duration(most)} left` : `${duration(least)} to ${duration(most)} left`;
}

/** useTimeLeft is that of a job on its own page. Until the budgets are known it says nothing: the rate alone may promise too much. */
export function useTimeLeft(j: Job): string {
  const query = useQuery({ ...why(j.job_id), enabled: j.status === "running" });
  if (j.status !== "running" || query.isPending) return "";
  return leftText(timeLeft(j.eta_seconds, query.data?.receivers ?? [], Date.now()));
}
