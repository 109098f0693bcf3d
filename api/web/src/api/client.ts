import createClient, { type Middleware } from "openapi-fetch";
import { soon } from "../format";
import { answered, unanswered } from "./reach";
import { tell } from "./tabs";
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
    /** What a 401 asks for: TOTP where the password was right and a code is missing or wrong. */
    readonly challenge = "",
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

/** leave is signedOut by the user's own will. The server may tell of the end before it answers the request that ends the session. */
export async function leave(logout: () => Promise<unknown>) {
  left = true;
  await logout().catch(() => {});
  tell(null);
  onSignedOut();
}

/** leftElsewhere is the end of the session that this tab has, in another one. */
export function leftElsewhere() {
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
    unanswered();
    throw new ApiError(0, "Cannot reach the server. Check your connection and try again.");
  }
  answered();
  const { data, error, response } = answer;
  if (response.ok) return data as T;
  throw errorOf(response.status, error, response.headers.get("X-Request-Id"), response.headers.get("Retry-After"), response.headers.get("WWW-Authenticate"));
}

/** errorOf reads the body of a refusal. */
export function errorOf(status: number, body: unknown, requestId: string | null, retryAfter: string | null, challenge: string | null = null): ApiError {
  const detail =
    typeof body === "object" && body !== null && "detail" in body && typeof body.detail === "string"
      ? body.detail
      : `The server answered ${status}: try again.`;
  const wait = Number(retryAfter) || 0;
  return new ApiError(status, forPeople(detail, wait), requestId ?? "", wait, challenge ?? "");
}

/** forPeople is a refusal for a person at a page. The server says what happened, a colon, and what a program should do: a
 * person knows no Retry-After, and cannot add credits. */
function forPeople(detail: string, wait: number): string {
  if (wait > 0) return `${detail.split(": ", 1)[0]!}. Try again ${soon(wait)}.`;
  return detail.replace(/: add credits and try again\.$/, ". Ask your administrator for more.");
}

/** worthAgain tells whether the same request may be answered better another time. Credits that are short and a file that
 * cannot be read stay so. */
export function worthAgain(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status < 400 || error.status >= 500 || [401, 408, 409, 429].includes(error.status);
}

/** words says what went wrong, for a page. */
export function words(error: unknown): string {
  if (error instanceof Error) return error.message;
  return "Something went wrong: reload the page and try again.";
}
