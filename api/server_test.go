package api

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServeReturnsWhenContextIsDone ends a server before it begins to accept: Serve returns each time.
func TestServeReturnsWhenContextIsDone(t *testing.T) {
	w := newTestServer(t, nil)
	over, end := context.WithCancel(t.Context())
	end()
	for range 20 {
		s, err := New(Config{}, Deps{Store: w.store, Coordinator: w.coord, FS: w.fs, Scratch: "data/scratch"})
		require.NoError(t, err)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, s.Serve(over, ln, time.Second))
	}
}
