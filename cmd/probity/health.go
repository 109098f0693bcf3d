package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"probity/internal/apiclient"
	"probity/internal/console"
)

// healthCmd checks a running server or prober without curl, for containers, units and scripts.
type healthCmd struct {
	Admin string `help:"Its admin listener." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`
	Ready bool   `help:"Check that it takes requests, not only that it runs."`
}

// healthTimeout bounds the answer of a healthy process.
const healthTimeout = 5 * time.Second

// Run exits with 0 when all is well.
func (c healthCmd) Run(ctx context.Context, con *console.IO) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	path, okText := "/healthz", "alive"
	if c.Ready {
		path, okText = "/readyz", "ready"
	}
	body, err := apiclient.ForAdminListener(c.Admin, "a server or prober").Call(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return fmt.Errorf("not %s: %w", okText, err)
	}
	defer body.Close()
	_, err = fmt.Fprintln(con.Out, okText)
	return err
}
