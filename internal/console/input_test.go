package console

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// readCounter counts the Reads of a reader.
type readCounter struct {
	io.Reader
	reads int
}

func (r *readCounter) Read(p []byte) (int, error) {
	r.reads++
	return r.Reader.Read(p)
}

func TestBlockedInputEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		source, feed := io.Pipe()
		in := InputUntil(ctx, source)
		type result struct {
			text []byte
			err  error
		}
		ended := make(chan result, 1)
		go func() {
			text, err := io.ReadAll(in)
			ended <- result{text, err}
		}()
		_, err := io.WriteString(feed, "first line\n")
		require.NoError(t, err)
		synctest.Wait()
		cancel()
		got := <-ended
		require.ErrorIs(t, got.err, context.Canceled)
		require.Equal(t, "first line\n", string(got.text))
		require.NoError(t, feed.Close()) // the source itself is blocked until then
	})
}

func TestInputIsReadToItsEndOrError(t *testing.T) {
	text, err := io.ReadAll(InputUntil(t.Context(), strings.NewReader("all of it")))
	require.NoError(t, err)
	require.Equal(t, "all of it", string(text))

	broken := errors.New("broken")
	source, feed := io.Pipe()
	require.NoError(t, feed.CloseWithError(broken))
	_, err = io.ReadAll(InputUntil(t.Context(), source))
	require.ErrorIs(t, err, broken)
}

// TestInputIsLeftToTheNextCommand: nothing is read ahead for a command that does not read, or that was interrupted
// before.
func TestInputIsLeftToTheNextCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	synctest.Test(t, func(t *testing.T) {
		source := &readCounter{Reader: strings.NewReader("for the next command\n")}
		InputUntil(t.Context(), source)
		synctest.Wait()
		require.Zero(t, source.reads)
		_, err := InputUntil(ctx, source).Read(make([]byte, 1))
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Zero(t, source.reads)
	})
}
