package pipeline

import "sync"

// Pool keeps values whose memory is reused, across jobs (BenchmarkJob with JOB_BEFORE). A nil pool is always empty.
type Pool[T any] struct {
	pool sync.Pool
	// Reset drops the value's references and reports whether it is small enough to keep. Nil: nothing to do.
	Reset func(*T) bool
}

// Get returns a kept value, or a new one.
func (s *Pool[T]) Get() *T {
	if s != nil {
		if x, ok := s.pool.Get().(*T); ok {
			return x
		}
	}
	return new(T)
}

// Put returns a value that is not used any more.
func (s *Pool[T]) Put(x *T) {
	if s != nil && (s.Reset == nil || s.Reset(x)) {
		s.pool.Put(x)
	}
}
