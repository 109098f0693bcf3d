// Package admin has the operator's commands on accounts, keys, credits, suppressions, erasures, backups and the audit
// log. Each is a request to the admin API: of a running server, or of this process on the data folder of a stopped one
// (api.Local).
//
// Invariants:
//  1. A command has the same output and the same errors on a data folder and through a server.
//  2. A password, a key or a link is printed once, alone on standard output; the admin's own key comes from the
//     environment, and is never sent on after a redirect.
//  3. A store that another process has open is not touched; a misspelled folder does not become an empty store.
//  4. A backup or a restored folder is complete, or not there.
//  5. What a command changed is in the audit log, under the name of the system user or of the key's owner.
package admin
