package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for releases; a build from a checkout says "devel" and its revision.
var version = "devel"

type versionCmd struct{}

// Run prints the version, the revision it was built from where known, and the Go release.
func (versionCmd) Run(con *console) error {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	_, err := fmt.Fprintf(con.out, "probity %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
