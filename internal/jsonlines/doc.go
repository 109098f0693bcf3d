// Package jsonlines cuts what is written to it into lines, such as results in JSONL that are streamed.
//
// Invariants:
//  1. Each line is handed on once, whole and without its line break, in whatever pieces it was written.
//  2. Only an unfinished line is kept.
//  3. An error ends the stream.
package jsonlines
