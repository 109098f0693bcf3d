package console

import (
	"context"
	"io"
	"sync"
)

// InputUntil reads from r until ctx ends, even if a Read of r is blocked then.
func InputUntil(ctx context.Context, r io.Reader) io.Reader { return &input{ctx: ctx, source: r} }

// input copies its source to a pipe, which can be closed while a Read of the source is blocked. It starts at the first
// Read: a command that does not read leaves the input to the next one, in the loop of a shell for example.
type input struct {
	ctx    context.Context
	source io.Reader
	start  sync.Once
	pipe   *io.PipeReader
}

func (i *input) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	i.start.Do(func() {
		r, w := io.Pipe()
		i.pipe = r
		go func() {
			_, err := io.Copy(w, i.source)
			_ = w.CloseWithError(err) // always nil
		}()
		context.AfterFunc(i.ctx, func() { _ = w.CloseWithError(i.ctx.Err()) })
	})
	return i.pipe.Read(p)
}
