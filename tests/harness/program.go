package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// programEnv is set for the tests: the folder of the program. A test that starts its own binary again gives it on.
const programEnv = "PROBITY_TEST_PROGRAM"

// Main runs the tests of a package with the program on the path, and returns the exit status. The program is built
// once, without the race detector. Tests of processes call DependOnSources too.
func Main(m *testing.M) int {
	if os.Getenv(programEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "probity-program")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds the program into a folder and puts that on the path.
func build(dir string) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this test does not know its module: run it with go test")
	}
	words, err := exec.Command("go", "build", "-o", filepath.Join(dir, "probity"),
		info.Main.Path+"/cmd/probity").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w: %s", err, words)
	}
	if err := os.Setenv(programEnv, dir); err != nil {
		return err
	}
	return os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// DependOnSources reads the folders of the program's sources, of the module at root. go test repeats an earlier result
// unless something has changed that the test itself has read, and of the program that Main builds it knows nothing.
func DependOnSources(t *testing.T, root string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin" ||
			name == "docs") {
			return filepath.SkipDir
		}
		return nil
	}))
}

// Command is the program as a process of its own, without PROBITY_* variables. TestMain has put it on the path: Main,
// or testscript.Main. It does not inherit that SIGHUP is ignored, as nohup has it: a signal that this process catches
// is not ignored in its children.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // which drops it
	}
	c := exec.CommandContext(ctx, "probity", args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PROBITY_") {
			c.Env = append(c.Env, v)
		}
	}
	return c
}

// WriteOutput runs a command and writes its standard output into a file.
func WriteOutput(ctx context.Context, t *testing.T, file string, args ...string) {
	t.Helper()
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	var words bytes.Buffer
	c := Command(ctx, args...)
	c.Stdout, c.Stderr = f, &words
	require.NoError(t, c.Run(), "%v: %s", args, &words)
	require.NoError(t, f.Close())
}
