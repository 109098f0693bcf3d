package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"probity/api/httpd"
)

const baselineAnswer = `{"email":"ann@shop.test","status":"VALID","score":98,"reason":null,"syntax_valid":true,"domain_exists":true,"smtp_valid":true,"is_disposable":false,"is_role_based":false,"is_free_email":false,"smtp_provider":"other","mx_records":["mx1.shop.test","mx2.shop.test"],"from_cache":true,"credits_used":1,"verified_at":"2026-01-02T03:04:05Z"}`

// speedRound is how many requests one side answers before the other side's turn, so that both run under the same
// conditions.
const speedRound = 5000

// BenchmarkSingles compares cached single verifications with a bare handler that sends the same answer, at 64
// connections, in turns. An operation is one request to each. Times and processor times are per request, client
// included.
func BenchmarkSingles(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	bare := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("application/json")
		ctx.Response.SetBodyRaw([]byte(baselineAnswer))
	}}
	go func() { _ = bare.Serve(ln) }()
	defer func() { _ = bare.Shutdown() }()
	w := newTestServer(b, nil)
	w.level.Set(slog.LevelInfo) // as in production
	u, key := w.addCustomer("fast@probity.test", 1<<40)
	w.liftLimits(u)

	var baseline, ours timing
	b.ResetTimer()
	for left := b.N; left > 0; left -= speedRound {
		n := min(left, speedRound)
		baseline.add(n, func() { load(b, ln.Addr().String(), "x", n) })
		ours.add(n, func() { load(b, w.addr, key, n) })
	}
	b.StopTimer()
	b.ReportMetric(baseline.took(), "bare-us")
	b.ReportMetric(ours.took(), "single-us")
	b.ReportMetric(baseline.took()/ours.took(), "ratio")
	b.ReportMetric(baseline.cpu(), "bare-cpu-us")
	b.ReportMetric(ours.cpu(), "single-cpu-us")
}

// BenchmarkHandle measures what cached single verifications cost without a network: 64 at once, as over as many
// connections.
func BenchmarkHandle(b *testing.B) {
	w := newTestServer(b, nil)
	w.level.Set(slog.LevelInfo)
	u, key := w.addCustomer("fast@probity.test", 1<<40)
	w.liftLimits(u)
	var left atomic.Int64
	left.Store(int64(b.N))
	var took timing
	b.ReportAllocs()
	b.ResetTimer()
	took.add(b.N, func() {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for r := newRepeatedRequest(key); left.Add(-1) >= 0; {
					if code := r.send(w.server); code != httpd.StatusOK {
						b.Errorf("answered %d", code)
						return
					}
				}
			})
		}
		all.Wait()
	})
	b.ReportMetric(took.cpu(), "cpu-us")
}

// repeatedRequest is a request that is passed to the handler repeatedly, as on one connection.
type repeatedRequest struct {
	ctx  fasthttp.RequestCtx
	body *strings.Reader
}

const repeatedBody = `{"email":"cached@shop.test"}`

func newRepeatedRequest(key string) *repeatedRequest {
	r := &repeatedRequest{body: strings.NewReader(repeatedBody)}
	var req fasthttp.Request
	req.SetRequestURI("/v1/verify/single")
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	r.ctx.Init(&req, nil, nil)
	return r
}

func (r *repeatedRequest) send(s *Server) int {
	r.body.Reset(repeatedBody)
	r.ctx.Request.SetBodyStream(r.body, len(repeatedBody))
	r.ctx.Response.Reset()
	s.http.Handle(&r.ctx)
	return r.ctx.Response.StatusCode()
}

// timing is the time that requests took.
type timing struct {
	requests         int
	elapsed, cpuTime time.Duration
}

func (s *timing) add(n int, action func()) {
	at, cpuBefore := time.Now(), processorTime()
	action()
	s.requests += n
	s.elapsed += time.Since(at)
	s.cpuTime += processorTime() - cpuBefore
}

func (s *timing) took() float64 { return float64(s.elapsed.Microseconds()) / float64(s.requests) }
func (s *timing) cpu() float64  { return float64(s.cpuTime.Microseconds()) / float64(s.requests) }

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load sends n requests over 64 connections.
func load(b *testing.B, addr, key string, n int) {
	body := `{"email":"cached@shop.test"}`
	text := fmt.Appendf(nil, "POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
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
				if _, err := c.Write(text); err != nil {
					b.Error(err)
					return
				}
				if err := readAnswer(r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// readAnswer reads one answer with as little work as possible: the client costs the same for both.
func readAnswer(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("%q: %w", line, err)
	}
	length := -1
	for len(line) > 2 {
		if line, err = r.ReadSlice('\n'); err != nil {
			return err
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return io.ErrUnexpectedEOF
	}
	_, err = r.Discard(length)
	return err
}
