// Package fetch reads a list from a URL that a customer names, over HTTPS.
//
// Invariants:
//  1. Each connection goes through package outward: the first, those after redirects, and those that go on after a lost
//     one.
//  2. What is read is one version of the file, whole: a connection that was lost is resumed by range only with a
//     validator that says that the file is the same; else reading fails.
//  3. A file has a bound of bytes, of pauses and of time, and memory is flat.
//  4. Nothing of the URL but the file's name is kept or logged: it may contain a secret.
package fetch
