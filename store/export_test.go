package store

// HashCheaply makes password hashes fast in a test store.
func HashCheaply(s *Store) { s.passwords = newPasswords(cheapCost) }
