package buildinfo

import (
	_ "embed"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// exported has a version, a commit and its date where the source was exported without its history: git archive writes
// them (.gitattributes), and so does deploy/Containerfile. In a checkout it has the placeholder.
//
//go:embed VERSION
var exported string

// placeholder begins the file VERSION of a checkout.
const placeholder = "$Format:"

// unknownVersion is the version of a build that neither Git nor the file VERSION describes.
const unknownVersion = "devel"

// Build is which build of the program runs.
type Build struct {
	Version string `json:"version"`          // as Go names versions of modules
	Commit  string `json:"commit,omitempty"` // empty if it is not known
	Date    string `json:"date,omitempty"`   // of the commit, RFC 3339 in UTC; empty if it is not known
}

// Readiness is the answer of a process that is ready.
type Readiness struct {
	Status string `json:"status"`
	Build
}

// Current returns the build that runs.
func Current() Build {
	var stamped debug.BuildInfo
	if info, ok := debug.ReadBuildInfo(); ok {
		stamped = *info
	}
	return describe(exported, stamped)
}

// describe prefers the file: where it is filled in, a repository around the source is another one's.
func describe(file string, stamped debug.BuildInfo) Build {
	if strings.HasPrefix(file, placeholder) {
		return fromStamps(stamped)
	}
	return fromFile(file)
}

// fromStamps reads what the go command knew: of a checkout its commit, of a published module its version.
func fromStamps(stamped debug.BuildInfo) Build {
	b := Build{Version: stamped.Main.Version}
	for _, s := range stamped.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = unknownVersion
		if b.Commit != "" {
			b.Version = versionAfter("", b.Commit, b.Date)
		}
	}
	if b.Commit == "" && module.IsPseudoVersion(b.Version) {
		b.Commit, _ = module.PseudoVersionRev(b.Version) // fails only for what is not a pseudo-version
		if at, err := module.PseudoVersionTime(b.Version); err == nil {
			b.Date = at.UTC().Format(time.RFC3339)
		}
	}
	return b
}

// fromFile reads "VERSION COMMIT DATE", "COMMIT DATE" of a commit before the first version, or "VERSION".
func fromFile(file string) Build {
	words := strings.Fields(file)
	switch len(words) {
	case 0:
		return Build{Version: unknownVersion}
	case 2:
		words = append([]string{""}, words...)
	case 3:
	default:
		return Build{Version: strings.Join(words, "-")}
	}
	b := Build{Version: words[0], Commit: words[1], Date: words[2]}
	if at, err := time.Parse(time.RFC3339, b.Date); err == nil {
		b.Date = at.UTC().Format(time.RFC3339)
	}
	if later := laterThanTag.FindStringSubmatch(b.Version); later != nil || b.Version == "" {
		tag := ""
		if later != nil {
			tag = later[1]
		}
		b.Version = versionAfter(tag, b.Commit, b.Date)
	}
	return b
}

// laterThanTag matches what git describe says of a commit that has no version: the last tag, commits since, the commit.
var laterThanTag = regexp.MustCompile(`^(v.+)-[0-9]+-g[0-9a-f]+$`)

// versionAfter returns the version that the go command gives a commit after tag, or before any version if tag is empty.
func versionAfter(tag, commit, date string) string {
	at, err := time.Parse(time.RFC3339, date)
	short := commit[:min(12, len(commit))]
	if err != nil || short == "" {
		return unknownVersion + "-" + short
	}
	if !semver.IsValid(tag) {
		tag = ""
	}
	major := "v0"
	if tag != "" {
		major = semver.Major(tag)
	}
	return module.PseudoVersion(major, tag, at, short)
}
