import { useSyncExternalStore } from "react";
import { ApiError, csrfToken, errorOf, signedOut, worthAgain, type Job } from "../api/client";
import { back, unanswered } from "../api/reach";
import { becameJob, isSame, read, write, type Unfinished } from "./broken";
import type { List } from "./lists";

// Uploads live outside of pages: one goes on, and is shown, wherever its sender goes. The browser reads the file from the
// disk as it sends it, so that memory stays flat. While the server does not answer it waits, and then goes on by itself. Leaving
// the dashboard altogether ends it, which is why that is asked; who comes back, or reloads, is told what became of it (broken.ts).

/** resumedFrom is the size in bytes from which a list is sent so that it goes on where it stopped (resumable.ts). A shorter one is a
 * single request, and is sent anew. */
export const resumedFrom = 8 << 20;

/** mostTries is how often in a row an upload is sent while the server answers but none of it arrives. */
const mostTries = 20;

/** pause is the least number of seconds between two tries. */
const pause = 3;

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
  url?: string; // of its upload, which the server may still have
}

export interface Upload {
  id: string;
  file: string;
  size: number;
  sent: number;
  rate: number; // bytes per second
  state: "sending" | "checking" | "waiting" | "done" | "failed" | "cancelled" | "broken";
  error?: ApiError | Error;
  job?: Job;
}

interface Running {
  upload: Upload;
  blob?: File; // none of what an earlier page left
  options: Options;
  key: string; // the Idempotency-Key: trying again is safe
  stop?: AbortController; // of what is under way
  url?: string; // of what the server has of it
  has: number; // bytes that the server said it has
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
    open.map((r) => ({ id: r.key, file: r.upload.file, size: r.upload.size, modified: r.modified, options: r.options, begun: r.begun, sent: r.upload.sent, url: r.url })),
  );
}

/** recover shows what an earlier page of this tab left unfinished. */
export function recover(now = Date.now()) {
  for (const left of read(sessionStorage, now)) {
    if (all.has(left.id)) continue;
    const upload: Upload = { id: left.id, file: left.file, size: left.size, sent: left.sent, rate: 0, state: "broken" };
    all.set(left.id, { upload, options: left.options, key: left.id, left, url: left.url, has: 0, begun: left.begun, modified: left.modified });
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
  void send(id, then);
  return true;
}

export function useUploads(): readonly Upload[] {
  return useSyncExternalStore(watch, () => shown);
}

function watch(then: () => void) {
  watchers.add(then);
  return () => watchers.delete(then);
}

/** form is the body of the request that makes the job: what changes how the file is read comes before it. The file may be one that the
 * server has, with an id. */
export function form(file: File, o: Options, uploadId?: string): FormData {
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
  if (uploadId) f.set("upload_id", uploadId);
  else f.set("file", file, file.name);
  return f;
}

/** start sends a file; then is told of the job. url is of an earlier upload of it. */
export function start(file: File, options: Options, then: (job: Job) => void, url?: string): string {
  const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const upload: Upload = { id, file: file.name, size: file.size, sent: 0, rate: 0, state: "sending" };
  all.set(id, { upload, blob: file, options, key: id, url, has: 0, begun: Date.now(), modified: file.lastModified });
  void send(id, then);
  return id;
}

/** send sends an upload until the server has accepted or refused it, or its user ends it. */
async function send(id: string, then: (job: Job) => void) {
  const one = all.get(id);
  if (!one?.blob) return;
  const { blob } = one;
  const stop = new AbortController();
  one.stop = stop;
  for (let tries = 1; ; tries++) {
    const before = one.has;
    let job: Job;
    try {
      job = await sendOnce(one, blob, stop.signal);
    } catch (error) {
      if (stop.signal.aborted) return;
      if (one.has > before) tries = 1;
      if (!passes(error) || tries >= mostTries) return fail(id, error);
      change(id, { state: "waiting" });
      if (error.status === 0) unanswered();
      await Promise.all([new Promise((done) => setTimeout(done, 1000 * Math.max(pause, error.retryAfter))), back()]);
      if (stop.signal.aborted) return;
      continue;
    }
    sent.set(job.job_id, { file: blob, note: "", options: one.options, url: one.url });
    change(id, { state: "done", job });
    return then(job);
  }
}

/** passes tells whether an upload that met this goes on by itself: there was no answer, or one for the moment. */
const passes = (error: unknown): error is ApiError => error instanceof ApiError && [0, 409, 502, 503, 504].includes(error.status);

function fail(id: string, error: unknown) {
  if (!(error instanceof ApiError && error.status === 401)) return change(id, { state: "failed", error: error as Error });
  change(id, { state: "failed", error: new Error("Your session expired before the upload was accepted. Nothing was charged. Try again: the file is still chosen.") });
  signedOut();
}

const lost = () => new ApiError(0, "Upload failed: connection lost. Try again; you will not be charged twice.");

/** sendOnce sends what the server does not have of an upload, and makes the job. */
async function sendOnce(one: Running, file: File, signal: AbortSignal): Promise<Job> {
  const { id } = one.upload;
  change(id, { state: "sending", sent: one.has, rate: 0, error: undefined });
  await file.slice(0, 1).arrayBuffer().catch(() => {
    throw new Error("The file cannot be read any more: it was moved or changed. Choose it again.");
  });
  signal.throwIfAborted();
  let begun = performance.now();
  const progress = (bytes: number) => {
    const seconds = (performance.now() - begun) / 1000;
    change(id, { sent: Math.min(bytes, file.size), rate: seconds > 0.3 ? (bytes - one.has) / seconds : 0 });
  };
  if (file.size < resumedFrom) return post(one, form(file, one.options), signal, progress);
  const { sendRest } = await import("./resumable").catch(() => {
    throw lost();
  });
  signal.throwIfAborted();
  const told = {
    begun: (url: string) => {
      if (url !== one.url) one.has = 0;
      one.url = url;
    },
    goesOn: (from: number) => {
      begun = performance.now();
      one.has = from;
      progress(from);
    },
    sent: progress,
  };
  one.url = await sendRest(file, one.url, told, signal).catch((error) => {
    throw error instanceof ApiError ? error : lost();
  });
  return post(one, form(file, one.options, one.url), signal);
}

/** post makes the job by a request whose body may be the file itself, and then tells how much of it has left. */
function post(one: Running, body: FormData, signal: AbortSignal, progress?: (bytes: number) => void): Promise<Job> {
  const { id, size } = one.upload;
  const checking = () => change(id, { sent: size, state: "checking" });
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    signal.addEventListener("abort", () => request.abort());
    request.open("POST", "/v1/verify/bulk");
    request.setRequestHeader("X-CSRF-Token", csrfToken());
    request.setRequestHeader("Idempotency-Key", one.key);
    request.responseType = "json";
    if (progress) request.upload.onprogress = (e) => progress(e.loaded);
    request.upload.onload = checking;
    request.onerror = () => failed(lost());
    request.onabort = () => failed(signal.reason);
    request.onload = () => {
      if (request.status === 202) return done(request.response as Job);
      failed(errorOf(request.status, request.response, request.getResponseHeader("X-Request-Id"), request.getResponseHeader("Retry-After")));
    };
    request.send(body);
  });
}

export function again(id: string, then: (job: Job) => void) {
  void send(id, then);
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
  void send(id, then);
}

/** chooseAgain goes back to the options of an upload that was refused. */
export function chooseAgain(id: string) {
  const one = all.get(id);
  all.delete(id);
  if (one?.blob) choose([{ file: one.blob, note: "", options: one.options, url: one.url }]);
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
  const one = all.get(id);
  if (!one) return;
  one.stop?.abort();
  change(id, { state: "cancelled" });
  end(one);
}

/** end deletes what the server has of an upload. */
function end(one: Running) {
  const { url } = one;
  one.url = undefined;
  one.has = 0;
  if (url) import("./resumable").then((resumable) => resumable.end(url)).catch(() => {}); // it expires
}

/** dropUploads ends and forgets all: the next user of this page may be another one. */
export function dropUploads() {
  for (const one of all.values()) one.stop?.abort();
  all.clear();
  sent.clear();
  chosen = [];
  publish();
}

/** dismiss forgets an upload that is over. The upload of a job stays on the server for a while: its options may be changed. */
export function dismiss(id: string) {
  const one = all.get(id);
  all.delete(id);
  if (one && one.upload.state !== "done") end(one);
  publish();
}

export function isUnderWay(u: Upload) {
  return u.state === "sending" || u.state === "checking" || u.state === "waiting";
}

window.addEventListener("beforeunload", (event) => {
  if (shown.some(isUnderWay)) event.preventDefault();
});
