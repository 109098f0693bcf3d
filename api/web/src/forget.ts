import { client } from "./api/queries";
import { forget } from "./upload/broken";
import { dropUploads } from "./upload/uploads";
import { forgetVerified } from "./verified";

/** forgetKept drops what would outlive a reload. */
export function forgetKept() {
  forget(sessionStorage);
  forgetVerified();
}

/** forgetUser drops all that this page holds of the user who was signed in. */
export function forgetUser() {
  dropUploads();
  forgetKept();
  client.removeQueries({ predicate: (q) => q.queryKey[0] !== "session" });
}
