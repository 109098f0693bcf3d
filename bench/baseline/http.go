package baseline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// answer has the length of a usual verdict.
const answer = `{"email":"ann.example@alder-forge.example","status":"VALID","score":98,"reason":null,"syntax_valid":true,` +
	`"domain_exists":true,"smtp_valid":true,"is_disposable":false,"is_role_based":false,"is_free_email":false,"smtp_provider":"other",` +
	`"mx_records":["mx1.alder-forge.example","mx2.alder-forge.example"],"from_cache":true,"credits_used":1,"verified_at":"2026-03-01T12:00:00Z"}`

// ServeHTTP is the bare HTTP handler: it answers each request with the same bytes until ctx ends. It writes its address
// to w. It runs in a process of its own, as the service does.
func ServeHTTP(ctx context.Context, w io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	body := []byte(answer)
	server := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(c *fasthttp.RequestCtx) {
		c.SetContentType("application/json")
		c.SetBody(body)
	}}
	fmt.Fprintf(w, "bare handler at http://%s\n", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err = server.ShutdownWithContext(closing)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // a client still holds its connection; it closes with the process
	}
	return err
}
