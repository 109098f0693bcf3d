/**
 * A client of a Probity server. It needs fetch, streams and WebCrypto: Node 20 or later, Deno, Bun or a browser.
 *
 * A call is tried again after 429, 500, 502, 503, 504 and a lost connection, as Retry-After says. A POST keeps one
 * Idempotency-Key over all attempts, so that a repeat is answered once and charged once.
 */

export type Status = "VALID" | "RISKY" | "INVALID" | "UNKNOWN";

export interface Options {
  check_smtp?: boolean;
  /** Seconds after which the call answers what is known. */
  timeout?: number;
  /** How many seconds old a cached answer may be; 0: none is taken. */
  max_age?: number;
  details?: boolean;
}

/** What a mail server said. */
export interface Reply {
  mx_host: string | null;
  smtp_code: number | null;
  enhanced_code: string | null;
  smtp_message: string | null;
}

/** The evidence of a verdict: the reply that decided, and its control. The description of the API has more. */
export interface Details extends Reply {
  normalized_email: string | null;
  did_you_mean: string | null;
  stage: string | null;
  rule: string | null;
  control: (Reply & { kind: string; meaning: string; at: string }) | null;
  is_catch_all: boolean | null;
  retry_after: number | null;
  probability: number | null;
}

/** The verdict on an address. Decide by status; score ranks equal ones. */
export interface Result {
  email: string;
  status: Status;
  score: number;
  reason: string | null;
  syntax_valid: boolean;
  domain_exists: boolean;
  smtp_valid: boolean;
  is_disposable: boolean;
  is_role_based: boolean;
  is_free_email: boolean;
  smtp_provider: string;
  mx_records: string[];
  from_cache: boolean;
  credits_used: number;
  verified_at: string;
  details?: Details;
}

/** A row of a list with its verdict; that of a blank row is null. */
export type Row = { row: number; email: string; input?: Record<string, string> } & {
  [K in Exclude<keyof Result, "email">]: Result[K] | null;
};

/** The record of a list that is verified. */
export interface Job {
  job_id: string;
  name: string | null;
  status: string;
  total_rows: number;
  unique_addresses: number;
  processed: number;
  percent: number;
  eta_seconds: number | null;
  counts: Record<Status, number>;
  reasons: Record<string, number>;
  credits_used: number;
  credits_needed?: number;
  results_url: string | null;
  expires_at: string | null;
  error: string | null;
}

/** A callback. */
export interface Event {
  event: "bulk.finished" | "single.finished";
  job_id?: string;
  job?: Job;
  /** Needs no key, for 24 hours. */
  results_url?: string;
  /** Absent if the callback has the link only. */
  results?: Row[];
  request_id?: string;
  result?: Result;
}

/** An answer that is not 2xx. */
export class ProbityError extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly requestId: string | null,
    /** Seconds; null: the server names none. */
    readonly retryAfter: number | null,
  ) {
    super(`${detail} (status ${status}, request ${requestId})`);
  }
}

/** A callback that none of the secrets signed, or an old one. */
export class WebhookError extends Error {}

export interface Settings {
  /** Attempts of a call; default 4. */
  attempts?: number;
  /** A longer Retry-After, in seconds, is thrown as an error; default 60. */
  maxPause?: number;
  fetch?: typeof fetch;
  sleep?: (seconds: number) => Promise<void>;
}

export interface UploadSettings {
  filename?: string;
  /** Other parts of the form, such as details: "true"; docs/api.md lists them. */
  parts?: Record<string, string>;
  /** Called with bytes. */
  progress?: (sent: number, total: number) => void;
}

interface Body {
  kind: string;
  headers?: Record<string, string>;
  /** Makes the body of an attempt. */
  make: () => BodyInit;
}

/** The size of a list, in bytes, from which an upload that broke off goes on where it stopped. */
const resumedFrom = 8 << 20;
const tus = { "Tus-Resumable": "1.0.0" };
const again = [429, 500, 502, 503, 504];
const ended = ["completed", "cancelled", "failed", "expired"];

export class Client {
  private readonly url: string;
  private readonly settings: Required<Settings>;

  constructor(
    url: string,
    private readonly key: string,
    settings: Settings = {},
  ) {
    this.url = url.replace(/\/+$/, "");
    const sleep = (seconds: number) => new Promise<void>((done) => setTimeout(done, seconds * 1000));
    this.settings = { attempts: 4, maxPause: 60, fetch: (...request) => fetch(...request), sleep, ...settings };
  }

  /** Verifies one address. */
  verify(email: string, options: Options = {}): Promise<Result> {
    return this.post("/v1/verify/single", { email, ...options });
  }

  /** Verifies up to 1,000 addresses; the results are in their order. */
  async verifyBatch(emails: string[], options: Options = {}): Promise<Result[]> {
    return (await this.post<{ results: Result[] }>("/v1/verify/batch", { emails, ...options })).results;
  }

  /**
   * Uploads a list and returns its job. In Node, openAsBlob of node:fs makes a Blob of a file without reading it. If the
   * connection of a list of 8 MiB or more breaks, what the server has is not sent again.
   */
  async upload(list: Blob, settings: UploadSettings = {}): Promise<Job> {
    const boundary = crypto.randomUUID();
    const filename = (settings.filename ?? "list.csv").replace(/["\\\r\n]/g, "_");
    const resumed = list.size >= resumedFrom;
    const parts = { ...settings.parts };
    if (resumed) parts.upload_id = await this.sendResumed(list, filename, settings.progress);
    const fields = Object.entries(parts).map(
      ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
    );
    const file = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\n\r\n`;
    const form = new Blob([...fields, ...(resumed ? [] : [file, list, "\r\n"]), `--${boundary}--\r\n`]);
    const make = () => (settings.progress && !resumed ? counted(form, 0, form.size, settings.progress) : form);
    return json(await this.send("/v1/verify/bulk", { kind: `multipart/form-data; boundary=${boundary}`, make }));
  }

  /** Sends a list by tus 1.0.0, and returns the id of the upload. Attempts count from the last that sent something. */
  private async sendResumed(list: Blob, filename: string, progress?: UploadSettings["progress"]): Promise<string> {
    const name = btoa(String.fromCharCode(...new TextEncoder().encode(filename)));
    const headers = { ...tus, "Upload-Length": String(list.size), "Upload-Metadata": `filename ${name}` };
    const made = await this.send("/v1/uploads", { kind: "application/json", headers, make: () => "" });
    const id = (await json<{ upload_id: string }>(made)).upload_id;
    const path = `/v1/uploads/${id}`;
    for (let attempt = 1, last = 0; ; attempt++) {
      const { offset } = await json<{ offset: number }>(await this.send(path, undefined, tus));
      if (offset === list.size) return id;
      if (offset > last) [last, attempt] = [offset, 1];
      const rest = list.slice(offset);
      const answer = await this.attempt(
        path,
        { ...tus, "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" },
        "PATCH",
        progress ? counted(rest, offset, list.size, progress) : rest,
      );
      if (answer instanceof Response) return id;
      await this.pause(answer, attempt, true);
    }
  }

  /** Returns the record of a job. */
  async job(id: string): Promise<Job> {
    return json(await this.send(jobPath(id)));
  }

  /**
   * Returns a job once it has ended; progress gets the record every few seconds. A job that is ready or paused goes on
   * only if it is started or resumed.
   */
  async wait(id: string, progress?: (job: Job) => void): Promise<Job> {
    for (;;) {
      const job = await json<Job>(await this.send(`${jobPath(id)}?wait=10`));
      if (ended.includes(job.status)) return job;
      progress?.(job);
    }
  }

  /** Yields the results of a job in the order of its list: all, or those with one of the statuses. */
  async *rows(id: string, ...statuses: Status[]): AsyncGenerator<Row> {
    const query = new URLSearchParams({ format: "jsonl" });
    if (statuses.length) query.set("status", statuses.join(","));
    const answer = await this.send(`${jobPath(id)}/results?${query}`);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        const lines = (rest + piece.value).split("\n");
        rest = lines.pop()!;
        for (const line of lines) yield JSON.parse(line);
      }
      if (rest) yield JSON.parse(rest);
    } finally {
      await reader.cancel();
    }
  }

  private async post<T>(path: string, content: object): Promise<T> {
    return json(await this.send(path, { kind: "application/json", make: () => JSON.stringify(content) }));
  }

  /** Sends a GET, or a POST if it has a body, until the answer is final. */
  private async send(path: string, body?: Body, headers: Record<string, string> = {}): Promise<Response> {
    const all = { ...headers, ...body?.headers };
    if (body) Object.assign(all, { "Content-Type": body.kind, "Idempotency-Key": crypto.randomUUID() });
    for (let attempt = 1; ; attempt++) {
      const answer = await this.attempt(path, all, body ? "POST" : "GET", body?.make());
      if (answer instanceof Response) return answer;
      await this.pause(answer, attempt, !!body && answer instanceof ProbityError && !!answer.retryAfter);
    }
  }

  /** Waits for the next attempt; throws what went wrong if it is final. conflict: an earlier attempt may go on. */
  private async pause(wrong: Error, attempt: number, conflict: boolean): Promise<void> {
    let pause = 2 ** (attempt - 1);
    if (wrong instanceof ProbityError) {
      if (!again.includes(wrong.status) && !(wrong.status === 409 && conflict)) throw wrong;
      pause = Math.max(pause, wrong.retryAfter ?? 0);
    }
    if (attempt >= this.settings.attempts || pause > this.settings.maxPause) throw wrong;
    await this.settings.sleep(pause);
  }

  /** Sends a request once, and returns its answer or what went wrong. */
  private async attempt(
    path: string,
    headers: Record<string, string>,
    method: string,
    body?: BodyInit,
  ): Promise<Response | Error> {
    try {
      const all = { Authorization: `Bearer ${this.key}`, ...headers };
      const answer = await this.settings.fetch(this.url + path, { method, headers: all, body, duplex: "half" } as RequestInit);
      return answer.ok ? answer : await errorOf(answer);
    } catch (lost) {
      return lost as Error;
    }
  }
}

/**
 * Reads a callback after it has checked its signature (Standard Webhooks). body is the text as it came. After a secret
 * is replaced, both are good for a day: give both.
 */
export async function readWebhook(headers: Headers, body: string, secrets: string[], now = new Date()): Promise<Event> {
  const at = headers.get("webhook-timestamp") ?? "";
  if (!/^\d+$/.test(at) || Math.abs(now.getTime() / 1000 - Number(at)) > 300) {
    throw new WebhookError(`webhook-timestamp is ${JSON.stringify(at)}`);
  }
  const signed = new TextEncoder().encode(`${headers.get("webhook-id")}.${at}.${body}`);
  const given = (headers.get("webhook-signature") ?? "").split(" ").filter((one) => one.startsWith("v1,"));
  for (const secret of secrets) {
    const raw = bytesOf(secret.replace(/^whsec_/, ""));
    const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const one of given) {
      if (await crypto.subtle.verify("HMAC", key, bytesOf(one.slice("v1,".length)), signed)) return JSON.parse(body);
    }
  }
  throw new WebhookError("no signature matches");
}

/** The bytes of base64. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    throw new WebhookError("a secret or signature is not base64");
  }
}

const jobPath = (id: string) => `/v1/verify/bulk/${encodeURIComponent(id)}`;

const json = async <T>(answer: Response): Promise<T> => (await answer.json()) as T;

async function errorOf(answer: Response): Promise<ProbityError> {
  const said = (await answer.json().catch(() => null)) as { detail?: string } | null;
  const detail = said?.detail ?? `${answer.status} ${answer.statusText}`;
  const wait = answer.headers.get("Retry-After") ?? "";
  const retryAfter = /^\d+$/.test(wait) ? Number(wait) : null;
  return new ProbityError(answer.status, detail, answer.headers.get("X-Request-Id"), retryAfter);
}

/** The bytes of a body as a stream that tells how many of a total were read; some were sent before. */
function counted(
  body: Blob,
  sent: number,
  total: number,
  progress: (sent: number, total: number) => void,
): ReadableStream<Uint8Array> {
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(piece, out) {
      sent += piece.length;
      progress(sent, total);
      out.enqueue(piece);
    },
  });
  return body.stream().pipeThrough(count);
}
