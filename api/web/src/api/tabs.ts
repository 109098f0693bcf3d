// What one tab does with the session, the others must know: they share its cookie, and would go on with another's session.

/** Change is the end of a session, or the user of the one that began. */
export type Change = { user: string | null };

const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("probity.session");

/** tell says to the other tabs whose session there is now; null is the end of one. */
export function tell(user: string | null) {
  channel?.postMessage({ user } satisfies Change);
}

/** whenTold hears that from another tab. */
export function whenTold(then: (change: Change) => void) {
  channel?.addEventListener("message", (event: MessageEvent<Change>) => then(event.data));
}
