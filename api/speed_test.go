package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"
)

// BenchmarkSingles compares cached single verifications with a bare handler that says the same, at 64 connections.
func BenchmarkSingles(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		answer := []byte(`{"email":"ann@shop.test","status":"VALID","score":98,"reason":null,"syntax_valid":true,"domain_exists":true,"smtp_valid":true,"is_disposable":false,"is_role_based":false,"is_free_email":false,"smtp_provider":"other","mx_records":["mx1.shop.test","mx2.shop.test"],"from_cache":true,"credits_used":1,"verified_at":"2026-01-02T03:04:05Z"}`)
		s := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.SetContentType("application/json")
			ctx.Response.SetBodyRaw(answer)
		}}
		go s.Serve(ln)
		defer s.Shutdown()
		load(b, ln.Addr().String(), "x")
	})
	b.Run("probity", func(b *testing.B) {
		w := newWorld(b, nil)
		u, key := w.customer("fast@probity.test", 1<<40)
		w.unlimited(u)
		load(b, w.addr, key)
	})
}

func load(b *testing.B, addr, key string) {
	body := `{"email":"cached@shop.test"}`
	text := fmt.Sprintf("POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		all.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			for left.Add(-1) >= 0 {
				if _, err := c.Write([]byte(text)); err != nil {
					b.Error(err)
					return
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode != 200 {
					b.Errorf("%v %v", err, res)
					return
				}
				_, _ = r.Discard(int(res.ContentLength))
			}
		})
	}
	all.Wait()
}
