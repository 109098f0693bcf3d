package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"probity/api"
	"probity/internal/console"
)

// version is set by the linker for releases; a build from a checkout says "devel" and its revision.
var version = "devel"

type versionCmd struct {
	JSON bool `name:"json" help:"One JSON object."`
}

// build is the output of version.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // empty if the build did not know it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version, its revision if known, and the Go release.
func (c versionCmd) Run(con *console.IO) error {
	b := build{Version: version, Revision: api.Revision(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if c.JSON {
		return json.NewEncoder(con.Out).Encode(b)
	}
	words := []string{"probity", b.Version, b.Revision, b.Go, b.Platform}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	_, err := fmt.Fprintln(con.Out, strings.Join(words, " "))
	return err
}
