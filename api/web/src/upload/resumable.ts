import { Upload, type DetailedError, type HttpRequest, type HttpResponse, type UploadOptions } from "tus-js-client";
import { csrfToken, errorOf } from "../api/client";

// A long list goes by the protocol tus: the server counts what came, so that after a lost connection only the rest is sent. This is fetched
// with the first such list.

/** Told is what becomes of an upload while it is sent. */
export interface Told {
  begun: (url: string) => void; // the server has it by this URL from now on
  goesOn: (from: number) => void; // the server has so many bytes
  sent: (bytes: number) => void;
}

const common: Partial<UploadOptions> = {
  storeFingerprintForResuming: false,
  onBeforeRequest: (request) => request.setHeader("X-CSRF-Token", csrfToken()),
};

/** sendRest sends what the server does not have of a file, and returns the URL of the upload. known is the URL of one that was begun; where
 * the server does not have it any more, another is begun. */
export function sendRest(file: File, known: string | undefined, told: Told, signal: AbortSignal): Promise<string> {
  return new Promise((done, failed) => {
    const upload = new Upload(file, {
      ...common,
      endpoint: `${location.origin}/v1/uploads`,
      uploadUrl: known ?? null,
      metadata: { filename: file.name },
      retryDelays: null, // it is sent again by its caller
      onAfterResponse: (request, response) => {
        refuse(request, response);
        const offset = response.getHeader("Upload-Offset");
        if (request.getMethod() === "HEAD" && offset) told.goesOn(Number(offset));
      },
      onUploadUrlAvailable: () => told.begun(upload.url!),
      onProgress: told.sent,
      onSuccess: () => done(upload.url!),
      onError: (error) => failed((error as DetailedError).causingError ?? error),
    });
    signal.addEventListener("abort", () => {
      void upload.abort();
      failed(signal.reason);
    });
    upload.start();
  });
}

/** refuse throws what an answer refuses, in the server's words. Only an upload that is gone is begun anew: after any other answer that is no
 * success it is still there. */
function refuse(request: HttpRequest, response: HttpResponse) {
  const status = response.getStatus();
  if (status < 400 || (status === 404 && request.getMethod() === "HEAD")) return;
  throw errorOf(status, asJSON(response.getBody()), response.getHeader("X-Request-Id") ?? null, response.getHeader("Retry-After") ?? null);
}

function asJSON(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** end deletes an upload on the server. It may have to wait until the server knows that nothing more comes; what is left expires. */
export const end = (url: string) => Upload.terminate(url, { ...common, retryDelays: [1_000, 5_000, 30_000] }).catch(() => {});
