// Package basis is what the score of a verdict depends on besides its reason, flags and time, in the five bytes in
// which a verdict keeps it. It is data only: the engine fills it from evidence and turns it into points.
//
// Invariants:
//
//  1. What Put writes, Read returns unchanged; other bytes are refused.
//  2. The zero value knows nothing and is all zero bytes.
//  3. A larger Check, Grounds or Tally proves more; of two known distances the smaller one does.
package basis
