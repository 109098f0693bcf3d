package store

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

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
