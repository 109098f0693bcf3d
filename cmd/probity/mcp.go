package main

import (
	"context"

	"probity/internal/admin"
	"probity/internal/buildinfo"
	"probity/internal/console"
	"probity/internal/mcptools"
)

// mcpCmd lets an assistant use a running server.
type mcpCmd struct {
	Server string `help:"The server's public URL; PROBITY_KEY holds a key of the account." default:"http://127.0.0.1:8080" placeholder:"URL"`
}

// Run serves until standard input ends.
func (c mcpCmd) Run(ctx context.Context, con *console.IO) error {
	client, err := admin.NewCustomer(con, c.Server)
	if err != nil {
		return err
	}
	return mcptools.Serve(ctx, client, buildinfo.Current().Version, con.In, con.Out)
}
