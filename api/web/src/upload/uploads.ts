import { useSyncExternalStore } from "react";
import { ApiError, csrfToken, errorOf, signedOut, worthAgain, type Job } from "../api/client";
import { unanswered } from "../api/reach";
import { becameJob, isSame, read, write, type Unfinished } from "./broken";
import type { List } from "./lists";

// Uploads live outside of pages: one goes on, and is shown, wherever its sender goes. The browser reads the file from the
// disk as it sends it, so that memory stays flat. Leaving the dashboard altogether ends it, which is why that is asked; who
// comes back, or reloads, is told what became of it (broken.ts).

export interface Options {
  name: string;
  column: string; // as the server wants it: a header name or a 1-based index; empty to let it choose
  hasHeader: boolean;
  delimiter?: string; // as the server wants it; none to let it choose
  details?: boolean; // the evidence of each row is in the result
  columnCheck?: boolean; // false: verify the column though almost no cell of it looks like an address
  callbackUrl: string;
  callbackContent: "full" | "auto" | "link";
  maxHours: number; // 0: the server chooses
  maxAgeDays: number;
}

/** Chosen is a list whose options are being chosen, with those of an upload of it before. */
export interface Chosen extends List {
  options?: Options;
}

export interface Upload {
  id: string;
  file: string;
  size: number;
  sent: number;
  rate: number; // bytes per second
  state: "sending" | "checking" | "done" | "failed" | "cancelled" | "broken";
  error?: ApiError | Error;
  job?: Job;
}

interface Running {
  upload: Upload;
  blob?: File; // none of what an earlier page left
  options: Options;
  key: string; // the Idempotency-Key: trying again is safe
  request?: XMLHttpRequest;
  left?: Unfinished; // what an earlier page noted
  begun: number;
  modified: number;
}

const all = new Map<string, Running>();
let shown: readonly Upload[] = [];
const watchers = new Set<() => void>();

function change(id: string, news: Partial<Upload>) {
  const one = all.get(id);
  if (one) one.upload = { ...one.upload, ...news };
  publish();
}

function publish() {
  shown = [...all.values()].map((r) => r.upload);
  for (const w of watchers) w();
  note();
}

let noted = "";
let notedAt = 0;

/** note keeps what a next page would have to know: at once when an upload comes or goes, else once a second. */
function note() {
  const open = [...all.values()].filter((r) => isUnderWay(r.upload) || r.upload.state === "broken" || (r.upload.state === "failed" && worthAgain(r.upload.error)));
  const names = open.map((r) => r.key + r.upload.state).join();
  if (names === noted && performance.now() - notedAt < 1000) return;
  noted = names;
  notedAt = performance.now();
  write(
    sessionStorage,
    open.map((r) => ({ id: r.key, file: r.upload.file, size: r.upload.size, modified: r.modified, options: r.options, begun: r.begun, sent: r.upload.sent })),
  );
}

/** recover shows what an earlier page of this tab left unfinished. */
export function recover(now = Date.now()) {
  for (const left of read(sessionStorage, now)) {
    if (all.has(left.id)) continue;
    const upload: Upload = { id: left.id, file: left.file, size: left.size, sent: left.sent, rate: 0, state: "broken" };
    all.set(left.id, { upload, options: left.options, key: left.id, left, begun: left.begun, modified: left.modified });
  }
  publish();
}

/** settle looks whether what an earlier page left became a job all the same: it had been sent whole. */
export function settle(jobs: readonly Job[]) {
  for (const r of all.values()) {
    const job = r.upload.state === "broken" && r.left && becameJob(r.left, jobs);
    if (job) change(r.upload.id, { state: "done", job, sent: r.upload.size });
  }
}

/** resend sends an upload that broke off, with the options that it had, once its file was chosen again. It tells whether it
 * is the same file. */
export function resend(id: string, file: File, then: (job: Job) => void): boolean {
  const one = all.get(id);
  if (!one?.left || !isSame(one.left, file)) return false;
  one.blob = file;
  send(id, then);
  return true;
}

export function useUploads(): readonly Upload[] {
  return useSyncExternalStore(watch, () => shown);
}

function watch(then: () => void) {
  watchers.add(then);
  return () => watchers.delete(then);
}

/** form is the body of an upload: what changes how the file is read comes before it. */
export function form(file: File, o: Options): FormData {
  const f = new FormData();
  f.set("start", "false"); // its page shows what the server read, and starts it
  if (o.name) f.set("name", o.name);
  if (o.column) f.set("email_column", o.column);
  f.set("has_header", String(o.hasHeader));
  if (o.delimiter) f.set("delimiter", o.delimiter);
  if (o.details) f.set("details", "true");
  if (o.columnCheck === false) f.set("column_check", "false");
  if (o.callbackUrl) {
    f.set("callback_url", o.callbackUrl);
    f.set("callback_content", o.callbackContent);
  }
  if (o.maxHours) f.set("max_hours", String(o.maxHours)); // else the server chooses by its plan
  f.set("max_age", String(Math.round(o.maxAgeDays * 86400)));
  f.set("file", file, file.name);
  return f;
}

/** start sends a file; then is told of the job. */
export function start(file: File, options: Options, then: (job: Job) => void): string {
  const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const upload: Upload = { id, file: file.name, size: file.size, sent: 0, rate: 0, state: "sending" };
  all.set(id, { upload, blob: file, options, key: id, begun: Date.now(), modified: file.lastModified });
  send(id, then);
  return id;
}

function send(id: string, then: (job: Job) => void) {
  const one = all.get(id);
  if (!one?.blob) return;
  const { blob } = one;
  const request = new XMLHttpRequest();
  one.request = request;
  const begun = performance.now();
  change(id, { state: "sending", sent: 0, rate: 0, error: undefined });
  request.open("POST", "/v1/verify/bulk");
  request.setRequestHeader("X-CSRF-Token", csrfToken());
  request.setRequestHeader("Idempotency-Key", one.key);
  request.responseType = "json";
  request.upload.onprogress = (e) => {
    const seconds = (performance.now() - begun) / 1000;
    change(id, { sent: Math.min(e.loaded, blob.size), rate: seconds > 0.3 ? e.loaded / seconds : 0 });
  };
  request.upload.onload = () => change(id, { sent: blob.size, state: "checking" });
  request.onerror = () => {
    unanswered();
    change(id, { state: "failed", error: new Error("Upload failed: connection lost. Try again; you will not be charged twice.") });
  };
  request.onabort = () => change(id, { state: "cancelled" });
  request.onload = () => {
    if (request.status === 401) {
      change(id, { state: "failed", error: new Error("Your session expired before the upload was accepted. Nothing was kept or charged. Try again: the file is still chosen.") });
      signedOut();
      return;
    }
    if (request.status !== 202) {
      const error = errorOf(request.status, request.response, request.getResponseHeader("X-Request-Id"), request.getResponseHeader("Retry-After"));
      change(id, { state: "failed", error });
      return;
    }
    const job = request.response as Job;
    sent.set(job.job_id, { file: blob, note: "", options: one.options });
    change(id, { state: "done", job });
    then(job);
  };
  request.send(form(blob, one.options));
  publish();
}

export function again(id: string, then: (job: Job) => void) {
  send(id, then);
}

/** refusedColumn is why the server refused the column of an upload, in its words; empty where that is not what it refused. */
export function refusedColumn(u: Upload): string {
  const detail = u.state === "failed" && u.error instanceof ApiError && u.error.status === 422 ? u.error.message : "";
  return /^file: (.*): name another column with email_column, or verify this one with column_check=false$/s.exec(detail)?.[1] ?? "";
}

/** verifyAnyway sends an upload again without the check of its column. */
export function verifyAnyway(id: string, then: (job: Job) => void) {
  const one = all.get(id);
  if (!one) return;
  one.options = { ...one.options, columnCheck: false };
  send(id, then);
}

/** chooseAgain goes back to the options of an upload that was refused. */
export function chooseAgain(id: string) {
  const one = all.get(id);
  dismiss(id);
  if (one?.blob) choose([{ file: one.blob, note: "", options: one.options }]);
}

const sent = new Map<string, Chosen>(); // what jobs of this page were made of

/** sourceOf is the list that a job was made of, while the page that sent it is open. */
export const sourceOf = (job: string) => sent.get(job);

let chosen: readonly Chosen[] = [];

/** choose adds lists whose options are to be chosen, one after another. */
export function choose(lists: readonly Chosen[]) {
  chosen = [...chosen, ...lists];
  publish();
}

/** chosenDone goes on to the next list. */
export function chosenDone() {
  chosen = chosen.slice(1);
  publish();
}

export const allChosen = () => chosen;

export const useChosen = () => useSyncExternalStore(watch, () => chosen);

export function abort(id: string) {
  all.get(id)?.request?.abort();
}

/** dropUploads ends and forgets all: the next user of this page may be another one. */
export function dropUploads() {
  for (const one of all.values()) one.request?.abort();
  all.clear();
  sent.clear();
  chosen = [];
  publish();
}

export function dismiss(id: string) {
  all.delete(id);
  publish();
}

export function isUnderWay(u: Upload) {
  return u.state === "sending" || u.state === "checking";
}

window.addEventListener("beforeunload", (event) => {
  if (shown.some(isUnderWay)) event.preventDefault();
});
