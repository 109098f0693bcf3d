package callback

import "sync"

// attemptSlots limits the attempts in progress: in total, by host and by account, and to one for each job.
type attemptSlots struct {
	total, perHost, perAccount int

	mu         sync.Mutex // guards all below
	inProgress map[string]bool
	load       map[string]int // attempts in progress by host and by account
}

// slotKeys are what an attempt is counted under: its account and its host.
type slotKeys [2]string

func (s *attemptSlots) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inProgress) >= s.total
}

func (s *attemptSlots) has(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inProgress[job]
}

// reserve counts an attempt for a job under its account and host, if all are below their limits.
func (s *attemptSlots) reserve(job string, keys slotKeys) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inProgress[job] || len(s.inProgress) >= s.total || s.load[keys[0]] >= s.perAccount ||
		s.load[keys[1]] >= s.perHost {
		return false
	}
	s.inProgress[job] = true
	for _, k := range keys {
		s.load[k]++
	}
	return true
}

func (s *attemptSlots) release(job string, keys slotKeys) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inProgress, job)
	for _, k := range keys {
		s.load[k]--
		if s.load[k] == 0 {
			delete(s.load, k)
		}
	}
}
