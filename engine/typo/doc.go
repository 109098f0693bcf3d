// Package typo tells which major provider's domain a mistyped domain was meant to be. It compares strings only.
//
// Invariants:
//
//  1. A major domain, and a domain that the caller knows, gets no suggestion.
//  2. A suggestion is a major domain, and one typo away in its name, in what follows the name, or in both.
//  3. A domain of another company is no typo: short names and names that are words are compared more strictly.
//  4. Suggest does not allocate, and ends for any string.
package typo
