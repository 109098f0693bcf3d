package fleet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/engine"
	"probity/internal/spans"
	"probity/internal/spans/collector"
)

// TestSpansOfASingleCall: the spans of a single call through a coordinator and its prober are a tree, whose parts say
// what took the time. A repeated call ends at the cache. No address and no part of one is exported.
func TestSpansOfASingleCall(t *testing.T) {
	var into collector.Collector
	withTracedMemCluster(t, &into, func(ctx context.Context, f *memCluster) {
		var asked string // by the call
		server, err := httpd.New(httpd.Config{Tracer: f.coord.tracer, NoDate: true}, httpd.Deps{
			NewID:   func() string { return "r1" },
			Refusal: func(err error) *httpd.Refusal { return httpd.NewFailure(err) },
			Routes: []httpd.Route{{Method: "POST", Path: "/v1/verify/single",
				Admit: func(*httpd.Call) error { return nil },
				Handle: func(c *httpd.Call) error {
					ask, cancel := context.WithTimeout(httpd.Traced(ctx, c), 30*time.Second)
					defer cancel()
					answer, err := f.coord.coordinator.Single(ask, coordinator.Request{Email: asked, MaxAge: time.Hour})
					if err == nil {
						err = c.SendBytes(httpd.StatusOK, []byte(answer.Verdict.Status.String()))
					}
					return err
				}}}})
		require.NoError(t, err)
		call := func(address, traceparent string) string {
			asked = address
			var c fasthttp.RequestCtx
			var request fasthttp.Request
			request.SetRequestURI("/v1/verify/single")
			request.Header.SetMethod("POST")
			if traceparent != "" {
				request.Header.Set("Traceparent", traceparent)
			}
			c.Init(&request, nil, nil)
			server.Handle(&c)
			require.Equal(t, httpd.StatusOK, c.Response.StatusCode(), "%s", c.Response.Body())
			return string(c.Response.Body())
		}

		traced := func(n byte) (trace, traceparent string) {
			trace = "0af7651916cd43dd8448eb211c80310" + string('0'+n)
			return trace, "00-" + trace + "-b7ad6b7169203331-01"
		}
		var valid string
		addresses := f.internet.World.Addresses("google", 40)
		for _, address := range addresses[:10] {
			if call(address, "") == engine.Valid.String() {
				valid = address // it is in the cache now, and a connection is open
			}
		}
		require.NotEmpty(t, valid)
		first, parent := traced(1)
		fresh := ""
		for _, address := range addresses[10:] {
			if _, err := engine.Parse(address); err == nil && fresh == "" {
				fresh = address
			}
		}
		require.NotEmpty(t, fresh)
		call(fresh, parent)
		second, parent := traced(2)
		call(valid, parent)
		time.Sleep(10 * time.Second)

		tree := into.Tree(first)
		require.Equal(t, "probity/hub POST /v1/verify/single\n"+
			"  probity/hub dns.lookup\n"+
			"  probity/hub probity.wire.Node/Single\n"+
			"    probity/p1 probity.wire.Node/Single\n"+
			"      probity/p1 cache.lookup\n"+
			"      probity/p1 probe\n"+
			"        probity/p1 queue.wait\n"+
			"        probity/p1 smtp.dialogue\n", tree)
		require.Equal(t, strings.Join(strings.SplitAfter(tree, "\n")[:5], ""), into.Tree(second))
		var all []collector.Span
		byID := map[string]collector.Span{}
		for _, s := range into.Spans() {
			byID[s.ID] = s
			if s.Trace == first || s.Trace == second {
				all = append(all, s)
			}
		}
		require.Len(t, into.Spans(), len(all), "clients that do not ask are not traced here")
		for _, s := range all {
			if parent, known := byID[s.Parent]; known {
				require.False(t, s.Start.Before(parent.Start) || s.End.After(parent.End), "%v in %v", s, parent)
			}
			if s.Name == "smtp.dialogue" {
				require.Equal(t, "RCPT", strings.ToUpper(s.Attributes["probity.stage"].(string)))
				require.Empty(t, s.Attributes["server.address"], "the name of a mail server may contain a customer's domain")
			}
			if s.Name == "probe" {
				require.NotEmpty(t, s.Attributes["probity.outcome"])
			}
			if s.Name == "cache.lookup" {
				require.Equal(t, s.Trace == second, s.Attributes["probity.hit"])
			}
		}
		for _, address := range []string{valid, fresh} {
			local, domain, _ := strings.Cut(address, "@")
			require.NotContains(t, into.Exported(), domain)
			require.NotContains(t, into.Exported(), local)
		}
	})
}

// withTracedMemCluster is withMemCluster with one prober, and a collector of the spans of both.
func withTracedMemCluster(t *testing.T, into *collector.Collector, do func(context.Context, *memCluster)) {
	tracers := func(node string) *spans.Tracer {
		tracer, err := spans.New(spans.Config{Endpoint: "http://collector.test", Node: node, Transport: into})
		require.NoError(t, err)
		return tracer
	}
	withMemClusterOf(t, func(f *memCluster) { f.newTracer = tracers }, fleetSpeedup, "none", 1, 1,
		func(ctx context.Context, f *memCluster, _ []*memProber) { do(ctx, f) })
}
