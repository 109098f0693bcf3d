import { describe, expect, it } from "vitest";
import type { Job } from "../api/client";
import { becameJob, isSame, read, write, type Unfinished } from "./broken";

const options = { name: "", column: "", hasHeader: true, callbackUrl: "", callbackContent: "full" as const, maxHours: 24, maxAgeDays: 7 };
const now = Date.parse("2026-03-02T12:00:00Z");
const one: Unfinished = { id: "u1", file: "l.csv", size: 10, modified: 5, options, begun: now - 60_000, sent: 4 };
const job = (j: Partial<Job>) => ({ job_id: "j", filename: "l.csv", name: "", created_at: "2026-03-02T11:59:30Z", ...j }) as Job;

/** shelf is a browser's storage. */
function shelf(text: string | null = null) {
  return {
    getItem: () => text,
    setItem: (_: string, v: string) => {
      text = v;
    },
  };
}

describe("an upload that broke off", () => {
  it("is found by the next page", () => {
    const s = shelf();
    write(s, [one]);
    expect(read(s, now)).toEqual([one]);
  });
  it("is forgotten after a day", () => {
    const s = shelf();
    write(s, [one]);
    expect(read(s, now + 86_400_000)).toEqual([]);
  });
  it.each([null, "", "{", "{}", "[1]", '[{"id":1}]'])("is nothing where %j is kept", (text) => expect(read(shelf(text), now)).toEqual([]));
  it("does no harm where nothing can be kept", () =>
    expect(() =>
      write(
        {
          setItem: () => {
            throw new Error("full");
          },
        },
        [one],
      ),
    ).not.toThrow());
  it("is known by its file", () => {
    expect(isSame(one, { name: "l.csv", size: 10, lastModified: 5 })).toBe(true);
    expect(isSame(one, { name: "l.csv", size: 11, lastModified: 5 })).toBe(false);
    expect(isSame(one, { name: "l.csv", size: 10, lastModified: 6 })).toBe(false);
  });
  it("may have become a job", () => {
    expect(becameJob(one, [job({ filename: "other.csv" }), job({})])?.job_id).toBe("j");
    expect(becameJob(one, [job({ created_at: "2026-03-02T11:00:00Z" })])).toBeUndefined();
    expect(becameJob({ ...one, options: { ...options, name: "n" } }, [job({})])).toBeUndefined();
  });
});
