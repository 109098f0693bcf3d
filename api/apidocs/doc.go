// Package apidocs makes the pages that describe the API from its description in OpenAPI: the reference, and the part of
// the description for customers.
//
// Invariants:
//  1. Paths for admins and of the dashboard are in neither, and no component that only they use is.
//  2. The reference says nothing that the description does not say.
//  3. The reference has no script, and its Content-Security-Policy allows nothing but its own style sheet.
package apidocs
