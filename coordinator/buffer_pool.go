package coordinator

import (
	"sync"

	"probity/coordinator/csvfile"
)

// bufferPool keeps values whose memory is reused, across jobs (BenchmarkJob with JOB_BEFORE). A nil pool is always empty.
type bufferPool[T any] struct {
	pool sync.Pool
	// clearForReuse drops the value's references and reports whether it is small enough to keep. Nil: nothing to do.
	clearForReuse func(*T) bool
}

func (s *bufferPool[T]) get() *T {
	if s != nil {
		if x, ok := s.pool.Get().(*T); ok {
			return x
		}
	}
	return new(T)
}

// put returns a value that is not used any more.
func (s *bufferPool[T]) put(x *T) {
	if s != nil && (s.clearForReuse == nil || s.clearForReuse(x)) {
		s.pool.Put(x)
	}
}

// bufferPools are the pools of one coordinator.
type bufferPools struct {
	received bufferPool[receivedBlock]
	frames   bufferPool[splitFrame]
	pages    bufferPool[page]
	rows     bufferPool[rowBlock]
	counts   bufferPool[countBuffer]
	buffers  bufferPool[buffer]
}

func (s *bufferPools) init() {
	s.received.clearForReuse = (*receivedBlock).clearForReuse
	s.frames.clearForReuse = (*splitFrame).clearForReuse
	s.pages.clearForReuse = (*page).clearForReuse
	s.buffers.clearForReuse = func(b *buffer) bool { return cap(b.b) <= maxPooledBytes }
}

// maxPooledBytes bounds a buffer that is kept: two blocks of usual rows. Blocks with rows of megabytes are not kept.
const maxPooledBytes = 2 * csvfile.BlockBytes

// buffer is scratch memory of one goroutine.
type buffer struct{ b []byte }

// resize returns n bytes of the buffer with any content.
func (b *buffer) resize(n int) []byte {
	if cap(b.b) < n {
		b.b = make([]byte, n)
	}
	b.b = b.b[:n]
	return b.b
}
