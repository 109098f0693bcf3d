package store

import "time"

// HashCheaply makes the password hashes of a test store take no time.
func HashCheaply(s *Store) { s.accountCache.passwords = newPasswords(cheapCost) }

// DelayMerge lets settlements wait in the journal until the ledger is read.
func DelayMerge(s *Store) { s.journal.delay = time.Hour }
