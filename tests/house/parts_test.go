package house_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// startParts runs tools/parts.sh with targets that are cases of a shell script, and returns the script's output. QUIET
// is a second.
func startParts(t *testing.T, cases string, parts ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	maker := filepath.Join(t.TempDir(), "make")
	require.NoError(t, os.WriteFile(maker, []byte("#!/bin/sh\n[ \"$1\" = --no-print-directory ] || exit 9\ncase $2 in\n"+cases+"\nesac\n"), 0o700))
	script := exec.CommandContext(t.Context(), "sh", append([]string{"tools/parts.sh"}, parts...)...)
	script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	script.Env = append(os.Environ(), "MAKE="+maker, "QUIET=1", "TMPDIR="+t.TempDir())
	out, err := script.StdoutPipe()
	require.NoError(t, err)
	script.Stderr = script.Stdout
	require.NoError(t, script.Start())
	return script, bufio.NewReader(out)
}

// readUntil returns the lines up to one that has the words.
func readUntil(t *testing.T, out *bufio.Reader, words string) string {
	t.Helper()
	var text strings.Builder
	for {
		line, err := out.ReadString('\n')
		text.WriteString(line)
		require.NoError(t, err, text.String())
		if strings.Contains(line, words) {
			return text.String()
		}
	}
}

// TestPartsGoOnAfterAFailure: all parts run, what they print is whole, and the end names what failed and what became of
// each. While a part runs there are lines of its packages, and one of the silence.
func TestPartsGoOnAfterAFailure(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	script, out := startParts(t, `build) echo built ;;
bad) printf -- '=== RUN   TestX\n--- FAIL: TestX (0.01s)\nFAIL\nFAIL\tprobity/x\t0.2s\n'; exit 2 ;;
slow) printf '=== RUN   TestY\n--- PASS: TestY (0.01s)\nok  \tprobity/y\t0.1s\n'; read -r line <`+gate+`; printf 'ok  \tprobity/z\t0.1s\n' ;;
last) printf 'ok  \tprobity/w\t0.3s\n' ;;`, "build", "bad", "slow", "last")
	text := readUntil(t, out, "slow: ok  \tprobity/y")
	text += readUntil(t, out, " slow runs, no package has ended for 1 s")
	require.NotContains(t, text, "probity/z")
	require.NoError(t, os.WriteFile(gate, []byte("go on\n"), 0o600))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Error(t, script.Wait())
	require.Equal(t, 1, script.ProcessState.ExitCode())
	text += string(rest)
	require.Contains(t, text, "=== RUN   TestY\n--- PASS: TestY (0.01s)\nok  \tprobity/y\t0.1s\nok  \tprobity/z\t0.1s\n", "whole, in its order")
	require.Equal(t, 1, strings.Count(text, "\nok  \tprobity/y"), "a line of a runner is printed once as it was")
	_, failures, found := strings.Cut(text, "\n=== what failed\n")
	require.True(t, found, text)
	require.Equal(t, "--- FAIL: TestX (0.01s)\nFAIL\tprobity/x\t0.2s\n\n"+
		"make build       passed\nmake bad         failed\nmake slow        passed\nmake last        passed\n",
		failures)
}

// TestPartsAreNotRunWithoutTheFirst: where nothing can be built there is nothing to test, and the end says so.
func TestPartsAreNotRunWithoutTheFirst(t *testing.T) {
	script, out := startParts(t, "build) echo 'no compiler'; exit 2 ;;\n*) exit 0 ;;", "build", "one", "two")
	text, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Error(t, script.Wait())
	require.Equal(t, 1, script.ProcessState.ExitCode())
	require.Contains(t, string(text), "no compiler\n")
	require.True(t, strings.HasSuffix(string(text),
		"\nmake build       failed\nmake one         not run\nmake two         not run\n"), "%s", text)
}

// TestPartsPass: the exit status is 0, and no part is named as one that failed.
func TestPartsPass(t *testing.T) {
	script, out := startParts(t, "*) echo done ;;", "build", "one")
	text, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, script.Wait(), "%s", text)
	require.NotContains(t, string(text), "what failed")
	require.True(t, strings.HasSuffix(string(text), "\nmake build       passed\nmake one         passed\n"), "%s", text)
}

// TestStoppedPartsAreNotRun: a signal ends what runs, and the end says what became of each part so far.
func TestStoppedPartsAreNotRun(t *testing.T) {
	held := filepath.Join(t.TempDir(), "held")
	require.NoError(t, syscall.Mkfifo(held, 0o600))
	script, out := startParts(t, "build) ;;\n*) exec 9>"+held+"; printf 'ok  \\tprobity/y\\t0.1s\\n'; sleep 600 ;;",
		"build", "one")
	part, err := os.Open(held) // waits until the part opens it
	require.NoError(t, err)
	readUntil(t, out, "one: ok")
	require.NoError(t, syscall.Kill(-script.Process.Pid, syscall.SIGTERM)) // as a terminal or a supervisor does
	text, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Error(t, script.Wait())
	require.Equal(t, 130, script.ProcessState.ExitCode())
	require.True(t, strings.HasSuffix(string(text), "\nmake build       passed\nmake one         not run\n"), "%s",
		text)
	_, err = io.ReadAll(part) // ends with the processes of the part
	require.NoError(t, errors.Join(err, part.Close()))
}
