package published

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	publishedEnv = "PROBITY_PUBLISHED" // set: the tests run
	// modulePath is where the module is published, in the domain that exists for tests (RFC 6761, section 6.5).
	modulePath = "forge.example/team/probity"
)

// version is another one in each run: the go command remembers what packages a version has.
var version = fmt.Sprintf("v1.2.3-test.%d", time.Now().UnixNano())

// TestModuleIsFetchedAndInstalled renames a copy of the module, publishes it in a module proxy of files, installs
// the program from there and imports the package.
func TestModuleIsFetchedAndInstalled(t *testing.T) {
	if os.Getenv(publishedEnv) == "" {
		t.Skip("it compiles all packages under another name, which takes minutes: make published")
	}
	copied, dir := copyOfSources(t), t.TempDir()
	run(t, copied, nil, "sh", "tools/module.sh", modulePath)
	require.NotContains(t, run(t, copied, nil, "go", "mod", "edit", "-print"), "replace")
	require.Empty(t, run(t, copied, nil, "go", "mod", "tidy", "-diff"))
	run(t, copied, nil, "go", "test", "-run", "^TestImportRules$", "./tests/house") // they know the new path
	proxy := publish(t, copied)

	env := []string{"GOBIN=" + dir, "GOFLAGS=-mod=mod", "GONOSUMDB=forge.example", "GONOPROXY=none",
		"GOPROXY=" + proxy + "," + goEnv(t, "GOPROXY"), "GOWORK=off"}
	run(t, dir, env, "go", "install", modulePath+"/cmd/probity@"+version)
	var said struct{ Version string }
	require.NoError(t, json.Unmarshal([]byte(run(t, dir, nil, filepath.Join(dir, "probity"), "version", "--json")),
		&said))
	require.Equal(t, version, said.Version)

	program := t.TempDir() // a module that imports the package
	require.NoError(t, os.WriteFile(filepath.Join(program, "main.go"), []byte(importer), 0o600))
	run(t, program, env, "go", "mod", "init", "importer.example")
	run(t, program, env, "go", "get", modulePath+"@"+version)
	run(t, program, env, "go", "mod", "tidy")
	require.Equal(t, "INVALID invalid_syntax\n", run(t, program, env, "go", "run", "."))
}

// importer needs no server: its resolver is not asked.
const importer = `package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"` + modulePath + `"
)

func main() {
	v, err := probity.New(probity.Config{Resolvers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := v.Verify(context.Background(), "not an address")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status, r.Reason)
	if err := v.Close(); err != nil {
		log.Fatal(err)
	}
}
`

// copyOfSources copies what Git knows of the module.
func copyOfSources(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "a copy")
	for file := range strings.Lines(run(t, root, nil, "git", "ls-files")) {
		file = strings.TrimSuffix(file, "\n")
		content, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		info, err := os.Stat(filepath.Join(root, file))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(to, file), content, info.Mode()))
	}
	return to
}

// publish puts the module in dir into a new module proxy, and returns its URL. The go command copies it into its cache
// of modules, from which it is removed at the end.
func publish(t *testing.T, dir string) string {
	t.Helper()
	proxy, cache := t.TempDir(), goEnv(t, "GOMODCACHE")
	to := filepath.Join(proxy, modulePath, "@v")
	require.NoError(t, os.MkdirAll(to, 0o700))
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info,
		version + ".mod": mod} {
		require.NoError(t, os.WriteFile(filepath.Join(to, name), content, 0o600))
	}
	packed, err := os.Create(filepath.Join(to, version+".zip"))
	require.NoError(t, err)
	require.NoError(t, zip.CreateFromDir(packed, module.Version{Path: modulePath, Version: version}, dir))
	require.NoError(t, packed.Close())
	t.Cleanup(func() {
		for _, cached := range []string{"forge.example", filepath.Join("cache", "download", "forge.example")} {
			removeReadOnly(t, filepath.Join(cache, cached))
		}
	})
	return "file://" + proxy
}

// removeReadOnly removes a folder of the go command, which makes its folders read-only.
func removeReadOnly(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	require.NoError(t, os.RemoveAll(dir))
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(run(t, "", nil, "go", "env", name))
}

// run runs a command in dir that must succeed, and returns its output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	require.NoError(t, err, "%s %q: %s%s", name, args, out, errs.String())
	return string(out)
}
