package coordinator

import (
	"sync"

	"probity/coordinator/csvfile"
)

// spare is values of which the next user wants only the memory, whatever list it is of (BenchmarkJob with JOB_BEFORE). A nil one has none.
type spare[T any] struct {
	pool sync.Pool
	// clean lets go of what the memory refers to, and reports that it is not too much to be kept. Nil: there is nothing to do.
	clean func(*T) bool
}

func (s *spare[T]) get() *T {
	if s != nil {
		if x, ok := s.pool.Get().(*T); ok {
			return x
		}
	}
	return new(T)
}

// put takes back a value that is not used any more.
func (s *spare[T]) put(x *T) {
	if s != nil && (s.clean == nil || s.clean(x)) {
		s.pool.Put(x)
	}
}

// spares is the memory that the work of a coordinator uses again.
type spares struct {
	received spare[received]
	frames   spare[splitFrame]
	pages    spare[page]
	rows     spare[rowBlock]
	counts   spare[countBuffer]
	buffers  spare[buffer]
}

func (s *spares) init() {
	s.received.clean = (*received).clean
	s.frames.clean = (*splitFrame).clean
	s.pages.clean = (*page).clean
	s.buffers.clean = func(b *buffer) bool { return cap(b.b) <= keptBytes }
}

// keptBytes bounds a buffer that is kept: a block of usual rows has room in it twice, one of rows of megabytes has not.
const keptBytes = 2 * csvfile.BlockBytes

// buffer is bytes that one goroutine needs for a moment.
type buffer struct{ b []byte }

// grown is n bytes of a buffer, whatever they hold.
func (b *buffer) grown(n int) []byte {
	if cap(b.b) < n {
		b.b = make([]byte, n)
	}
	b.b = b.b[:n]
	return b.b
}
