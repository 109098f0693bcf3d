// Package bucket delivers the results of finished jobs to buckets of object storage (S3), by multipart uploads.
//
// Invariants:
//  1. Results go only where the operator's list allows their account, checked at acceptance and at each attempt.
//  2. Each connection goes through package outward, and redirects are not followed.
//  3. What is delivered is, byte for byte, the stored result file: an upload goes on after a restart only for a file of
//     the same checksum, and each part is sent with its own checksum, which is signed.
//  4. Memory is flat: a part is read from the file as it is sent.
//  5. Nothing in a bucket is read, listed or deleted, and results stay here, whatever becomes of a delivery.
package bucket
