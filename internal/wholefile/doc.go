// Package wholefile writes files and folders that are whole or absent, and keeps secrets to their owner.
//
// Write and SyncDir write into the file system of a server, which tests replace; all else uses the machine's own.
//
// Invariants:
//  1. When Write returns nil, the content of the file is durable; its name is durable after SyncDir of its folder.
//  2. To replace a file of a server, Write to its name plus New, Rename, and SyncDir: a crash leaves the old file or
//     the new one.
//  3. After Replace, WriteFolder and ReplaceSecret, the file or folder is complete and durable under its name; if they
//     fail, what had that name before is as it was.
//  4. WriteNewSecrets writes all of its files or none, and never over an existing one.
//  5. A secret has no right for other users.
package wholefile
