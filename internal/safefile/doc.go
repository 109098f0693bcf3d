// Package safefile writes files and folders that are whole or absent, and keeps secrets to their owner. It uses the machine's own file
// system; internal/wholefile writes into that of a server.
//
// Invariants:
//  1. After Write, WriteFolder and ReplaceSecret, the file or folder is complete and durable under its name; if they
//     fail, what had that name before is as it was.
//  2. WriteNewSecrets writes all of its files or none, and never over an existing one.
//  3. A secret and a copied folder have no right for other users.
package safefile
