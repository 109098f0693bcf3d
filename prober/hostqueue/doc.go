// Package hostqueue keeps the probes of a ready queue that wait, by host and domain, and says which recipients a
// connection sends next and what their replies prove. It is a value without a lock of its own: its Owner, the ready
// queue, holds its mutex in every call, but for Probe.Urge and Probe.Set. It opens nothing and decides no step:
// engine.Next does, through Owner.Advance.
//
// Terms: a Queue is all domains of one host of one MX set. A decoy is a random recipient of a domain: its catch-all
// check. An acceptance of a receiver that may stop refusing, and has refused a recipient in this hour, is unconfirmed
// until the host has refused another after it (unconfirmed.go). The control of a host is a recipient that it has
// accepted (control.go). A decoy that is accepted after half of an hour's refusals is suspect (suspect_decoy.go).
// What a host has shown so far, and what its answers prove of one another, are values that know no probe (evidence.go).
//
// An example: three addresses of a domain at a receiver that no provider matches, in one list.
//
//	RCPT TO:<ann@a.example>           250  accepted: ann waits for the decoy of a.example
//	RCPT TO:<bob@a.example>           550  refused as unknown: bob waits, as the host may refuse everybody by now
//	RCPT TO:<eve@a.example>           250  accepted after it: bob is INVALID; eve waits for the decoy, too
//	RCPT TO:<danvongal@a.example>     550  the decoy: a.example is no catch-all, and the host still refuses unknown
//	                                       recipients over this connection: ann and eve are VALID
//
// Had eve come before bob, no acceptance would follow bob's refusal. Then the host's control is sent behind him, here
// ann once more: accepted, bob is INVALID; refused, he is rate limited and asked again, and the next connection begins
// with the control.
//
// Invariants:
//  1. A probe is in at most one list: of its domain, of recipients that come first on the next connection, or of those
//     that wait for a decoy.
//  2. The target is asked before the decoy, and the decoy only while a probe waits for it, once per domain and host.
//  3. Once a receiver that may stop refusing has refused a recipient, an acceptance within an hour counts only with a
//     later refusal, also that of a decoy.
//  4. A decoy's acceptance in that hour is given out as a fact only with a later refusal.
//  5. Where a receiver may refuse everybody as unknown, and has accepted a recipient, a refusal counts only with a
//     later acceptance on its connection, or within minutes over another.
//  6. No row of a short job waits for a long job: not for a decoy, nor a control; a single call waits for no other row.
//  7. No domain keeps the others of its host waiting: one that has more than a transaction takes goes to the end.
package hostqueue
