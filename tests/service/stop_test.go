package service_test

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// loopbackServer is `probity serve` in a process of its own, without mail servers to ask.
type loopbackServer struct {
	process *exec.Cmd
	admin   string // address of its admin listener
	log     *bufio.Reader
}

var servingLine = regexp.MustCompile(`msg=serving public=\S+ admin=(\S+)`)

// startLoopbackServer returns once the server listens. The caller stops it.
func startLoopbackServer(ctx context.Context, t *testing.T, resolver string) *loopbackServer {
	t.Helper()
	s := &loopbackServer{process: harness.Command(ctx, "serve", "--data", filepath.Join(t.TempDir(), "data"),
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dns", resolver)}
	lines, err := s.process.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.process.Start())
	s.log = bufio.NewReader(lines)
	for s.admin == "" {
		line, err := s.log.ReadString('\n')
		require.NoError(t, err)
		if found := servingLine.FindStringSubmatch(line); found != nil {
			s.admin = found[1]
		}
	}
	return s
}

// stop ends the server as an operator does, and returns the rest of its log.
func (s *loopbackServer) stop(t *testing.T) string {
	t.Helper()
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(s.log)
	require.NoError(t, err)
	require.NoError(t, s.process.Wait())
	return string(rest)
}

// TestLogEndsWithTheSignal: the end of a server's log says which signal stopped it.
func TestLogEndsWithTheSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	end := startLoopbackServer(ctx, t, "127.0.0.1:1").stop(t)
	require.Regexp(t, `(?m)^time=\S+ level=INFO msg=stopping cause="terminated signal received"$`, end)
	require.Regexp(t, `level=INFO msg=stopped\n$`, end)
}
