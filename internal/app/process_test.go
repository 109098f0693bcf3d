package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndIsLogged: a process that is told to stop logs why, and at last that it has stopped. One that fails returns its
// error.
func TestEndIsLogged(t *testing.T) {
	failure := errors.New("a disk failed")
	withoutTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	const log = "level=INFO msg=stopping cause=\"terminated signal received\"\nlevel=INFO msg=stopped\n"
	for _, c := range []struct {
		told error // the signal; nil for none
		fail error
		log  string
	}{
		{told: errors.New("terminated signal received"), log: log},
		{told: errors.New("terminated signal received"), fail: failure, log: log},
		{fail: failure},
	} {
		var lines bytes.Buffer
		p := Process{Log: slog.New(slog.NewTextHandler(&lines, withoutTime))}
		ctx, stop := context.WithCancelCause(t.Context())
		closed := false
		err := p.runToEnd(ctx, nil, func(context.Context) error {
			if c.told != nil {
				stop(c.told)
			}
			return c.fail
		}, func() error {
			closed = true
			return nil
		})
		stop(nil)
		require.ErrorIs(t, err, c.fail)
		require.True(t, closed)
		require.Equal(t, c.log, lines.String())
	}
}
