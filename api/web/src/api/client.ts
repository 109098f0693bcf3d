import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type JobStatus = Schemas["JobStatus"];
export type Status = Schemas["Status"];
export type Result = Schemas["Result"];
export type Visit = Schemas["Visit"];
export type Credits = Schemas["Credits"];
export type Key = Schemas["Key"];

/** ApiError is an answer that is no success, in the server's own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    detail: string,
    readonly requestId = "",
    readonly retryAfter = 0,
  ) {
    super(detail);
  }
}

let csrf = "";
let onSignedOut: () => void = () => {};
let left = false;

/** setCsrf takes the token that every change must bear: a session has begun. */
export function setCsrf(token: string) {
  csrf = token;
  left = false;
}

export function csrfToken() {
  return csrf;
}

/** whenSignedOut is told when the server says that the session is over. */
export function whenSignedOut(then: () => void) {
  onSignedOut = then;
}

export function signedOut() {
  onSignedOut();
}

/** leave is signedOut by the user's own will. */
export function leave() {
  left = true;
  onSignedOut();
}

/** hasLeft tells whether the last session ended by its user's will, who need not be told that it has. */
export function hasLeft() {
  return left;
}

const guard: Middleware = {
  onRequest({ request }) {
    if (request.method !== "GET" && request.method !== "HEAD") request.headers.set("X-CSRF-Token", csrf);
    return request;
  },
  onResponse({ response, schemaPath }) {
    if (response.status === 401 && schemaPath !== "/v1/dash/login" && schemaPath !== "/v1/dash/session") onSignedOut();
    return response;
  },
};

export const api = createClient<paths>({ baseUrl: location.origin, credentials: "same-origin" });
api.use(guard);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** take is the body of a success; anything else is thrown as an ApiError. */
export async function take<T>(promise: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await promise;
  } catch {
    throw new ApiError(0, "The server cannot be reached: look at your connection, then try again.");
  }
  const { data, error, response } = answer;
  if (response.ok) return data as T;
  throw errorOf(response.status, error, response.headers.get("X-Request-Id"), response.headers.get("Retry-After"));
}

/** errorOf reads the body of a refusal. */
export function errorOf(status: number, body: unknown, requestId: string | null, retryAfter: string | null): ApiError {
  const detail =
    typeof body === "object" && body !== null && "detail" in body && typeof body.detail === "string"
      ? body.detail
      : `The server answered ${status}: try again.`;
  return new ApiError(status, detail, requestId ?? "", Number(retryAfter) || 0);
}

/** words says what went wrong, for a page. */
export function words(error: unknown): string {
  if (error instanceof Error) return error.message;
  return "Something went wrong: reload the page and try again.";
}
