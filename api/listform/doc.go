// Package listform reads the form of an upload: the options of a list that becomes a job, and its file.
//
// Invariants:
//  1. Parts come in any order; a part that is not described, or not acceptable, is refused with its name.
//  2. Only the parts that ReadingFields names change how the file is read.
package listform
