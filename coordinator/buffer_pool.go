package coordinator

import (
	"sync"

	"probity/coordinator/csvfile"
)

// bufferPool is values of which the next user wants only the memory, whatever list it is of (BenchmarkJob with JOB_BEFORE). A nil one has none.
type bufferPool[T any] struct {
	pool sync.Pool
	// clearForReuse lets go of what the memory refers to, and reports that it is not too much to be kept. Nil: there is nothing to do.
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

// put takes back a value that is not used any more.
func (s *bufferPool[T]) put(x *T) {
	if s != nil && (s.clearForReuse == nil || s.clearForReuse(x)) {
		s.pool.Put(x)
	}
}

// bufferPools is the memory that the work of a coordinator uses again.
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

// maxPooledBytes bounds a buffer that is kept: a block of usual rows has room in it twice, one of rows of megabytes has not.
const maxPooledBytes = 2 * csvfile.BlockBytes

// buffer is bytes that one goroutine needs for a moment.
type buffer struct{ b []byte }

// resize is n bytes of a buffer, whatever they hold.
func (b *buffer) resize(n int) []byte {
	if cap(b.b) < n {
		b.b = make([]byte, n)
	}
	b.b = b.b[:n]
	return b.b
}
