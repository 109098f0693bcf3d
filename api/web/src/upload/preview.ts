// Which column of a list has the addresses, from its first bytes: the server is told, and shows what it read before it starts. This
// is its reading of delimiters, quotes and columns.

export interface Preview {
  delimiter: string; // empty for JSON lines
  rows: string[][]; // the first ones, the header not among them
  header: string[] | null;
  column: number; // of the addresses; -1 where none was found
  certain: boolean; // the server would find the same column by itself
  fields?: number; // of JSON lines: the first so many columns are of the first object, which must have the addresses
}

type Encoding = "utf-8" | "utf-16le" | "utf-16be" | "windows-1252" | "macintosh";

/** Newline is the last character of each line. */
type Newline = "\n" | "\r";

const delimiters = [",", ";", "\t", "|"];

/** looksLike tells whether a cell has the shape of an address, right or wrong, by the server's rule (csvfile.looksLikeAddress). */
export const looksLike = (cell: string) => /^[^\s,;|@][^\s,;|]*@[^\s,;|]*[^\s,;|@]$/.test(cell.trim());

/** encodingOf tells how bytes are to be read: by their mark, else as UTF-8, else as Windows-1252. */
function encodingOf(bytes: Uint8Array): Encoding {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true }); // the cut may be inside of a character
    return "utf-8";
  } catch {
    return endsWithCR(new TextDecoder("windows-1252").decode(bytes)) ? "macintosh" : "windows-1252";
  }
}

/** decode makes text of bytes. */
export function decode(bytes: Uint8Array): string {
  return new TextDecoder(encodingOf(bytes)).decode(bytes, { stream: true });
}

/** endsWithCR tells whether lines end with CR alone, as older programs of the Macintosh write them. */
function endsWithCR(text: string): boolean {
  let found = false;
  let quoted = false;
  for (const c of text) {
    if (c === '"') quoted = !quoted;
    else if (c === "\n" && !quoted) return false;
    else if (c === "\r" && !quoted) found = true;
  }
  return found;
}

/** parse reads up to so many records. A quote opens only where a field begins; an empty line is a record of one empty field. */
export function parse(text: string, delimiter: string, most: number, newline: Newline = "\n"): string[][] {
  const records: string[][] = [];
  let fields: string[] = [];
  let field = "";
  let quoted = false;
  let started = false;
  const end = (at: number) => {
    const crlf = newline === "\n" && text[at - 1] === "\r" && !quoted;
    records.push([...fields, crlf ? field.slice(0, -1) : field]);
    fields = [];
    field = "";
    started = false;
  };
  for (let i = 0; i < text.length && records.length < most; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c !== '"') field += c;
      else if (text[i + 1] === '"') field += text[i++];
      else quoted = false;
      continue;
    }
    if (c === '"' && !started) {
      quoted = started = true;
    } else if (c === delimiter) {
      fields.push(field);
      field = "";
      started = false;
    } else if (c === newline) {
      end(i);
    } else {
      field += c;
      started = true;
    }
  }
  if (records.length < most && (started || fields.length > 0)) end(text.length);
  return records;
}

const plain = (s: string) => s.replace(/\s+/g, "").toLowerCase();

/** columnNamed is the column that the server finds by a name; -1 where there is none. */
export function columnNamed(header: readonly string[], name = "email"): number {
  const exact = header.indexOf(name);
  return exact >= 0 ? exact : header.findIndex((h) => plain(h) === plain(name));
}

/** columnSeen is the column in which most cells look like addresses, and how many do; -1 where none do. */
export function columnSeen(rows: readonly string[][]): { column: number; cells: number } {
  const counts: number[] = [];
  for (const row of rows) {
    row.forEach((cell, i) => {
      if (looksLike(cell)) counts[i] = (counts[i] ?? 0) + 1;
    });
  }
  let best = -1;
  counts.forEach((n, i) => {
    if (best < 0 || n > (counts[best] ?? 0)) best = i;
  });
  return { column: best, cells: counts[best] ?? 0 };
}

/** isArray tells whether a list is a JSON array of objects, which the server refuses (csvfile.beginsJSON). */
export const isArray = (bytes: Uint8Array) => /^\uFEFF?[ \t\r\n]*\[[ \t\r\n]*\{/.test(decode(bytes));

/** preview reads the beginning of a list. */
export function preview(bytes: Uint8Array, shown = 8): Preview {
  let text = decode(bytes).replace(/^\uFEFF/, "");
  if (text.trimStart().startsWith("{")) return previewObjects(text, shown);
  const newline: Newline = endsWithCR(text) ? "\r" : "\n";
  let candidates = delimiters;
  const sep = (newline === "\r" ? /^sep=([,;\t|])(?:\r|$)/i : /^sep=([,;\t|])(?:\r?\n|\r?$)/i).exec(text);
  if (sep) {
    candidates = [sep[1]!];
    text = text.slice(sep[0].length);
  }
  for (const delimiter of candidates) {
    const records = parse(text, delimiter, shown + 1, newline);
    const column = columnNamed(records[0] ?? []);
    if (column >= 0) return { delimiter, header: records[0]!, rows: records.slice(1), column, certain: true };
  }
  return guess(text, candidates, newline, shown);
}

/** previewObjects reads JSON lines up to the first that is no object, or is cut: their members in the order in which they come. */
function previewObjects(text: string, shown: number): Preview {
  const header: string[] = [];
  const rows: string[][] = [];
  let fields = 0;
  for (const line of text.split("\n").filter((l) => l.trim())) {
    const object = objectOf(line);
    if (!object || rows.length === shown) break;
    for (const name of Object.keys(object)) if (!header.includes(name)) header.push(name);
    if (rows.length === 0) fields = header.length;
    rows.push(header.map((name) => cellOf(object[name])));
  }
  const named = columnNamed(header.slice(0, fields));
  const column = named >= 0 ? named : columnSeen(rows.map((r) => r.slice(0, fields))).column;
  return { delimiter: "", header, rows, column, certain: named >= 0, fields };
}

function objectOf(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}

const cellOf = (value: unknown) => (typeof value === "string" ? value : value == null ? "" : JSON.stringify(value));

const looked = 100; // records by which a guess is made

/** guess chooses where no header says which column it is: the delimiter that parts the most addresses from the rest; where there are
 * none, the one that gives the most columns. */
function guess(text: string, candidates: readonly string[], newline: Newline, shown: number): Preview {
  let best = { delimiter: "", records: [] as string[][], column: -1, cells: -1 };
  for (const delimiter of candidates) {
    const records = parse(text, delimiter, looked, newline);
    const seen = columnSeen(records);
    const wider = seen.cells === 0 && (records[0]?.length ?? 0) > (best.records[0]?.length ?? 0);
    if (seen.cells > best.cells || (seen.cells === best.cells && wider)) best = { delimiter, records, ...seen };
  }
  const { delimiter, records, column } = best;
  const headless = column >= 0 && looksLike(records[0]?.[column] ?? "");
  return { delimiter, header: headless ? null : (records[0] ?? []), rows: records.slice(headless ? 0 : 1).slice(0, shown), column, certain: false };
}

/** columnPart is how the server is told of a column: by its number, or by its name where the number is the name of another. It is null
 * where neither names it. */
export function columnPart(header: readonly string[] | null, column: number): string | null {
  const number = String(column + 1);
  if (!header) return number;
  const byNumber = columnNamed(header, number);
  if (byNumber < 0 || byNumber === column) return number;
  const name = header[column] ?? "";
  return name && columnNamed(header, name) === column ? name : null;
}

/** delimiterPart is how the server is told of a delimiter. */
export const delimiterPart = (delimiter: string) => (delimiter === "\t" ? "tab" : delimiter);

type Packing = "none" | "gzip" | "zip" | "zstd";

/** packing tells by the first bytes how a file is packed. */
export function packing(b: Uint8Array): Packing {
  if (b[0] === 0x1f && b[1] === 0x8b) return "gzip";
  if (b[0] === 0x50 && b[1] === 0x4b && b[2] === 3 && b[3] === 4) return "zip";
  if (b[0] === 0x28 && b[1] === 0xb5 && b[2] === 0x2f && b[3] === 0xfd) return "zstd";
  return "none";
}

/** workbooks are the endings of spreadsheets, which are no text. */
export const workbooks = [".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers"];

/** isWorkbook tells a spreadsheet by its name or, renamed, by what it begins with. */
export async function isWorkbook(file: File): Promise<boolean> {
  if (workbooks.some((w) => file.name.toLowerCase().endsWith(w))) return true;
  const head = new Uint8Array(await file.slice(0, 64).arrayBuffer());
  if (head[0] === 0xd0 && head[1] === 0xcf && head[2] === 0x11 && head[3] === 0xe0) return true; // the older format of Excel
  if (packing(head) !== "zip") return false;
  const names = [new TextDecoder("latin1").decode(head.subarray(30)), ...(await zipEntries(file)).map((e) => e.name)];
  return names.some((name) => /^(\[Content_Types\]\.xml|_rels\/|xl\/|mimetype$|mimetypeapplication\/|Index\.zip|Index\/)/.test(name));
}

interface ZipEntry {
  name: string;
  method: number;
  size: number; // packed
  at: number; // of its local header
}

/** zipEntries reads the directory at the end of an archive (APPNOTE.TXT 4.3.12 and 4.3.16); it is empty where there is none that a browser
 * should read. */
async function zipEntries(file: Blob): Promise<ZipEntry[]> {
  const tail = new DataView(await file.slice(-65557).arrayBuffer());
  let end = tail.byteLength - 22;
  while (end >= 0 && tail.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) return [];
  const start = tail.getUint32(end + 16, true);
  const list = new DataView(await file.slice(start, Math.min(start + tail.getUint32(end + 12, true), start + headSize)).arrayBuffer());
  const entries: ZipEntry[] = [];
  for (let at = 0; at + 46 <= list.byteLength && list.getUint32(at, true) === 0x02014b50; ) {
    const length = list.getUint16(at + 28, true);
    const name = new TextDecoder().decode(list.buffer.slice(at + 46, at + 46 + length)).replaceAll("\\", "/");
    entries.push({ name, method: list.getUint16(at + 10, true), size: list.getUint32(at + 20, true), at: list.getUint32(at + 42, true) });
    at += 46 + length + list.getUint16(at + 30, true) + list.getUint16(at + 32, true);
  }
  return entries;
}

/** ofSystem tells a folder, and what macOS and Windows add to an archive; the server passes over the same (csvfile.isSystemEntry). */
const ofSystem = (e: ZipEntry) => e.name.endsWith("/") || e.name.startsWith("__MACOSX/") || /(^|\/)(\._[^/]*|\.DS_Store|Thumbs\.db|desktop\.ini)$/.test(e.name);

/** zipped is the one list of an archive as a stream; null where a browser cannot unpack it, or where it is not the only one. */
async function zipped(file: Blob): Promise<ReadableStream<Uint8Array> | null> {
  const lists = (await zipEntries(file)).filter((e) => !ofSystem(e));
  const entry = lists[0];
  if (!entry || lists.length > 1 || entry.size === 0xffffffff) return null;
  const header = new DataView(await file.slice(entry.at, entry.at + 30).arrayBuffer());
  if (header.byteLength < 30) return null;
  const at = entry.at + 30 + header.getUint16(26, true) + header.getUint16(28, true);
  const data = file.slice(at, at + entry.size);
  if (entry.method === 0) return data.stream();
  return entry.method === 8 ? unpack(data, "deflate-raw") : null;
}

/** unpacked is the text of a file as a stream; null where a browser cannot unpack it. */
async function unpacked(file: Blob): Promise<ReadableStream<Uint8Array> | null> {
  const head = new Uint8Array(await file.slice(0, 64).arrayBuffer());
  switch (packing(head)) {
    case "none":
      return file.stream();
    case "gzip":
      return unpack(file, "gzip");
    case "zip":
      return zipped(file);
    case "zstd":
      return null;
  }
}

function unpack(blob: Blob, format: CompressionFormat): ReadableStream<Uint8Array> | null {
  if (typeof DecompressionStream === "undefined") return null;
  return blob.stream().pipeThrough(new DecompressionStream(format) as unknown as TransformStream<Uint8Array<ArrayBuffer>, Uint8Array>);
}

const headSize = 256 << 10;

/** beginning is the first bytes of a file, unpacked; null where a browser cannot unpack it. */
export async function beginning(file: Blob): Promise<Uint8Array | null> {
  const stream = await unpacked(file);
  if (!stream) return null;
  const reader = stream.getReader();
  const head = new Uint8Array(headSize);
  let n = 0;
  try {
    while (n < headSize) {
      const { done, value } = await reader.read();
      if (done) break;
      const part = value.subarray(0, headSize - n);
      head.set(part, n);
      n += part.length;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
  return head.subarray(0, n);
}
