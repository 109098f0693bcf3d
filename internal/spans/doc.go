// Package spans records how long the parts of a request took, and sends that to a collector of OpenTelemetry (OTLP over
// HTTP, in its JSON encoding).
//
// Invariants:
//  1. A nil Tracer records nothing, and a nil Span is not recorded: all their methods may be called, and cost nothing.
//  2. No call waits for the collector: ended spans wait in a queue of bounded length, and what finds it full is dropped
//     and counted.
//  3. A client that asks to be traced is traced at most RequestedPerSecond times a second, all clients together.
//  4. A span has only the names and attributes that the code gives it. None is an address, or a part of one: callers
//     give ids, patterns of paths, and words of ours.
package spans
