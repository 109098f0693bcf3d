package app

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeResolverHealth has an untrusted server while denying is set.
type fakeResolverHealth struct{ denying atomic.Bool }

func (f *fakeResolverHealth) UntrustedServers() []netip.AddrPort {
	if f.denying.Load() {
		return []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")}
	}
	return nil
}

// TestDenyingResolverIsLoggedOnceAMinute: first within seconds, then once a minute, and at the end.
func TestDenyingResolverIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var out bytes.Buffer
		var r fakeResolverHealth
		done := make(chan struct{})
		go func() { defer close(done); logResolverHealth(ctx, &r, slog.New(slog.NewTextHandler(&out, nil))) }()
		time.Sleep(time.Hour)
		r.denying.Store(true)
		time.Sleep(10*time.Minute - time.Second)
		r.denying.Store(false)
		time.Sleep(time.Hour)
		stop()
		<-done
		require.Equal(t, 10, strings.Count(out.String(), "level=WARN msg=\"resolver not trusted: it answers NXDOMAIN for the root"), out.String())
		require.Equal(t, 10, strings.Count(out.String(), "resolvers=[192.0.2.53:53]"))
		require.Equal(t, 1, strings.Count(out.String(), "resolvers trusted again: none answers NXDOMAIN for the root"))
	})
}
