package main

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

// fakeResolverHealth denies or does not.
type fakeResolverHealth struct{ denying atomic.Bool }

func (f *fakeResolverHealth) UntrustedServers() []netip.AddrPort {
	if f.denying.Load() {
		return []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")}
	}
	return nil
}

// TestDenyingResolverIsLoggedOnceAMinute: within seconds, once a minute, and when it is over.
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
		require.Equal(t, 10, strings.Count(out.String(), "level=WARN msg=\"a resolver is not believed: it denies the root"), out.String())
		require.Equal(t, 10, strings.Count(out.String(), "resolvers=[192.0.2.53:53]"))
		require.Equal(t, 1, strings.Count(out.String(), "no resolver denies the root any more"))
	})
}
