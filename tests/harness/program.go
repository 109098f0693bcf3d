package harness

import (
	"bytes"
	"cmp"
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
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
)

// programEnv is set for the tests: the folder of the program. A test that starts its own binary again gives it on.
const programEnv = "PROBITY_TEST_PROGRAM"

// FaultyDiskProgram is the program on a disk with faults (FaultyDisk). FaultyDiskEnv names the socket for commands to
// the disk.
const (
	FaultyDiskProgram = "probity-faulty-disk"
	FaultyDiskEnv     = "FAULTY_DISK"
)

// Main runs the tests of a package with the program on the path, and returns the exit status. The program is built
// once, without the race detector.
func Main(m *testing.M) int {
	return runWith(m, func(module, dir string) error {
		return runGo("build", "-o", filepath.Join(dir, "probity"), module+"/cmd/probity")
	})
}

// MainWithFaultyDisk is Main with FaultyDiskProgram on the path, too. Both programs are the tests of the command, which
// testscript.Main makes the program that its file is named after. They have the race detector if the tests have it.
func MainWithFaultyDisk(m *testing.M) int {
	return runWith(m, func(module, dir string) error {
		program := filepath.Join(dir, "probity")
		args := []string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", program}
		if detector.On {
			args = append(args, "-race")
		}
		if err := runGo(append(args, module+"/cmd/probity")...); err != nil {
			return err
		}
		return os.Link(program, filepath.Join(dir, FaultyDiskProgram))
	})
}

// runWith runs tests with a folder on the path into which build has built programs of a module.
func runWith(m *testing.M, build func(module, dir string) error) int {
	if os.Getenv(programEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "probity-program")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = buildInto(dir, build)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// buildInto builds programs into a folder, puts that on the path, and sets sources.
func buildInto(dir string, build func(module, dir string) error) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this test does not know its module: run it with go test")
	}
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	sources = filepath.Dir(strings.TrimSpace(string(file)))
	if err := build(info.Main.Path, dir); err != nil {
		return err
	}
	if err := os.Setenv(programEnv, dir); err != nil {
		return err
	}
	return os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

func runGo(args ...string) error {
	words, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, words)
	}
	return nil
}

// sources is the root of the module whose program was built, and empty if the program is this binary.
var sources string

// readSources reads the folders of the program's sources. go test repeats an earlier result unless something has
// changed that the test itself has read, and of the program that Main builds it knows nothing.
var readSources = sync.OnceValue(func() error {
	if sources == "" {
		return nil
	}
	return filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != sources && (strings.HasPrefix(name, ".") || name == "node_modules" ||
			name == "bin" || name == "docs") {
			return filepath.SkipDir
		}
		return nil
	})
})

// DependOnSources makes go test run the test again when the program's sources have changed. Command does it too: a test
// calls this that starts its own binary again, which calls Command.
func DependOnSources(t *testing.T) {
	t.Helper()
	require.NoError(t, readSources())
}

// Command is the program as a process of its own, without PROBITY_* variables. TestMain has put it on the path: Main,
// MainWithFaultyDisk, or testscript.Main. It does not inherit that SIGHUP is ignored, as nohup has it: a signal that
// this process catches is not ignored in its children.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // which drops it
	}
	c := exec.CommandContext(ctx, "probity", args...)
	c.Err = cmp.Or(c.Err, readSources())
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PROBITY_") {
			c.Env = append(c.Env, v)
		}
	}
	return c
}

// CommandNamed is Command for another program on the path.
func CommandNamed(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := Command(ctx, args...)
	path, err := exec.LookPath(program)
	c.Path, c.Args[0], c.Err = path, program, cmp.Or(c.Err, err)
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
