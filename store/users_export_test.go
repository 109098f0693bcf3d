package store

// HashCheaply makes the password hashes of a test store take no time.
func HashCheaply(s *Store) { s.live.passwords = newPasswords(cheap) }

// Settling is how many settlements wait for a commit to be durable.
func Settling(s *Store) int { return s.group.size() }
