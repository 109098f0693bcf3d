// Package jsontext appends values as JSON to a buffer, without an encoder.
//
// Invariants:
//  1. What is appended is a valid JSON value, whatever the bytes of a string are.
//  2. A string has the text that it had; only bytes that are not UTF-8 become U+FFFD.
//  3. Nothing is allocated but the growth of the buffer.
package jsontext
