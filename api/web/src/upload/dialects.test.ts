// The lists of coordinator/csvfile/testdata/dialects.json: what is shown of each, and sent with it, is what the server's own test reads.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { columnPart, preview } from "./preview";

interface Vector {
  name: string;
  text?: string;
  base64?: string;
  delimiter: string;
  column: number;
  header: boolean;
  unaided: boolean;
  email_column: string;
  emails: string[];
}

const vectors = JSON.parse(readFileSync("../../coordinator/csvfile/testdata/dialects.json", "utf8")) as Vector[];

describe("the preview agrees with the server", () => {
  it.each(vectors.map((v) => [v.name, v] as const))("%s", (_, v) => {
    const bytes = v.base64 ? Uint8Array.from(atob(v.base64), (c) => c.charCodeAt(0)) : new TextEncoder().encode(v.text);
    const p = preview(bytes);
    expect({ delimiter: p.delimiter, column: p.column + 1, header: p.header !== null, certain: p.certain }).toEqual({
      delimiter: v.delimiter,
      column: v.column,
      header: v.header,
      certain: v.unaided,
    });
    expect(columnPart(p.header, p.column)).toBe(v.email_column);
    expect(p.rows.map((r) => r[p.column] ?? "")).toEqual(v.emails);
  });
});
