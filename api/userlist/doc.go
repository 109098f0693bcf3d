// Package userlist finds, sorts and pages the accounts that operators see.
//
// Invariants:
//
//  1. Pages that follow each other contain each account once, also if accounts are added meanwhile.
//  2. A cursor has the id of an account, never its e-mail address: it is in URLs, which are logged on their way.
//  3. A cursor is used only with the sort that it came with.
package userlist
