import { describe, expect, it } from "vitest";
import type { Job } from "../api/client";
import { pace, slow, titleOf } from "./JobTable";

const job = (news: Partial<Job>) => ({ status: "running", rows_per_second: 0, eta_seconds: null, slow_routes: [], name: null, filename: null, job_id: "j", ...news }) as Job;

describe("jobs in words", () => {
  it.each([
    [{ status: "ready", eta_seconds: 90 }, "Not started"],
    [{ status: "queued" }, "Queued"],
    [{ status: "paused" }, "Paused"],
    [{ status: "finalizing" }, "Writing the result file"],
    [{}, "Running"],
    [{ rows_per_second: 12.34, eta_seconds: 90 }, "12.3 rows/s, 1 min 30 s left"],
  ] as [Partial<Job>, string][])("%j", (news, want) => expect(pace(job(news))).toBe(want));

  it("says whom it waits for", () => {
    const slow_routes = [{ provider: "Yahoo", waiting: 1200, eta_seconds: null }, { provider: "QQ Mail", waiting: 3, eta_seconds: null }];
    expect(slow(job({ slow_routes }))).toBe("1,200 rows wait for Yahoo and 1 more");
    expect(slow(job({ slow_routes, status: "completed" }))).toBe("");
    expect(slow(job({ slow_routes: [{ provider: "dns", waiting: 1, eta_seconds: null }] }))).toBe("1 row waits for DNS");
  });

  it("has a title", () => {
    expect(titleOf(job({ name: "n", filename: "f.csv" }))).toBe("n");
    expect(titleOf(job({ filename: "f.csv" }))).toBe("f.csv");
    expect(titleOf(job({}))).toBe("j");
  });
});
