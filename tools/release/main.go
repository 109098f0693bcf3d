// Command release makes what is published of a version, from the newest commit: archives for Linux and macOS, packages
// for Debian and Red Hat, container images, a list of what is in them (CycloneDX), and checksums. Two runs of one commit
// and Go release make the same bytes.
//
//	cd tools/release && go run . -root ../.. -out ../../bin/release
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// platform is an operating system and a processor, as Go names them.
type platform struct{ system, processor string }

// manPages is the folder of the manual pages.
const manPages = "man"

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	root := flag.String("root", "../..", "the project")
	out := flag.String("out", "../../bin/release", "an empty or new folder for the files")
	only := flag.String("only", "", "make only this one, such as linux/amd64")
	flag.Parse()
	if err := run(*root, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is a version that is being made.
type release struct {
	source  string // the exported project
	work    string // a folder for what is only needed meanwhile
	out     string
	version string
	commit  string
	date    time.Time // of the commit, and of all files
	shared  []file    // files of every archive and package
}

func run(root, out, only string) (err error) {
	work, err := os.MkdirTemp("", "probity-release-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	r := &release{source: filepath.Join(work, "source"), work: work, out: out}
	if err := r.export(root); err != nil {
		return err
	}
	if err := r.prepare(); err != nil {
		return err
	}
	for _, p := range platforms {
		if only != "" && only != p.system+"/"+p.processor {
			continue
		}
		if err := r.make(p); err != nil {
			return fmt.Errorf("%s/%s: %w", p.system, p.processor, err)
		}
	}
	if err := r.writeParts(); err != nil {
		return err
	}
	return r.writeChecksums()
}

// export copies the newest commit, with its version in it (.gitattributes), and the dashboard that was built.
func (r *release) export(root string) error {
	if err := os.MkdirAll(r.source, 0o755); err != nil {
		return err
	}
	packed := filepath.Join(r.work, "source.tar")
	if _, err := output(root, "git", "archive", "-o", packed, "HEAD"); err != nil {
		return err
	}
	if _, err := output(r.source, "tar", "-xf", packed); err != nil {
		return err
	}
	built := filepath.Join(root, "api", "web", "dist")
	if _, err := os.Stat(filepath.Join(built, "index.html")); err != nil {
		fmt.Fprintln(os.Stderr, "release: without the dashboard, which needs Node: make web")
		return nil
	}
	to := filepath.Join(r.source, "api", "web", "dist")
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(built))
}

// prepare builds the program for this machine, which says its version and writes files for all platforms.
func (r *release) prepare() error {
	program, err := r.build(platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	said, err := output(r.work, program, "version", "--json")
	if err != nil {
		return err
	}
	var build struct {
		Version, Commit string
		Date            time.Time
	}
	if err := json.Unmarshal(said, &build); err != nil {
		return fmt.Errorf("%s: %w", said, err)
	}
	r.version, r.commit, r.date = build.Version, build.Commit, build.Date
	for _, made := range []struct {
		path string
		args []string
	}{
		{"LICENCES.txt", []string{"licences"}}, {"completions/probity.bash", []string{"completion", "bash"}},
		{"completions/probity.zsh", []string{"completion", "zsh"}},
		{"completions/probity.fish", []string{"completion", "fish"}},
	} {
		content, err := output(r.work, program, made.args...)
		if err != nil {
			return err
		}
		r.shared = append(r.shared, file{made.path, content, 0o644})
	}
	if _, err := output(r.work, program, "man", manPages); err != nil {
		return err
	}
	return errors.Join(r.share(r.work, manPages),
		r.share(r.source, "LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "docs", "deploy"))
}

// share adds files, or all files of folders, to every archive and package.
func (r *release) share(root string, names ...string) error {
	for _, name := range names {
		files, err := filesIn(root, name)
		if err != nil {
			return err
		}
		r.shared = append(r.shared, files...)
	}
	return nil
}

// build compiles the program for a platform, without what differs from one machine to another.
func (r *release) build(p platform) (program string, err error) {
	program = filepath.Join(r.work, "probity-"+p.system+"-"+p.processor)
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", program,
		"./cmd/probity")
	c.Dir, c.Stderr = r.source, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.system, "GOARCH="+p.processor)
	return program, c.Run()
}

// make makes the archive, the packages and the image of a platform.
func (r *release) make(p platform) error {
	program, err := r.build(p)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("probity_%s_%s_%s", r.version, p.system, p.processor)
	files := append([]file{{"probity", content, 0o755}}, r.shared...)
	if err := writeArchive(filepath.Join(r.out, name+".tar.gz"), name, files, r.date); err != nil {
		return err
	}
	if p.system != "linux" {
		return nil
	}
	return errors.Join(r.writePackage(p, "deb", files), r.writePackage(p, "rpm", files), r.writeImage(p, files))
}

// writeChecksums writes the SHA-256 of every file, as sha256sum does.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	const name = "SHA256SUMS"
	var sums strings.Builder
	for _, e := range entries {
		if e.Name() == name {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, name), []byte(sums.String()), 0o644)
}

// output runs a command and returns its output.
func output(dir, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out, nil
}

// linkedModules are the modules that packages of the program come from, on any platform.
func (r *release) linkedModules() ([]string, error) {
	var all []string
	for _, p := range platforms {
		c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}",
			"./cmd/probity")
		c.Dir, c.Stderr = r.source, os.Stderr
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.system, "GOARCH="+p.processor)
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(line string) bool { return line == "" }), nil
}
