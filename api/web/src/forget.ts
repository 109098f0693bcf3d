import { client } from "./api/queries";
import { forget } from "./upload/broken";
import { dropUploads } from "./upload/uploads";

/** forgetUser drops all that this page holds of the user who was signed in. */
export function forgetUser() {
  dropUploads();
  forget(sessionStorage);
  client.removeQueries({ predicate: (q) => q.queryKey[0] !== "session" });
}
