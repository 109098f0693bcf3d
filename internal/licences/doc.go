// Package licences has the licence of this program and those of all that is linked into it or bundled into the
// dashboard. tools/licences writes the texts.
package licences
