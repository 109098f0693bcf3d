import { describe, expect, it } from "vitest";
import { beginning, columnNamed, columnPart, columnSeen, decode, isArray, isWorkbook, packing, parse, preview } from "./preview";

const utf8 = (s: string) => new TextEncoder().encode(s);

describe("parse", () => {
  it.each([
    ["a,b\nc,d\n", ",", [["a", "b"], ["c", "d"]]],
    ["a,b\r\nc,d", ",", [["a", "b"], ["c", "d"]]],
    ['"x, y",2\n', ",", [["x, y", "2"]]],
    ['"say ""hi""",2\n', ",", [['say "hi"', "2"]]],
    ['"two\nlines",2\n', ",", [["two\nlines", "2"]]],
    ['a"b,c\n', ",", [['a"b', "c"]]],
    ["a;b\n", ";", [["a", "b"]]],
    ["a,,\n", ",", [["a", "", ""]]],
    ["\n\na\n", ",", [[""], [""], ["a"]]], // as the server: an empty line is a row
    ["", ",", []],
  ])("%j", (text, delimiter, want) => expect(parse(text, delimiter, 10)).toEqual(want));

  it("stops at the most", () => expect(parse("a\nb\nc\n", ",", 2)).toEqual([["a"], ["b"]]));
});

describe("JSON lines", () => {
  it("show their members, and choose among those of the first object", () =>
    expect(preview(utf8('{"id":1,"mail":"ann@x.example","tags":["a"]}\n\n{"work":"bo@x.example","mail":null}\n{"id":'))).toEqual({
      delimiter: "",
      header: ["id", "mail", "tags", "work"],
      rows: [
        ["1", "ann@x.example", '["a"]'],
        ["", "", "", "bo@x.example"],
      ],
      column: 1,
      certain: false,
      fields: 3,
    }));
  it("have their addresses in email", () => expect(preview(utf8('\n{"a":"x@y.example","email":"z"}\n'))).toMatchObject({ column: 1, certain: true }));
  it("need a first object with addresses", () => expect(preview(utf8('{"a":1}\n{"b":"x@y.example"}\n')).column).toBe(-1));
});

describe("columns", () => {
  it.each([
    [["name", "email"], 1],
    [[" E Mail ", "email"], 1],
    [["x", " E Mail "], 1],
    [["e-mail"], -1],
    [[], -1],
  ])("%j is named %i", (header, want) => expect(columnNamed(header)).toBe(want));

  it("sees addresses", () =>
    expect(
      columnSeen([
        ["1", "ann@example.com", "x"],
        ["2", "bo@example.com", "y@"],
      ]),
    ).toEqual({ column: 1, cells: 2 }));

  it.each([
    ["ann@example.com", true],
    [" ann@x\u00a0", true],
    ["a@@b.example", true],
    ['"ann"@x.example', true],
    ["@ann", false],
    ["ann@", false],
    ["a b@x.example", false],
    ["Ann;ann@x.example", false],
    ["ann@x.example|1", false],
    ["ann", false],
    ["", false],
  ])("%j looks like an address: %s", (cell, want) => expect(columnSeen([[cell]]).cells === 1).toBe(want));

  it("are named by their number, unless that is the name of another", () => {
    expect(columnPart(null, 1)).toBe("2");
    expect(columnPart(["x", "Mail"], 1)).toBe("2");
    expect(columnPart(["2", "Mail"], 1)).toBe("Mail");
    expect(columnPart(["2", ""], 1)).toBeNull();
    expect(columnPart(["2", "2"], 1)).toBeNull();
  });
});

describe("preview", () => {
  it("takes the delimiter that yields the column", () => {
    const p = preview(utf8("id;email;city\n1;ann@example.com;Bonn, am Rhein\n"));
    expect(p).toMatchObject({ delimiter: ";", column: 1, certain: true });
    expect(p.rows).toEqual([["1", "ann@example.com", "Bonn, am Rhein"]]);
  });
  it("honours sep=", () => expect(preview(utf8("sep=|\nemail|x\na@b.example|1\n"))).toMatchObject({ delimiter: "|", column: 0 }));
  it("sees that there is no header", () => {
    const p = preview(utf8("ann@example.com,1\nbo@example.com,2\n"));
    expect(p).toMatchObject({ header: null, column: 0, certain: false });
    expect(p.rows).toHaveLength(2);
  });
  it("finds no column", () => expect(preview(utf8("a,b\n1,2\n")).column).toBe(-1));
  it("of nothing is empty", () => expect(preview(utf8(""))).toMatchObject({ rows: [], column: -1 }));
  it("reads marks", () => {
    expect(decode(new Uint8Array([0xff, 0xfe, 0x61, 0]))).toBe("a");
    expect(decode(new Uint8Array([0xfe, 0xff, 0, 0x61]))).toBe("a");
    expect(decode(new Uint8Array([0xe4]))).toBe(""); // the beginning of a character that the cut parted
    expect(decode(new Uint8Array([0xe4, 0x20]))).toBe("ä ");
    expect(preview(utf8("\uFEFFemail\na@b.example\n")).column).toBe(0);
  });
});

describe("files", () => {
  it("tells packings", () => {
    expect(packing(new Uint8Array([0x1f, 0x8b]))).toBe("gzip");
    expect(packing(new Uint8Array([0x28, 0xb5, 0x2f, 0xfd]))).toBe("zstd");
    expect(packing(utf8("PK\u0003\u0004"))).toBe("zip");
    expect(packing(utf8("email"))).toBe("none");
  });
  it("takes the beginning alone", async () => {
    const head = await beginning(new Blob(["x".repeat(1 << 20)]));
    expect(head!.length).toBe(256 << 10);
  });

  // Archives that Python's zipfile wrote: a folder packed by macOS, two lists, and a workbook.
  const archive = (text: string, name = "a.zip") => new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name);
  const mac = archive("UEsDBBQAAAAIAAAAIVyDFtyMAwAAAAEAAAAQAAAAX19NQUNPU1gvLl9saXN0c6sAAFBLAwQUAAAAAAAAACFcAAAAAAAAAAAAAAAABgAAAGxpc3RzL1BLAwQUAAAACAAAACFcFSbb+wMAAAABAAAADwAAAGxpc3RzLy5EU19TdG9yZasEAFBLAwQUAAAACAAAACFcHqvW9xQAAAASAAAADgAAAGxpc3RzL2xpc3QuY3N2S81NzMzhSnRI0kutSMwtyEnlAgBQSwMEFAAAAAgAAAAhXK930mIDAAAAAQAAABkAAABfX01BQ09TWC9saXN0cy8uX2xpc3QuY3N2qwIAUEsBAhQDFAAAAAgAAAAhXIMW3IwDAAAAAQAAABAAAAAAAAAAAAAAAIABAAAAAF9fTUFDT1NYLy5fbGlzdHNQSwECFAMUAAAAAAAAACFcAAAAAAAAAAAAAAAABgAAAAAAAAAAAAAAgAExAAAAbGlzdHMvUEsBAhQDFAAAAAgAAAAhXBUm2/sDAAAAAQAAAA8AAAAAAAAAAAAAAIABVQAAAGxpc3RzLy5EU19TdG9yZVBLAQIUAxQAAAAIAAAAIVweq9b3FAAAABIAAAAOAAAAAAAAAAAAAACAAYUAAABsaXN0cy9saXN0LmNzdlBLAQIUAxQAAAAIAAAAIVyvd9JiAwAAAAEAAAAZAAAAAAAAAAAAAACAAcUAAABfX01BQ09TWC9saXN0cy8uX2xpc3QuY3N2UEsFBgAAAAAFAAUAMgEAAP8AAAAAAA==");
  const two = archive("UEsDBBQAAAAIAAAAIVzKIVhlCAAAAAYAAAAFAAAAYS5jc3ZLzU3MzOECAFBLAwQUAAAACAAAACFcyiFYZQgAAAAGAAAABQAAAGIuY3N2S81NzMzhAgBQSwECFAMUAAAACAAAACFcyiFYZQgAAAAGAAAABQAAAAAAAAAAAAAAgAEAAAAAYS5jc3ZQSwECFAMUAAAACAAAACFcyiFYZQgAAAAGAAAABQAAAAAAAAAAAAAAgAErAAAAYi5jc3ZQSwUGAAAAAAIAAgBmAAAAVgAAAAAA");
  const book = archive("UEsDBBQAAAAIAAAAIVwrhCYSBgAAAAQAAAAQAAAAZG9jUHJvcHMvYXBwLnhtbLOp0LcDAFBLAwQUAAAACAAAACFcK4QmEgYAAAAEAAAADwAAAHhsL3dvcmtib29rLnhtbLOp0LcDAFBLAQIUAxQAAAAIAAAAIVwrhCYSBgAAAAQAAAAQAAAAAAAAAAAAAACAAQAAAABkb2NQcm9wcy9hcHAueG1sUEsBAhQDFAAAAAgAAAAhXCuEJhIGAAAABAAAAA8AAAAAAAAAAAAAAIABNAAAAHhsL3dvcmtib29rLnhtbFBLBQYAAAAAAgACAHsAAABnAAAAAAA=", "book.csv");
  it("reads the one list of an archive", async () => {
    expect(decode((await beginning(mac))!)).toBe("email\na@b.example\n");
    expect(await beginning(two)).toBeNull();
  });
  it("tells a workbook by what is in it", async () => expect([await isWorkbook(mac), await isWorkbook(two), await isWorkbook(book)]).toEqual([false, false, true]));
});

describe("a JSON array", () => {
  it.each([
    ['[{"email":1}]', true],
    ["\uFEFF\r\n [\n {", true],
    ['["ann@shop.example"]', false], // as the server has it
    ['{"a":[{', false],
    ["email\n[{", false],
  ])("%j", (text, want) => expect(isArray(new TextEncoder().encode(text))).toBe(want));
});
