package coordinator

import (
	"probity/coordinator/chunks"
	"probity/internal/pipeline"
)

// bufferPools are the pools of one coordinator.
type bufferPools struct {
	frames  pipeline.Pool[splitFrame]
	rows    pipeline.Pool[chunks.Block]
	buffers pipeline.Pool[buffer]
}

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
