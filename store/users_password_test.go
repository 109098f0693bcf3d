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

// TestLockoutsSurviveARestart: five wrong passwords, or wrong codes, lock out for as long as without a restart, whether
// the store was closed or the power was cut. The store does not tell which address it was, nor whether it has an
// account. A success ends a lock-out for good.
func TestLockoutsSurviveARestart(t *testing.T) {
	w := newTOTPFixture(t)
	stranger, elsewhere := netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("192.0.2.1")
	wrong := func(s *Store, email string) error {
		_, err := s.LogIn(t.Context(), Login{Email: email, Password: "a wrong password", From: stranger}, w.now)
		return err
	}
	emails := []string{"ann@example.com", "no-account@example.com"}
	for range 5 {
		for _, email := range emails {
			require.ErrorIs(t, wrong(w.s, email), ErrBadCredentials)
		}
		require.ErrorIs(t, w.logIn(w.wrongCode(), totpFrom), ErrBadCode)
	}
	began := w.now
	stored := map[string]int{}
	require.NoError(t, scan(w.s.db, []byte{tableLockout}, nil, func(k, v []byte) error {
		stored[string(v)]++
		require.Len(t, k, 33)
		return nil
	}))
	require.Len(t, stored, 1, "they differ by their keys alone")

	disk := w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	for _, end := range []string{"power cut", "close"} {
		s := open(t, disk)
		HashCheaply(s)
		w.now = began.Add(time.Minute - time.Second)
		for _, email := range emails {
			var locked *ErrLockedOut
			require.ErrorAs(t, wrong(s, email), &locked, "%s after a %s", email, end)
			require.Equal(t, ErrLockedOut{Until: began.Add(time.Minute).UTC()}, *locked)
		}
		var locked *ErrLockedOut
		l := Login{Email: emails[0], Password: "long enough", Code: w.code(), From: elsewhere}
		_, err := s.LogIn(t.Context(), l, w.now)
		require.ErrorAs(t, err, &locked)
		require.Equal(t, ErrLockedOut{Until: began.Add(time.Minute).UTC(), Codes: true}, *locked)
		require.NoError(t, s.Close())
	}

	w.now = began.Add(time.Minute)
	s := open(t, disk)
	HashCheaply(s)
	require.ErrorIs(t, wrong(s, emails[1]), ErrBadCredentials)
	_, err := s.LogIn(t.Context(), Login{Email: emails[0], Password: "long enough", Code: w.code(), From: stranger},
		w.now)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s = open(t, disk)
	HashCheaply(s)
	var locked *ErrLockedOut
	require.ErrorAs(t, wrong(s, emails[1]), &locked)
	require.Equal(t, w.now.Add(2*time.Minute).UTC(), locked.Until, "the sixth failure counts as such")
	require.ErrorIs(t, wrong(s, emails[0]), ErrBadCredentials, "the first since the success")
	n, err := s.SweepLockouts(w.now.Add(25 * time.Hour))
	require.NoError(t, err)
	require.Equal(t, 3, n, "and that of the network of the wrong codes")
	left, err := count(s.db, []byte{tableLockout})
	require.NoError(t, err)
	require.Zero(t, left)
	require.NoError(t, s.Close())
}
