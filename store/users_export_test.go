package store

// HashCheaply makes the password hashes of a test store take no time.
func HashCheaply(s *Store) { s.live.passwords = newPasswords(cheap) }

// Settling is how many settlements wait for a commit to be durable.
func Settling(s *Store) int {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	return s.group.settling
}
