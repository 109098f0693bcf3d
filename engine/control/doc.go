// Package control describes what came after a reply about a recipient, at the same mail host, and shows that the reply
// was about this recipient: a refusal after an acceptance, or an acceptance after a refusal. It is data only. The
// prober collects it, the engine weighs it.
//
// Invariants:
//
//  1. A control came after the reply that it controls, in the order in which the host sent them.
//  2. The zero value says that nothing is known.
package control
