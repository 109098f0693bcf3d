package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"

	"probity/internal/buildinfo"
	"probity/internal/console"
)

type versionCmd struct {
	JSON bool `name:"json" help:"One JSON object."`
}

// build is the output of version.
type build struct {
	buildinfo.Build
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version, its commit and date if known, and the Go release.
func (c versionCmd) Run(con *console.IO) error {
	b := build{Build: buildinfo.Current(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if c.JSON {
		return json.NewEncoder(con.Out).Encode(b)
	}
	text := "probity " + b.Version
	if b.Commit != "" {
		text += " (commit " + b.Commit + ", " + b.Date + ")"
	}
	_, err := fmt.Fprintln(con.Out, text, b.Go, b.Platform)
	return err
}

// versionFlag is --version, which works without a command.
type versionFlag bool

// BeforeReset is called by the parser before it misses a command.
func (versionFlag) BeforeReset(app *kong.Kong, con *console.IO) error {
	if err := (versionCmd{}).Run(con); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}
