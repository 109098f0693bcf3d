package store

import "time"

// HashCheaply makes password hashes fast in a test store.
func HashCheaply(s *Store) { s.passwords = newPasswords(cheapCost) }

// DelayMerge keeps settlements in the journal until the ledger is read.
func DelayMerge(s *Store) { s.journal.delay = time.Hour }
