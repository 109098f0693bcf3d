// Package buildinfo says which build of the program runs.
//
// Invariants:
//  1. Two builds of different commits have different versions wherever Git or the file VERSION can tell.
//  2. A build from a checkout and one from an archive of the same commit have the same version.
//  3. What is not known is empty; only the version is always there.
package buildinfo
