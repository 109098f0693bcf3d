package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/sassoftware/go-rpmutils"
)

// TestReleaseTwiceIsTheSame makes a release twice, compares the bytes, and looks into what was made.
func TestReleaseTwiceIsTheSame(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("packages are made and looked into on Linux")
	}
	commit, err := output("../..", "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	for _, out := range []string{first, second} {
		if err := run("../..", out, ""); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 12 {
		t.Errorf("4 archives, 2 images, 4 packages, a list of parts and checksums were expected: %v", entries)
	}
	for _, e := range entries {
		a, errA := os.ReadFile(filepath.Join(first, e.Name()))
		b, errB := os.ReadFile(filepath.Join(second, e.Name()))
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%s differs from one run to the next", e.Name())
		}
	}
	checkSums(t, first, len(entries)-1)
	checkParts(t, madeAs(t, first, "*.cdx.json"))
	for _, p := range platforms {
		checkArchive(t, p, strings.TrimSpace(string(commit)), madeAs(t, first, "*_"+p.system+"_"+p.processor+".tar.gz"))
	}
	for _, processor := range []string{"amd64", "arm64"} {
		checkImage(t, processor, madeAs(t, first, "*_linux_"+processor+"_image.tar"))
		checkDeb(t, madeAs(t, first, "*_"+processor+".deb"))
	}
	for _, processor := range []string{"x86_64", "aarch64"} {
		checkRpm(t, madeAs(t, first, "*."+processor+".rpm"))
	}
}

// madeAs returns the one file of a name.
func madeAs(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v %v", pattern, files, err)
	}
	return files[0]
}

func checkSums(t *testing.T, dir string, files int) {
	t.Helper()
	c := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	c.Dir = dir
	if said, err := c.CombinedOutput(); err != nil || strings.Count(string(said), ": OK") != files {
		t.Fatalf("%v: %s", err, said)
	}
}

// unpacked returns the content of each file of an archive, by its path.
func unpacked(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for files := tar.NewReader(from); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		found[head.Name] = content
	}
}

// checkArchive looks for what an archive must have, and at its program: for which platform it is and, on this one, what
// it says.
func checkArchive(t *testing.T, p platform, commit, from string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	found := unpacked(t, z)
	folder := strings.TrimSuffix(filepath.Base(from), ".tar.gz")
	for _, name := range []string{"LICENSE", "NOTICE", "LICENCES.txt", "README.md", "completions/probity.bash",
		"man/probity.1", "man/probity-certs-fleet.1", "docs/operating.md", "deploy/systemd/probity.service"} {
		if len(found[folder+"/"+name]) == 0 {
			t.Errorf("%s lacks %s", from, name)
		}
	}
	program := found[folder+"/probity"]
	checkPlatform(t, p, program)
	version := strings.Split(folder, "_")[1]
	// From the commit the program computes its version if it has no tag.
	if !bytes.Contains(program, []byte(commit)) {
		t.Errorf("the program of %s does not know its commit, %s", from, commit)
	}
	if p != (platform{runtime.GOOS, runtime.GOARCH}) {
		return
	}
	at := filepath.Join(t.TempDir(), "probity")
	if err := os.WriteFile(at, program, 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(at, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "probity "+version+" (commit ") {
		t.Fatalf("%v: %s", err, said)
	}
}

// checkPlatform reads a program's header. On Linux a program needs no library of the system.
func checkPlatform(t *testing.T, p platform, program []byte) {
	t.Helper()
	if p.system == "darwin" {
		f, err := macho.NewFile(bytes.NewReader(program))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[p.processor]
		if f.Type != macho.TypeExec || f.Cpu != want {
			t.Errorf("%v: %v", p, f.FileHeader)
		}
		return
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[p.processor]
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) > 0 || f.Machine != want {
		t.Errorf("%v: %v, libraries %v, %v", p, f.FileHeader, libraries, err)
	}
}

// checkImage reads an image, compares its configuration with deploy/Containerfile and, as root and on its own
// processor, starts its program in its files as its user.
func checkImage(t *testing.T, processor, from string) {
	t.Helper()
	image, err := tarball.ImageFromPath(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	checkImageConfig(t, processor, config)
	root := t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", root)
	unpack.Stdin = mutate.Extract(image)
	if said, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, name := range []string{"/usr/share/doc/probity/LICENSE", "/usr/share/doc/probity/NOTICE",
		"/usr/share/doc/probity/LICENCES.txt", "/etc/ssl/certs/ca-certificates.crt"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if processor != runtime.GOARCH || os.Getuid() != 0 {
		t.Logf("the image for %s is not started: that needs root and its processor", processor)
		return
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	// An engine gives each container a configuration of names.
	if err := os.WriteFile(filepath.Join(root, "etc/resolv.conf"), []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := config.Config
	started := strings.Join(slices.Concat(c.Entrypoint, c.Cmd), " ")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec", startImage,
		"sh", root, c.User, started, strings.Join(c.Healthcheck.Test[1:], " "))
	start.Dir, start.Env = root, append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, c.Env...)
	if said, err := start.CombinedOutput(); err != nil {
		t.Errorf("%s, as %s: %v: %s", started, c.User, err, said)
	}
	if _, err := os.Stat(filepath.Join(root, imageData, "state")); err != nil {
		t.Errorf("its user did not write to its data folder: %v", err)
	}
}

// startImage starts a command in the files of an image as its user, in a network without a way out, waits until the
// command that checks its health is content, and interrupts it. Arguments: folder, user, command, check of health.
const startImage = `
ip link set lo up
chroot --userspec="$2" "$1" $3 &
until chroot --userspec="$2" "$1" $4; do
	kill -0 $!
	sleep 0.2
done
kill -TERM $!
wait $!
`

func checkImageConfig(t *testing.T, processor string, config *v1.ConfigFile) {
	t.Helper()
	recipe, err := os.ReadFile("../../deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	user, _, _ := strings.Cut(c.User, ":")
	if config.Architecture != processor || config.OS != "linux" || user == "" || user == "0" {
		t.Errorf("%+v", config)
	}
	quoted := func(words []string) string { return `["` + strings.Join(words, `", "`) + `"]` }
	h := c.Healthcheck
	for _, line := range []string{"USER " + c.User, "ENV " + strings.Join(c.Env, " "), "WORKDIR " + c.WorkingDir,
		"ENTRYPOINT " + quoted(c.Entrypoint), "CMD " + quoted(c.Cmd), "HEALTHCHECK --interval=" + h.Interval.String() +
			" --timeout=" + h.Timeout.String() + " --start-period=" + h.StartPeriod.String() + " --retries=3 CMD " +
			quoted(h.Test[1:])} {
		if !strings.Contains(string(recipe), "\n"+line+"\n") && !strings.HasSuffix(string(recipe), "\n"+line) {
			t.Errorf("deploy/Containerfile lacks %s", line)
		}
	}
	for _, label := range []string{"title", "licenses", "version", "revision", "created"} {
		if c.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("the image has no label %s: %v", label, c.Labels)
		}
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
	checkPackaged(t, to)
	for _, name := range []string{"usr/share/zsh/vendor-completions/_probity", "DEBIAN/postinst", "DEBIAN/prerm",
		"DEBIAN/postrm"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	conffiles, err := os.ReadFile(filepath.Join(to, "DEBIAN/conffiles"))
	if err != nil || !strings.Contains(string(conffiles), "/etc/probity/serve.toml\n") {
		t.Errorf("%v: %s", err, conffiles)
	}
}

// checkRpm unpacks a package for Red Hat's systems.
func checkRpm(t *testing.T, from string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := packed.ExpandPayload(to); err != nil {
		t.Fatal(err)
	}
	checkPackaged(t, to)
	if _, err := os.Stat(filepath.Join(to, "usr/share/zsh/site-functions/_probity")); err != nil {
		t.Error(err)
	}
	for _, script := range []int{rpmutils.POSTIN, rpmutils.PREUN, rpmutils.POSTUN} {
		if text, err := packed.Header.GetString(script); err != nil || text == "" {
			t.Errorf("%s, script %d: %v", from, script, err)
		}
	}
}

// checkPackaged looks for what a package must put where, below a folder.
func checkPackaged(t *testing.T, to string) {
	t.Helper()
	for _, name := range []string{"usr/bin/probity", "usr/lib/systemd/system/probity.service", "etc/probity/serve.toml",
		"usr/lib/sysusers.d/probity.conf", "usr/lib/tmpfiles.d/probity.conf", "usr/share/doc/probity/LICENSE",
		"usr/share/doc/probity/NOTICE", "usr/share/doc/probity/LICENCES.txt",
		"usr/share/bash-completion/completions/probity", "usr/share/fish/vendor_completions.d/probity.fish",
		"usr/share/man/man1/probity.1.gz", "usr/share/man/man1/probity-serve.1.gz"} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
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
