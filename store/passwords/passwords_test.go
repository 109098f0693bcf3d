package passwords

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var cheapCost = Cost{Time: 1, MemoryKiB: 64, Threads: 1}

func TestPasswordHash(t *testing.T) {
	ctx, p := t.Context(), New(cheapCost)
	hash, err := p.Hash(ctx, "correct horse")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(hash, "$argon2id$v=19$m=64,t=1,p=1$"), hash)
	again, err := p.Hash(ctx, "correct horse")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "salted")

	// A hash made at another cost still matches: the cost is read from the hash.
	p = New(Cost{Time: 2, MemoryKiB: 128, Threads: 1})
	for password, want := range map[string]bool{"correct horse": true, "Correct horse": false, "": false} {
		ok, err := p.Matches(hash, password)
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
		if err == nil && (h.cost.MemoryKiB > maxCostKiB || h.cost.Time < 1 || h.cost.Threads < 1 || len(h.sum) != 32) {
			t.Fatalf("%q gives %+v", s, h)
		}
	})
}

func TestHashingWaitsAndStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(cheapCost)
		var running []func()
		for range maxRunning {
			done, err := p.Acquire(t.Context())
			require.NoError(t, err)
			running = append(running, done)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		var late error
		wg.Go(func() { _, late = p.Hash(t.Context(), "waits") })
		_, err := p.Hash(ctx, "gives up")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		running[0]()
		wg.Wait()
		require.NoError(t, late)
	})
}

func TestFullPasswordQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(cheapCost)
		var running []func()
		for range maxRunning {
			done, err := p.Acquire(t.Context())
			require.NoError(t, err)
			running = append(running, done)
		}
		var wg sync.WaitGroup
		for range maxWaiting {
			wg.Go(func() {
				_, err := p.Hash(t.Context(), "waits")
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		_, err := p.Hash(t.Context(), "one too many")
		require.ErrorIs(t, err, ErrBusy)
		for _, done := range running {
			done()
		}
		wg.Wait()
		_, err = p.Hash(t.Context(), "there is room again")
		require.NoError(t, err)
	})
}
