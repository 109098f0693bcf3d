// Package house tests the project's own rules: which package may import which, how large packages and types may become,
// which words and statements the code does without, and that the tests and files that pages name exist.
package house
