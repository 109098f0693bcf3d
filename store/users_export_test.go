package store

import "time"

// HashCheaply makes the password hashes of a test store take no time.
func HashCheaply(s *Store) { s.live.passwords = newPasswords(cheap) }

// FoldLater lets settlements wait in the journal until somebody looks.
func FoldLater(s *Store) { s.journal.delay = time.Hour }
