package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// healthCmd asks a process of ours how it is, for those who have no curl: containers, units, scripts.
type healthCmd struct {
	Admin string `help:"Its admin listener." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`
	Ready bool   `help:"Ask whether it takes requests, not only whether it lives."`
}

// healthTimeout is how long a process that is well may take to say so.
const healthTimeout = 5 * time.Second

// Run exits with 0 when all is well.
func (c healthCmd) Run(ctx context.Context, con *console) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	path, okText := "/healthz", "alive"
	if c.Ready {
		path, okText = "/readyz", "ready"
	}
	client := apiClient{base: "http://" + c.Admin, http: http.DefaultClient}
	body, err := client.call(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return fmt.Errorf("not %s: %w", okText, err)
	}
	defer body.Close()
	_, err = fmt.Fprintln(con.out, okText)
	return err
}
