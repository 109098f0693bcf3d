package store

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

var cheapCost = hashCost{time: 1, memoryKiB: 64, threads: 1}

func TestPasswordHash(t *testing.T) {
	ctx, p := t.Context(), newPasswords(cheapCost)
	hash, err := p.hash(ctx, "correct horse")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(hash, "$argon2id$v=19$m=64,t=1,p=1$"), hash)
	again, err := p.hash(ctx, "correct horse")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "salted")

	// A hash made at another cost still matches: the cost is read from the hash.
	p = newPasswords(hashCost{time: 2, memoryKiB: 128, threads: 1})
	for password, want := range map[string]bool{"correct horse": true, "Correct horse": false, "": false} {
		ok, err := p.matches(hash, password)
		require.NoError(t, err)
		require.Equal(t, want, ok, password)
	}
}

func TestParseHashRefuses(t *testing.T) {
	for _, h := range []string{
		"", "$", "plain", "$2b$10$abc", "$argon2i$v=19$m=64,t=1,p=1$c2FsdA$c3Vt",
		"$argon2id$v=18$m=64,t=1,p=1$c2FsdA$c3Vt",
		"$argon2id$v=19$m=64,t=1,p=1$c2FsdA$c3Vt",                                               // too short a sum
		"$argon2id$v=19$m=4000000000,t=1,p=1$c2FsdA$" + strings.Repeat("A", 43),                 // 4 TB
		"$argon2id$v=19$m=64,t=0,p=1$c2FsdA$" + strings.Repeat("A", 43),                         // no pass
		"$argon2id$v=19$m=64,t=1,p=0$c2FsdA$" + strings.Repeat("A", 43),                         // no thread
		"$argon2id$v=19$m=64,t=1,p=1$c2FsdA$" + strings.Repeat("A", 43) + "$" + "one more part", // too long
	} {
		_, err := parseHash(h)
		require.ErrorIs(t, err, errBadHash, h)
	}
}

func FuzzParseHash(f *testing.F) {
	f.Add("$argon2id$v=19$m=64,t=1,p=1$c2FsdA$" + strings.Repeat("A", 43))
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHash(s)
		if err == nil && (h.cost.memoryKiB > maxCostKiB || h.cost.time < 1 || h.cost.threads < 1 || len(h.sum) != 32) {
			t.Fatalf("%q gives %+v", s, h)
		}
	})
}

func TestHashingWaitsAndStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(cheapCost)
		var running []func()
		for range maxRunningHashes {
			done, err := p.acquire(t.Context())
			require.NoError(t, err)
			running = append(running, done)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		var late error
		wg.Go(func() { _, late = p.hash(t.Context(), "waits") })
		_, err := p.hash(ctx, "gives up")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		running[0]()
		wg.Wait()
		require.NoError(t, late)
	})
}

func TestFullPasswordQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(cheapCost)
		var running []func()
		for range maxRunningHashes {
			done, err := p.acquire(t.Context())
			require.NoError(t, err)
			running = append(running, done)
		}
		var wg sync.WaitGroup
		for range maxWaitingHashes {
			wg.Go(func() {
				_, err := p.hash(t.Context(), "waits")
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		_, err := p.hash(t.Context(), "one too many")
		require.ErrorIs(t, err, ErrPasswordsBusy)
		for _, done := range running {
			done()
		}
		wg.Wait()
		_, err = p.hash(t.Context(), "there is room again")
		require.NoError(t, err)
	})
}

func TestLoginsAreCountedByNetwork(t *testing.T) {
	s, err := Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	allow := func(from string) bool { return s.AllowLogin(netip.MustParseAddr(from), now).OK }
	for range LoginsPerMinute {
		require.True(t, allow("192.0.2.1"))
		require.True(t, allow("2001:db8::1"))
	}
	for _, same := range []string{"192.0.2.1", "192.0.2.200", "::ffff:192.0.2.9", "2001:db8::2:1"} {
		require.False(t, allow(same), same)
	}
	for _, other := range []string{"192.0.3.1", "2001:db8:0:1::1"} {
		require.True(t, allow(other), other)
	}
	for i := range maxNetworks + 10 {
		allow(netip.AddrFrom4([4]byte{10, byte(i >> 14), byte(i >> 7 & 127), byte(i & 127)}).String())
	}
	require.LessOrEqual(t, s.attempts.windows.Len(), maxNetworks)
	now = now.Add(time.Minute)
	require.True(t, allow("192.0.2.1"))
}

func TestLockout(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var l loginFailures
	for i, want := range []time.Duration{0, 0, 0, 0, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
		l = l.afterFailure(now)
		require.Equal(t, want, l.Until.Sub(now), "attempt %d", i+1)
	}
	l = l.afterFailure(now.Add(forgetFailure + time.Second))
	require.Equal(t, 1, l.Failures, "a day later all is forgotten")
	l = loginFailures{Failures: 1 << 30, Last: now}
	require.Equal(t, maxLockout, l.afterFailure(now).Until.Sub(now))
}
