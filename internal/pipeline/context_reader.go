package pipeline

import (
	"context"
	"io"
)

// ContextReader fails once its context has ended.
type ContextReader struct {
	Context context.Context
	io.Reader
}

func (r ContextReader) Read(p []byte) (int, error) {
	if err := r.Context.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
