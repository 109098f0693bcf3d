// Package apidocs makes what describes the API to customers from its description in OpenAPI: the part of it that is for
// them, and the page that draws it.
//
// Invariants:
//  1. Paths for admins and of the dashboard are not in it, and no component that only they use is.
//  2. The page's Content-Security-Policy allows nothing but our own files, and no script in the page itself.
package apidocs
