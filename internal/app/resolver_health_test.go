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

// fakeResolverHealth has an untrusted server while denying is set, and one that does not answer while silent is.
type fakeResolverHealth struct{ denying, silent atomic.Bool }

func (f *fakeResolverHealth) SilentServers(context.Context) []netip.AddrPort {
	if f.silent.Load() {
		return []netip.AddrPort{netip.MustParseAddrPort("192.0.2.54:53")}
	}
	return nil
}

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
		require.Equal(t, 10, strings.Count(out.String(),
			"level=WARN msg=\"resolver not trusted: it answers NXDOMAIN for the root"), out.String())
		require.Equal(t, 10, strings.Count(out.String(), "resolvers=[192.0.2.53:53]"))
		require.Equal(t, 1, strings.Count(out.String(), "resolvers trusted again: none answers NXDOMAIN for the root"))
	})
}

// TestSilentResolverIsLoggedOnceAnOutage: at its begin and at its end, and outages that follow each other at once a
// minute.
func TestSilentResolverIsLoggedOnceAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var out bytes.Buffer
		var r fakeResolverHealth
		done := make(chan struct{})
		go func() { defer close(done); logResolverHealth(ctx, &r, slog.New(slog.NewTextHandler(&out, nil))) }()
		said := func() (begun, over int) {
			synctest.Wait()
			return strings.Count(out.String(), "probity doctor says more\" resolvers=[192.0.2.54:53]"),
				strings.Count(out.String(), "resolvers answer again")
		}
		check := func(begun, over int) {
			t.Helper()
			gotBegun, gotOver := said()
			require.Equal(t, [2]int{begun, over}, [2]int{gotBegun, gotOver}, out.String())
		}
		time.Sleep(time.Hour)
		check(0, 0)
		r.silent.Store(true)
		time.Sleep(time.Hour)
		check(1, 0)
		r.silent.Store(false)
		time.Sleep(2 * resolverCheckEvery)
		check(1, 1)
		for range 6 { // in a minute
			r.silent.Store(true)
			time.Sleep(resolverCheckEvery)
			r.silent.Store(false)
			time.Sleep(resolverCheckEvery)
		}
		check(2, 2)
		stop()
		<-done
	})
}
