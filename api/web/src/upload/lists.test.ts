import { describe, expect, it } from "vitest";
import { asList, pasted } from "./lists";
import { cellText, csvOf, sheetWithAddresses } from "./workbook";

describe("what is made into a list", () => {
  it.each([
    ["ann@a.example bo@b.example", "ann@a.example\nbo@b.example\n"],
    ["ann@a.example,\r\nbo@b.example;cy@c.example\n", "ann@a.example\nbo@b.example\ncy@c.example\n"],
    ["Name\tMail\nAnn\tann@a.example\n", "Name\tMail\nAnn\tann@a.example\n"], // rows of a spreadsheet stay as they are
  ])("%j was pasted", async (text, want) => expect(await pasted(text).file.text()).toBe(want));

  it("is a file as it is, unless it is a workbook", async () => {
    const file = new File(["email\n"], "a.csv");
    expect(await asList(file)).toEqual({ file, note: "" });
  });

  it("is the first sheet with addresses", () => {
    const empty = { sheet: "a", data: [] };
    const words = { sheet: "b", data: [["nothing", 1]] };
    const addresses = { sheet: "c", data: [["Mail"], [null], ["ann@a.example"]] };
    expect(sheetWithAddresses([empty, words, addresses, addresses])).toBe(2);
    expect(sheetWithAddresses([empty, words])).toBe(1);
    expect(sheetWithAddresses([empty])).toBe(0);
  });

  it("keeps cells", () => {
    const rows = [["a", null, 'say "hi"', "x, y", "two\nlines", " padded"], ["0012", true, new Date("2026-03-01T00:00:00Z"), new Date("2026-03-01T12:00:00Z")]];
    expect(csvOf(rows).join("")).toBe('a,,"say ""hi""","x, y","two\nlines"," padded"\r\n0012,true,2026-03-01,2026-03-01T12:00:00.000Z\r\n');
    expect(cellText(undefined)).toBe("");
  });
});
