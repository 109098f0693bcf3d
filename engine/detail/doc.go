// Package detail packs what a verdict tells a caller who asks for details: the reply that decided and the one that it
// rests on. A prober's cache and the files of jobs have the same form.
//
// Invariants:
//
//  1. What is appended is read as it was, times to the millisecond, the lines of replies left out.
//  2. A verdict that was not made for such a caller is packed without texts and names of sources.
//  3. Bytes that Append did not write are an error or a value that Append would write; they never panic.
package detail
