// Package apiclient is a client of a running server: of its API, and of its admin listener.
//
// Invariants:
//  1. An answer other than 2xx is an error with the server's own detail, or with the method, the path and the status.
//     What does not answer is named in the error.
//  2. Of the body of an error at most 64 KiB are read; a list is uploaded and a result downloaded without being held in
//     memory.
//  3. A result file is complete or not there.
package apiclient
