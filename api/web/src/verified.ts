import type { Result } from "./api/client";

// The last verdict of a single call was paid for: it stays while one looks at other pages, and over a reload. It ends with the
// tab, and with its user.

/** Verified is a verdict and how it was asked for. */
export interface Verified {
  result: Result;
  smtp: boolean;
  age: string;
}

const place = "probity.verified";

export function readVerified(): Verified | null {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(place) ?? "null");
    return typeof kept === "object" && kept !== null && "result" in kept ? (kept as Verified) : null;
  } catch {
    return null; // it was written by another version
  }
}

export function keepVerified(v: Verified) {
  try {
    sessionStorage.setItem(place, JSON.stringify(v));
  } catch {
    // a browser that keeps nothing shows the verdict all the same
  }
}

export function forgetVerified() {
  sessionStorage.removeItem(place);
}
