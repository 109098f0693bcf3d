package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"probity/internal/app"
	"probity/internal/buildinfo"
	"probity/internal/console"
	"probity/internal/loglimit"
	"probity/store/diskroom"
)

type serveCmd struct{ app.ServeFlags }

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, con *console.IO) error {
	return app.NewService(newProcess(con, c.LogFormat), &c.ServeFlags).Serve(ctx, con.Err)
}

// coordinatorCmd is serve without its prober: other nodes probe.
type coordinatorCmd struct{ app.CoordinatorFlags }

// Run serves until ctx ends.
func (c *coordinatorCmd) Run(ctx context.Context, con *console.IO) error {
	s, err := app.NewCoordinator(newProcess(con, c.LogFormat), &c.CoordinatorFlags)
	if err != nil {
		return err
	}
	return s.Serve(ctx, con.Err)
}

// proberCmd is a prober alone, which probes for a remote coordinator.
type proberCmd struct{ app.ProberFlags }

// Run probes for a coordinator until ctx ends.
func (c *proberCmd) Run(ctx context.Context, con *console.IO) error {
	p, err := app.NewProber(newProcess(con, c.LogFormat), &c.ProberFlags)
	if err != nil {
		return err
	}
	return p.Serve(ctx)
}

// newProcess returns what a process begins with. It logs at info level, or everything with --verbose, as text or json.
// Repeated warnings and errors are limited to a few lines a second, and a full disk is told once.
func newProcess(con *console.IO, format string) app.Process {
	level := slog.LevelInfo
	if con.Verbose {
		level = slog.LevelDebug
	}
	options := console.LogOptions(level)
	var lines slog.Handler = slog.NewTextHandler(con.Err, options)
	if format == "json" {
		lines = slog.NewJSONHandler(con.Err, options)
	}
	return app.Process{Build: buildinfo.Current(), Log: slog.New(loglimit.New(diskroom.Quiet(lines))),
		Disk: con.Files(), Registry: prometheus.NewRegistry(), Hangups: con.Hangups}
}
