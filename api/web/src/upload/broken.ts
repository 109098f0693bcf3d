import type { Job } from "../api/client";
import type { Options } from "./uploads";

// A page that is left in the midst of an upload ends it. What a browser can keep is that there was one, how it was to be read, and
// where the server has a part of it: the next page says what became of it, and goes on when the file is chosen again. A file itself
// outlives no page.

/** Unfinished is what is kept of an upload while it is under way. */
export interface Unfinished {
  id: string;
  file: string;
  size: number;
  modified: number;
  options: Options;
  begun: number; // milliseconds since 1970
  sent: number; // bytes that had left when it was last noted
  url?: string; // of what the server has of it
}

const place = "probity.uploads";
const most = 20;
const day = 86_400_000;

/** read is what earlier pages left; what cannot be read, or is a day old, is nothing. */
export function read(store: Pick<Storage, "getItem">, now: number): Unfinished[] {
  try {
    const list: unknown = JSON.parse(store.getItem(place) ?? "[]");
    if (!Array.isArray(list)) return [];
    return (list as Unfinished[]).filter((u) => typeof u.id === "string" && typeof u.file === "string" && now - u.begun < day).slice(-most);
  } catch {
    return [];
  }
}

/** write keeps a list; a browser that keeps nothing is left alone. */
export function write(store: Pick<Storage, "setItem">, list: readonly Unfinished[]) {
  try {
    store.setItem(place, JSON.stringify(list.slice(-most)));
  } catch {
    // private windows and full disks
  }
}

/** forget drops what is kept: the next who signs in here may be another. */
export function forget(store: Pick<Storage, "removeItem">) {
  store.removeItem(place);
}

/** becameJob finds the job of an upload that had been sent whole before its page went: the server ends what it has. */
export function becameJob(u: Unfinished, jobs: readonly Job[]): Job | undefined {
  return jobs.find((j) => j.filename === u.file && Date.parse(j.created_at) >= u.begun - 1000 && (!u.options.name || j.name === u.options.name));
}

/** isSame tells whether a file that was chosen is the one that was to be sent. */
export function isSame(u: Unfinished, file: Pick<File, "name" | "size" | "lastModified">): boolean {
  return file.name === u.file && file.size === u.size && file.lastModified === u.modified;
}
