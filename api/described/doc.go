// Package described reads from the API's description what the requests of each operation may contain: query
// parameters, members of a JSON body, parts of a form.
//
// Invariants:
//  1. The description is the only list of these names: the server refuses every other one.
//  2. A body of a media type that the server does not read is an error, so that the program does not start with such a
//     description.
package described
