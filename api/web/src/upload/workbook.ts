import { columnSeen } from "./preview";

// A workbook is made into the CSV list of one of its sheets, in a worker: the page goes on meanwhile.

/** Sheet is one of a workbook, as it was read. */
export interface Sheet {
  sheet: string;
  data: readonly (readonly unknown[])[];
}

const looked = 100; // rows by which a sheet is chosen

/** sheetWithAddresses is the place of the first sheet with addresses, else of the first with anything. */
export function sheetWithAddresses(sheets: readonly Sheet[]): number {
  const found = sheets.findIndex((s) => columnSeen(s.data.slice(0, looked).map((row) => row.map(cellText))).cells > 0);
  return found >= 0 ? found : Math.max(0, sheets.findIndex((s) => s.data.length > 0));
}

/** cellText is a cell as CSV has it: numbers as they were written, days without a time. */
export function cellText(cell: unknown): string {
  if (cell === null || cell === undefined) return "";
  if (cell instanceof Date) return cell.toISOString().replace(/T00:00:00\.000Z$/, "");
  return String(cell);
}

const quoted = (text: string) => (/[",\r\n]/.test(text) || text.trim() !== text ? `"${text.replaceAll('"', '""')}"` : text);

/** csvOf writes rows as CSV. */
export const csvOf = (rows: Sheet["data"]) => rows.map((row) => row.map((c) => quoted(cellText(c))).join(",") + "\r\n");

/** Converted is the list of a sheet. */
export interface Converted {
  csv: Blob;
  sheet: string;
  place: number; // from 1
  of: number;
}

/** convert reads a workbook; what is no readable workbook is an error. */
export function convert(file: File): Promise<Converted> {
  return new Promise((done, failed) => {
    const worker = new Worker(new URL("./workbook.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Converted | { error: string }>) => {
      worker.terminate();
      if ("error" in data) failed(new Error(data.error));
      else done(data);
    };
    worker.onerror = (event) => {
      worker.terminate();
      failed(new Error(event.message));
    };
    worker.postMessage(file);
  });
}
