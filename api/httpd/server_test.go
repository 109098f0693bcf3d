package httpd

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveRoutes serves routes on a loopback address until the test ends, and returns the URL of their root.
func serveRoutes(t *testing.T, routes ...Route) string {
	t.Helper()
	s, err := New(Config{}, Deps{Routes: routes, NewID: newRequestID, Refusal: NewFailure})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln, 10*time.Second) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return "http://" + ln.Addr().String()
}

// admitAll admits each request.
func admitAll(*Call) error { return nil }

// sampleApp counts the requests that used it.
type sampleApp struct{ requests int }

func (a *sampleApp) Reset() { a.requests = 0 }

// TestReusedCallKeepsNothing: what a request leaves in its call is not there for the next one.
func TestReusedCallKeepsNothing(t *testing.T) {
	admit := func(c *Call) error {
		if c.App == nil {
			c.App = new(sampleApp)
		}
		c.App.(*sampleApp).requests++
		require.Empty(t, c.Account)
		c.Account = "ann"
		c.SetRateLimit(1, 1, time.Second)
		return nil
	}
	base := serveRoutes(t, Route{Method: "GET", Path: "/x/{y}", Frequent: true, Admit: admit,
		Handle: func(c *Call) error {
			return c.SendJSON(StatusOK, []any{c.Param, c.App.(*sampleApp).requests})
		}}, Route{Method: "GET", Path: "/plain", Frequent: true, Admit: admitAll, Handle: func(c *Call) error {
		return c.SendJSON(StatusOK, c.Account+c.Param)
	}})
	for range 20 {
		for path, want := range map[string]string{"/x/1": `["1",1]`, "/x/2": `["2",1]`, "/plain": `""`} {
			res, err := http.Get(base + path)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, want, string(body))
			require.Equal(t, path == "/plain", res.Header.Get("RateLimit-Limit") == "")
		}
	}
}

func TestPanicFailsOneRequest(t *testing.T) {
	base := serveRoutes(t, Route{Method: "GET", Path: "/panics", Admit: admitAll,
		Handle: func(*Call) error { panic("a secret") }},
		Route{Method: "GET", Path: "/works", Admit: admitAll,
			Handle: func(c *Call) error { return c.SendJSON(StatusOK, map[string]string{}) }})
	for path, status := range map[string]int{"/panics": 500, "/works": 200} {
		for range 2 {
			res, err := http.Get(base + path)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, status, res.StatusCode, "%s: %s", path, body)
			require.NotContains(t, string(body), "secret")
		}
	}
}
