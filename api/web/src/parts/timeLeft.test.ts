import { describe, expect, it } from "vitest";
import { leftText, timeLeft } from "./timeLeft";

const now = Date.parse("2026-03-01T12:00:00Z");
const after = (minutes: number | null) => ({ done_by: minutes === null ? null : new Date(now + minutes * 60_000).toISOString() });

describe("the time that a job still takes", () => {
  it.each([
    [null, [], ""], // nothing is known
    [null, [null], ""],
    [3600, [], "about 1 h left"],
    [3600, [30, 146], "about 2 h 26 min left"], // never less than the budgets allow
    [16_080, [null, 146], "2 h 26 min to 4 h 28 min left"],
    [9000, [146], "about 2 h 30 min left"],
    [null, [146], "at least 2 h 26 min left"],
    [900, [0.5], "up to 15 min left"],
    [20, [-5], "about 20 s left"], // it was to be done by now
  ] as [number | null, (number | null)[], string][])("rate says %j, budgets say %j", (eta, ends, want) => expect(leftText(timeLeft(eta, ends.map(after), now))).toBe(want));
});
