package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReleaseTwiceIsTheSame makes a release of one platform twice, compares the bytes, and looks into what was made.
func TestReleaseTwiceIsTheSame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("packages are made and looked into on Linux")
	}
	only := "linux/" + runtime.GOARCH
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	for _, out := range []string{first, second} {
		if err := run("../..", out, only); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, e := range entries {
		a, errA := os.ReadFile(filepath.Join(first, e.Name()))
		b, errB := os.ReadFile(filepath.Join(second, e.Name()))
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%s differs from one run to the next", e.Name())
		}
		made[path.Ext(e.Name())] = filepath.Join(first, e.Name())
	}
	if len(made) != 5 {
		t.Fatalf("an archive, two packages, a list of parts and checksums were expected: %v", made)
	}
	checkSums(t, first)
	checkArchive(t, made[".gz"])
	checkParts(t, made[".json"])
	checkDeb(t, made[".deb"])
}

func checkSums(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	c.Dir = dir
	if said, err := c.CombinedOutput(); err != nil || strings.Count(string(said), ": OK") != 4 {
		t.Fatalf("%v: %s", err, said)
	}
}

// checkArchive starts the program of an archive.
func checkArchive(t *testing.T, from string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "probity")
	found := map[string]bool{}
	for files := tar.NewReader(unpacked); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(head.Name, "/")
		found[name] = true
		if name != "probity" {
			continue
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"LICENSE", "NOTICE", "LICENCES.txt", "README.md", "completions/probity.bash",
		"docs/operating.md", "deploy/systemd/probity.service"} {
		if !found[name] {
			t.Errorf("the archive lacks %s", name)
		}
	}
	said, err := exec.Command(program, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "(commit ") {
		t.Fatalf("%v: %s", err, said)
	}
}

func checkParts(t *testing.T, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range document.Components {
		names[c.Name] = c.Version != "" && strings.HasPrefix(c.Purl, "pkg:golang/")
	}
	if document.BOMFormat != "CycloneDX" || !names["std"] || !names["github.com/miekg/dns"] || len(names) < 50 {
		t.Fatalf("%s", content)
	}
}

// checkDeb unpacks a package with dpkg-deb, if it is there.
func checkDeb(t *testing.T, from string) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("the package is not looked into: dpkg-deb is not installed")
		return
	}
	to := t.TempDir()
	if said, err := exec.Command("dpkg-deb", "--raw-extract", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, name := range []string{"usr/bin/probity", "usr/lib/systemd/system/probity.service", "etc/probity/serve.toml",
		"usr/lib/sysusers.d/probity.conf", "usr/lib/tmpfiles.d/probity.conf", "usr/share/doc/probity/LICENCES.txt",
		"usr/share/bash-completion/completions/probity", "DEBIAN/postinst", "DEBIAN/prerm", "DEBIAN/postrm"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	conffiles, err := os.ReadFile(filepath.Join(to, "DEBIAN/conffiles"))
	if err != nil || !strings.Contains(string(conffiles), "/etc/probity/serve.toml\n") {
		t.Errorf("%v: %s", err, conffiles)
	}
	units, err := filepath.Glob(filepath.Join(to, "usr/lib/systemd/system/*"))
	if err != nil || len(units) != 5 {
		t.Fatal(err, units)
	}
	for _, unit := range units {
		content, err := os.ReadFile(unit)
		if err != nil || strings.Contains(string(content), byHandPath) {
			t.Errorf("%v: %s", err, content)
		}
	}
}
