// Package console is what all commands share: their input and output, the mark of wrong usage, and how rows, times and
// counts are written.
//
// Invariants:
//  1. Results go to IO.Out, everything else to IO.Err.
//  2. An error is ErrUsage exactly if the command line itself is wrong.
//  3. PrintRows lets no control character of a cell into a table, and writes JSON without HTML escapes.
package console
