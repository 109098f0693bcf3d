// Package tarball packs folders into tar archives, for backups that are sent.
//
// Invariants:
//
//  1. A file is packed with the length that it had when it was opened.
package tarball
