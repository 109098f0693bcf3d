package store

import "probity/store/passwords"

// HashCheaply makes password hashes fast in a test store.
func HashCheaply(s *Store) {
	s.passwords = passwords.New(passwords.Cost{Time: 1, MemoryKiB: 64, Threads: 1})
}
