package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// morePipe is more than a pipe holds: once it is written, the process at the other end reads.
const morePipe = 200_000

// TestSignalEndsACommandThatWaitsForInput: each signal ends it in order and with one line, although standard input
// stays open.
func TestSignalEndsACommandThatWaitsForInput(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes processes; run without -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	result := filepath.Join(dir, "result.csv")
	const list, replies = "ann@shop.example\n", "rcpt\t\t550 5.1.1 no such user\n"
	const nothingKept = "; nothing is kept of a list on standard input, give it as a file to go on later"
	for _, row := range []struct{ args, line, more string }{
		{"verify - --dns 127.0.0.1:1 --no-smtp", list, ""},
		{"verify - -o " + result + " --dns 127.0.0.1:1 --no-smtp", list, nothingKept},
		{"plan - --dns 127.0.0.1:1", list, ""},
		{"explain reply", replies, ""},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
			command := harness.Command(ctx, strings.Fields(row.args)...)
			command.Env = append(command.Environ(), "TMPDIR="+dir)
			in, err := command.StdinPipe()
			require.NoError(t, err)
			var words bytes.Buffer
			command.Stderr = &words
			require.NoError(t, command.Start())
			_, err = io.WriteString(in, strings.Repeat(row.line, morePipe/len(row.line)))
			require.NoError(t, err)
			require.NoError(t, command.Process.Signal(signal))
			err = command.Wait()
			require.Equal(t, 1, command.ProcessState.ExitCode(), "%s, %v: %v", row.args, signal, err)
			require.Equal(t, "probity: interrupted"+row.more+"\n", words.String(), "%s, %v", row.args, signal)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "%s, %v", row.args, signal)
		}
	}
}

// TestSecondSignalEndsTheProcess: a command that is blocked in a file, here a pipe with a name, cannot end in order. A
// second SIGTERM or SIGINT ends it; a second SIGHUP does not, as a terminal that closes sends several.
func TestSecondSignalEndsTheProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes processes; run without -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		list := filepath.Join(t.TempDir(), "list.csv")
		require.NoError(t, syscall.Mkfifo(list, 0o600))
		command := harness.Command(ctx, "plan", list, "--dns", "127.0.0.1:1")
		command.Env = append(command.Environ(), "TMPDIR="+t.TempDir())
		require.NoError(t, command.Start())
		pipe, err := os.OpenFile(list, os.O_WRONLY, 0) // waits until the command opens it
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		for range 3 {
			require.NoError(t, command.Process.Signal(syscall.SIGHUP))
		}
		err = signalUntilEnd(t, command.Process, second, ended)
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, second, exit.Sys().(syscall.WaitStatus).Signal())
		require.NoError(t, pipe.Close())
	}
}

// signalUntilEnd sends a signal again and again, because the process handles the first one at a time of its own.
func signalUntilEnd(t *testing.T, p *os.Process, s syscall.Signal, ended <-chan error) error {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-again.C:
			if err := p.Signal(s); !errors.Is(err, os.ErrProcessDone) {
				require.NoError(t, err)
			}
		}
	}
}
