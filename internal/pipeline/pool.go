package pipeline

import "sync"

// Pool keeps values whose memory is reused, across jobs (BenchmarkJob with JOB_BEFORE). A nil pool is always empty.
type Pool[T any] struct {
	pool sync.Pool
	// Reset drops the value's references and reports whether it is small enough to keep. Nil: nothing to do.
	Reset func(*T) bool
}

// Get returns a kept value, or a new one.
func (p *Pool[T]) Get() *T {
	if p != nil {
		if x, ok := p.pool.Get().(*T); ok {
			return x
		}
	}
	return new(T)
}

// Put returns a value that is not used any more.
func (p *Pool[T]) Put(x *T) {
	if p != nil && (p.Reset == nil || p.Reset(x)) {
		p.pool.Put(x)
	}
}
