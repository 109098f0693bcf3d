package store

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestKeysHaveTheRequestedScopes(t *testing.T) {
	s, err := Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	HashCheaply(s)
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ann, _, err := s.AddUser(t.Context(), NewUser{Email: "ann@example.com"}, "test", now)
	require.NoError(t, err)
	root, _, err := s.AddUser(t.Context(), NewUser{Email: "root@example.com", Role: Admin}, "test", now)
	require.NoError(t, err)

	plain, k, err := s.CreateKey(ann.ID, NewKey{Name: "plain"}, "test", now)
	require.NoError(t, err)
	require.Equal(t, DefaultScopes, k.Scopes)
	id, err := s.Authenticate(plain, now)
	require.NoError(t, err)
	require.True(t, id.MayUse(ScopeVerify))
	require.False(t, id.MayUse(ScopeAccount|ScopeAdmin))
	require.True(t, id.MayComeFrom(netip.Addr{}))

	nets, err := ParseNetworks([]string{"192.0.2.0/24", "2001:db8::1"})
	require.NoError(t, err)
	soon := now.Add(time.Hour)
	secret, _, err := s.CreateKey(root.ID, NewKey{Name: "narrow", Scopes: ScopeAdmin, Expires: soon, Networks: nets},
		"test", now.Add(time.Second))
	require.NoError(t, err)
	events, err := s.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, root.ID+" narrow (admin; until "+soon.Truncate(time.Second).UTC().Format(time.RFC3339)+
		"; from 192.0.2.0/24, 2001:db8::1/128)", events[0].Note)
	id, err = s.Authenticate(secret, soon.Add(-time.Second))
	require.NoError(t, err)
	require.False(t, id.MayUse(DefaultScopes))
	require.True(t, id.MayComeFrom(netip.MustParseAddr("192.0.2.1")))
	require.False(t, id.MayComeFrom(netip.MustParseAddr("192.0.3.1")))
	require.False(t, id.MayComeFrom(netip.Addr{}))
	_, err = s.Authenticate(secret, soon)
	require.ErrorIs(t, err, ErrBadKey, "expired")

	for _, c := range []struct {
		account string
		n       NewKey
		want    error
	}{
		{ann.ID, NewKey{Name: "k", Scopes: ScopeAdmin}, ErrBadScopes},
		{root.ID, NewKey{Name: "k", Test: true, Scopes: ScopeAdmin}, ErrBadScopes},
		{ann.ID, NewKey{Name: "k", Expires: now}, ErrBadExpiry},
	} {
		_, _, err := s.CreateKey(c.account, c.n, "test", now)
		require.ErrorIs(t, err, c.want)
	}
}

func TestScopesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set := Scopes(rapid.IntRange(1, int(ScopeVerify|ScopeJobs|ScopeAccount|ScopeAdmin)).Draw(rt, "set"))
		b, err := set.MarshalJSON()
		require.NoError(rt, err)
		var got Scopes
		require.NoError(rt, got.UnmarshalJSON(b))
		require.Equal(rt, set, got)
	})
	for _, bad := range [][]string{{"Verify"}, {"verify", "all"}, {""}, {}} {
		_, err := ParseScopes(bad)
		require.ErrorIs(t, err, ErrBadScopes)
	}
	for _, bad := range []string{"", "192.0.2.1/33", "example.com", "fe80::1%eth0", "::ffff:192.0.2.1"} {
		_, err := ParseNetworks([]string{bad})
		require.ErrorIs(t, err, ErrBadNetwork, bad)
	}
	_, err := ParseScopes([]string{"foo"})
	require.ErrorContains(t, err, `unknown scope "foo": use verify, jobs, account, admin`)
	_, err = ParseNetworks([]string{"10.0.0.1/8"})
	require.ErrorContains(t, err, `"10.0.0.1/8" has bits set behind its prefix: use 10.0.0.0/8 for the network, or 10.0.0.1 for the address`)
	_, err = ParseNetworks(make([]string, MaxNetworks+1))
	require.ErrorIs(t, err, ErrBadNetwork)
}
