package diskroom

import (
	"context"
	"errors"
	"log/slog"
)

// quiet is a log's handler without records whose error is a FullError.
type quiet struct{ slog.Handler }

// Quiet leaves out of a log what a disk without room made fail: that is told once, by the room or by the error with
// which a command ends, and not by each writer again.
func Quiet(h slog.Handler) slog.Handler { return quiet{h} }

// WithAttrs leaves the same records out.
func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a)} }

// WithGroup leaves the same records out.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

// Handle passes a record on, unless its error is a FullError.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	full := false
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		full = is && errors.As(err, new(*FullError))
		return !full
	})
	if full {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}
