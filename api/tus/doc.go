// Package tus keeps resumable uploads by the protocol tus 1.0.0, with its extensions creation, checksum, expiration and
// termination. An upload is only bytes: a job is made of it by a request of its own.
//
// Invariants:
//  1. Upload-Offset counts bytes that are durable: after a crash, what is beyond it is written again.
//  2. A piece with a checksum counts as a whole or not at all; without one, what came of it counts even if the rest did
//     not come.
//  3. Only one request writes to an upload at a time; another account does not see it.
//  4. An upload has its length from the beginning. When it expires or is ended, its files are deleted. Memory does not
//     depend on its length.
package tus
