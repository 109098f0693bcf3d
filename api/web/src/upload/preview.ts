// What can be said of a list before it is sent, from its first bytes. The server reads the whole file and has the last
// word; this is the same reading of delimiters, quotes and columns, so that what is shown is what will happen.

export interface Preview {
  delimiter: string;
  rows: string[][]; // the first ones, the header not among them
  header: string[] | null;
  column: number; // of the addresses; -1 where none was found
  certain: boolean; // the server would find the same column by itself
}

const delimiters = [",", ";", "\t", "|"];
const looksLike = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;

/** decode makes text of bytes: by their mark, else as UTF-8, else as Windows-1252. */
export function decode(bytes: Uint8Array): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true }); // the cut may be inside of a character
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/** parse reads up to so many records. A quote opens only where a field begins. */
export function parse(text: string, delimiter: string, most: number): string[][] {
  const records: string[][] = [];
  let fields: string[] = [];
  let field = "";
  let quoted = false;
  let started = false;
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
    } else if (c === "\n" || c === "\r") {
      if (c === "\r" && text[i + 1] === "\n") i++;
      if (started || field !== "" || fields.length > 0) records.push([...fields, field]);
      fields = [];
      field = "";
      started = false;
    } else {
      field += c;
      started = true;
    }
  }
  if (records.length < most && (field !== "" || fields.length > 0)) records.push([...fields, field]);
  return records;
}

const plain = (s: string) => s.replace(/\s+/g, "").toLowerCase();

/** columnNamed is the e-mail column that the server would choose by itself; -1 where there is none. */
export function columnNamed(header: readonly string[]): number {
  const exact = header.indexOf("email");
  return exact >= 0 ? exact : header.findIndex((h) => plain(h) === "email");
}

/** columnSeen is the column in which most cells look like addresses; -1 where none do. */
export function columnSeen(rows: readonly string[][]): number {
  const counts: number[] = [];
  for (const row of rows) {
    row.forEach((cell, i) => {
      if (looksLike.test(cell.trim())) counts[i] = (counts[i] ?? 0) + 1;
    });
  }
  let best = -1;
  counts.forEach((n, i) => {
    if (best < 0 || n > (counts[best] ?? 0)) best = i;
  });
  return best;
}

/** preview reads the beginning of a list. */
export function preview(bytes: Uint8Array, shown = 8): Preview {
  let text = decode(bytes).replace(/^\uFEFF/, "");
  let candidates = delimiters;
  const sep = /^sep=(.)\r?\n/i.exec(text);
  if (sep) {
    candidates = [sep[1]!];
    text = text.slice(sep[0].length);
  }
  for (const delimiter of candidates) {
    const records = parse(text, delimiter, shown + 1);
    const column = columnNamed(records[0] ?? []);
    if (column >= 0) return { delimiter, header: records[0]!, rows: records.slice(1), column, certain: true };
  }
  return guess(text, candidates, shown);
}

/** guess chooses where no header says which column it is. */
function guess(text: string, candidates: readonly string[], shown: number): Preview {
  let best: Preview | null = null;
  for (const delimiter of candidates) {
    const records = parse(text, delimiter, shown + 1);
    const column = columnSeen(records);
    const headless = column >= 0 && looksLike.test(records[0]?.[column]?.trim() ?? "");
    const one: Preview = {
      delimiter,
      header: headless ? null : (records[0] ?? []),
      rows: headless ? records.slice(0, shown) : records.slice(1),
      column,
      certain: false,
    };
    if (!best || (best.column < 0 && column >= 0)) best = one;
  }
  return best!;
}

type Packing = "none" | "gzip" | "zip" | "zstd";

/** packing tells by the first bytes how a file is packed. */
export function packing(b: Uint8Array): Packing {
  if (b[0] === 0x1f && b[1] === 0x8b) return "gzip";
  if (b[0] === 0x50 && b[1] === 0x4b && b[2] === 3 && b[3] === 4) return "zip";
  if (b[0] === 0x28 && b[1] === 0xb5 && b[2] === 0x2f && b[3] === 0xfd) return "zstd";
  return "none";
}

/** unpacked is the text of a file as a stream; null where a browser cannot unpack it. */
export async function unpacked(file: Blob): Promise<ReadableStream<Uint8Array> | null> {
  const head = new Uint8Array(await file.slice(0, 64).arrayBuffer());
  switch (packing(head)) {
    case "none":
      return file.stream();
    case "gzip":
      return unpack(file, "gzip");
    case "zip": {
      const view = new DataView(head.buffer);
      const method = view.getUint16(8, true);
      const at = 30 + view.getUint16(26, true) + view.getUint16(28, true);
      if (method === 0) return file.slice(at).stream();
      return method === 8 ? unpack(file.slice(at), "deflate-raw") : null;
    }
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

/** Counter counts records without keeping them: line ends that stand outside of quotes. */
export class Counter {
  records = 0;
  private quoted = false;
  private filled = false;

  add(chunk: Uint8Array) {
    for (let i = 0; i < chunk.length; i++) {
      const c = chunk[i]!;
      if (c === 34) {
        this.quoted = !this.quoted;
        this.filled = true;
      } else if (c === 10 && !this.quoted) {
        if (this.filled) this.records++;
        this.filled = false;
      } else if (c > 32) {
        this.filled = true;
      }
    }
  }

  end(): number {
    if (this.filled) this.records++;
    this.filled = false;
    return this.records;
  }
}

/** pieces reads a stream piece by piece into memory that is used again and again, where the stream can do that: a browser that
 * is given five million rows would else leave hundreds of megabytes to its garbage collector. */
function pieces(stream: ReadableStream<Uint8Array>): { next: () => Promise<Uint8Array | null>; cancel: () => Promise<void> } {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = stream.getReader({ mode: "byob" });
  } catch {
    const plain = stream.getReader();
    return { next: async () => (await plain.read()).value ?? null, cancel: () => plain.cancel() };
  }
  let memory = new ArrayBuffer(pieceSize);
  const next = async () => {
    const { done, value } = await reader.read(new Uint8Array(memory));
    if (done || !value) return null;
    memory = value.buffer;
    return value;
  };
  return { next, cancel: () => reader.cancel() };
}

const pieceSize = 128 << 10;

/** count reads the whole file, piece by piece, and tells how far it is. Stopping is by the signal. */
export async function count(file: Blob, signal: AbortSignal, progress: (records: number) => void): Promise<number | null> {
  const stream = await unpacked(file);
  if (!stream) return null;
  const { next, cancel } = pieces(stream);
  const counter = new Counter();
  let told = 0;
  for (;;) {
    const piece = await next();
    if (signal.aborted) {
      await cancel().catch(() => {});
      return null;
    }
    if (!piece) return counter.end();
    counter.add(piece);
    if (performance.now() - told > 150) {
      told = performance.now();
      progress(counter.records);
    }
  }
}
