package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// TestLogEndsWithTheSignal: the end of a server's log says which signal stopped it.
func TestLogEndsWithTheSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := harness.Command(ctx, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dns", "127.0.0.1:1")
	lines, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	in := bufio.NewReader(lines)
	for line := ""; !strings.Contains(line, "msg=serving"); {
		line, err = in.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, server.Wait())
	require.Regexp(t, `(?m)^time=\S+ level=INFO msg=stopping cause="terminated signal received"$`, string(rest))
	require.Regexp(t, `level=INFO msg=stopped\n$`, string(rest))
}
