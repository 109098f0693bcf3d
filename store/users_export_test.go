package store

// HashCheaply makes the password hashes of a test store take no time.
func HashCheaply(s *Store) { s.live.passwords = newPasswords(cheap) }
