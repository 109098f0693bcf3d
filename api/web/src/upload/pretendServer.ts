import { vi } from "vitest";
import type { Job } from "../api/client";

// The server of the tests of uploads, as a browser sees it, with a line to it that can be cut.

interface Answer {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Asked is a request that arrived, with the bytes of a piece that did. */
export interface Asked {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: unknown;
  bytes: number;
}

/** Piece is an upload: what came of it, and how long it will be. */
interface Piece {
  length: number;
  has: number;
}

export class PretendServer {
  asked: Asked[] = [];
  uploads = new Map<string, Piece>();
  job: Partial<Job> = {};
  away = false; // no request is answered
  cutAt = Infinity; // bytes of the next piece, after which the line is cut
  losesJobs = 0; // so many of the next requests for a job are taken, and the answers lost
  next: Answer | null = null; // to the next request for a job or an upload

  /** installs itself in place of the network. */
  install() {
    const server = this;
    vi.stubGlobal("fetch", async (input: Request | string) => {
      const request = typeof input === "string" ? new Request(new URL(input, location.href)) : input;
      const { status, body } = server.answer({ method: request.method, path: new URL(request.url).pathname, headers: {}, body: null, bytes: 0 });
      if (status === 0) throw new TypeError("Failed to fetch");
      return new Response(status === 204 ? null : JSON.stringify(body), { status });
    });
    vi.stubGlobal("EventSource", class {
      addEventListener() {}
      close() {}
    });
    vi.stubGlobal(
      "XMLHttpRequest",
      class {
        upload: { onprogress?: (e: object) => void; onload?: () => void } = {};
        onload?: () => void;
        onerror?: (e: Event) => void;
        onabort?: () => void;
        status = 0;
        response: unknown = null;
        responseText = "";
        asked: Asked = { method: "", path: "", headers: {}, body: null, bytes: 0 };
        answered: Answer = { status: 0 };
        over = false;
        open(method: string, url: string) {
          this.asked = { ...this.asked, method, path: new URL(url, location.href).pathname };
        }
        setRequestHeader(name: string, value: unknown) {
          this.asked.headers[name] = String(value);
        }
        getResponseHeader = (name: string) => this.answered.headers?.[name] ?? null;
        async send(body: unknown) {
          await Promise.resolve();
          if (this.over) return;
          const size = body instanceof Blob ? body.size : 0;
          const bytes = server.away ? 0 : Math.min(size, server.cutAt);
          this.upload.onprogress?.({ lengthComputable: true, loaded: bytes, total: size });
          this.answered = server.answer({ ...this.asked, body, bytes });
          const { status, body: content } = this.answered;
          if (status === 0) return this.onerror?.(new Event("error"));
          this.upload.onload?.();
          this.status = status;
          this.response = content;
          this.responseText = content === undefined ? "" : JSON.stringify(content);
          this.onload?.();
        }
        abort() {
          this.over = true;
          this.onabort?.();
        }
      },
    );
  }

  /** of are the requests with a method for a path. */
  of = (method: string, path: string | RegExp) => this.asked.filter((a) => a.method === method && (typeof path === "string" ? a.path === path : path.test(a.path)));

  private answer(asked: Asked): Answer {
    if (this.away) return { status: 0 };
    this.asked.push(asked);
    const { method, path, headers } = asked;
    const upload = this.uploads.get(path);
    if (this.next && (path.startsWith("/v1/uploads") || (method === "POST" && path === "/v1/verify/bulk"))) {
      const { next } = this;
      this.next = null;
      return next;
    }
    if (path === "/v1/uploads") {
      const at = `/v1/uploads/u${this.uploads.size + 1}`;
      this.uploads.set(at, { length: Number(headers["Upload-Length"]), has: 0 });
      return { status: 201, headers: { Location: at } };
    }
    if (path.startsWith("/v1/uploads/")) return upload ? this.piece(asked, upload) : { status: 404, body: { detail: "There is no such upload" } };
    if (path === "/v1/verify/bulk" && method === "POST") {
      return this.losesJobs-- > 0 ? { status: 0 } : { status: 202, body: this.job };
    }
    return this.page(path);
  }

  private piece({ method, path, headers, bytes }: Asked, upload: Piece): Answer {
    const told = () => ({ "Upload-Offset": String(upload.has), "Upload-Length": String(upload.length) });
    if (method === "HEAD") return { status: 200, headers: told() };
    if (method === "DELETE") {
      this.uploads.delete(path);
      return { status: 204 };
    }
    if (Number(headers["Upload-Offset"]) !== upload.has) return { status: 409, body: { detail: `The upload has ${upload.has} bytes` } };
    upload.has += bytes;
    if (this.cutAt === Infinity) return { status: 204, headers: told() };
    this.cutAt = Infinity;
    this.away = true;
    return { status: 0 };
  }

  private page(path: string): Answer {
    switch (path) {
      case "/v1/dash/session":
        return { status: 200, body: { user: { id: "u", email: "ann@shop.example", role: "customer" }, csrf_token: "token", service: { max_upload_bytes: 9e9, results_kept_seconds: 604_800 } } };
      case "/v1/credits":
        return { status: 200, body: { balance: 100, reserved: 0 } };
      case "/v1/verify/bulk":
        return { status: 200, body: { jobs: [], total: 0, next_cursor: null } };
      default:
        return { status: 200, body: this.job };
    }
  }
}
