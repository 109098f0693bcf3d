// Package published takes the part of a stranger who uses the module from where it is published.
package published
