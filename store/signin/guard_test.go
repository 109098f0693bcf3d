package signin

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestLockout(t *testing.T) {
	var f Failures
	for i, minutes := range []time.Duration{0, 0, 0, 0, 1, 2, 4, 8, 15, 15} {
		f = f.after(start)
		require.Equal(t, minutes*time.Minute, f.until().Sub(start), "attempt %d", i+1)
	}
	f = f.after(start.Add(forgetFailure + time.Second))
	require.Equal(t, 1, f.Count, "a day later all is forgotten")
	f = Failures{Count: 1 << 30, Last: start}
	require.Equal(t, maxLockout, f.after(start).until().Sub(start))
}

// TestClientLeavesSignInsForItsNeighbours: one client cannot use up what its network may, and all clients of a network
// together cannot exceed it.
func TestClientLeavesSignInsForItsNeighbours(t *testing.T) {
	for _, c := range []struct{ client, same, neighbour, elsewhere string }{
		{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.200", "192.0.3.1"},
		{"2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1", "2001:db8:1::1"},
	} {
		g := New(MaxFailing)
		now := start
		allow := func(from string) bool { return g.Allow(netip.MustParseAddr(from), now).OK }
		for range ClientPerMinute {
			require.True(t, allow(c.client))
		}
		require.False(t, allow(c.client))
		require.False(t, allow(c.same))
		for range NetworkPerMinute - ClientPerMinute {
			require.True(t, allow(c.neighbour))
		}
		require.False(t, allow(c.neighbour), "the network has used up its own")
		require.True(t, allow(c.elsewhere))
		now = now.Add(time.Minute)
		require.True(t, allow(c.client))
	}
}

func TestClientsWithoutAnAddressShareOneWindow(t *testing.T) {
	g := New(MaxFailing)
	for i := range ClientPerMinute + 1 {
		require.Equal(t, i < ClientPerMinute, g.Allow(netip.Addr{}, start).OK)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	g := New(100)
	for i := range maxWindows + 10 {
		g.Allow(netip.AddrFrom4([4]byte{10, byte(i >> 14), byte(i >> 7 & 127), byte(i & 127)}), start)
	}
	require.LessOrEqual(t, g.windows.Len(), maxWindows)
	for i := range 200 {
		g.Count(ForCodes(nil, fmt.Sprint(i)), start)
	}
	require.Equal(t, 100, g.failures.Len())
}

// TestChangesKeepAStoreInStep: what Changes says makes a copy of the lock-outs, and only of them.
func TestChangesKeepAStoreInStep(t *testing.T) {
	g := New(4)
	stored := map[Key]Failures{}
	save := func() {
		require.NoError(t, g.Changes(func(k Key, f Failures) error {
			delete(stored, k)
			if f.LockOut() {
				stored[k] = f
			}
			return nil
		}))
		require.False(t, g.HasChanges())
	}
	secret := []byte("secret")
	from := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, n, 1}) }
	lockOut := func(k Key) {
		for range freeAttempts {
			require.Zero(t, g.Count(k, start))
		}
		require.Equal(t, start.Add(firstLockout), g.Count(k, start))
	}
	ann, bob := ForPasswords(secret, "ann@x.example", from(1)), ForPasswords(secret, "bob@x.example", from(1))
	g.Count(ForCodes(secret, "dora@x.example"), start)
	require.False(t, g.HasChanges(), "a failure is no lock-out")
	lockOut(ann)
	save()
	require.Equal(t, map[Key]Failures{ann: {freeAttempts, start}}, stored)
	g.Succeed(ann)
	save()
	require.Empty(t, stored)

	lockOut(ann)
	lockOut(ForPasswords(secret, "ann@x.example", from(2)))
	lockOut(ForCodes(secret, "ann@x.example"))
	lockOut(bob)
	save()
	require.Len(t, stored, 4)
	again := New(4)
	for k, f := range stored {
		again.Restore(k, f)
	}
	require.False(t, again.HasChanges())
	require.Equal(t, start.Add(firstLockout), again.Locked(ann, start))
	g.ForgetLogin(ForPasswords(secret, "ann@x.example", netip.Addr{}))
	save()
	require.Equal(t, map[Key]Failures{bob: {freeAttempts, start}}, stored)

	for n := range byte(4) {
		lockOut(ForPasswords(secret, "cleo@x.example", from(n)))
		save()
		require.LessOrEqual(t, len(stored), 4)
	}
	require.NotContains(t, stored, bob, "it was idle longest")
	require.Zero(t, g.Sweep(start.Add(forgetFailure)))
	require.Equal(t, 4, g.Sweep(start.Add(forgetFailure+time.Second)))
	save()
	require.Empty(t, stored)
}

// TestClockSetBackLocksNothingOut: failures that were counted while the clock was a year ahead do not lock out for a
// year.
func TestClockSetBackLocksNothingOut(t *testing.T) {
	g, k := New(MaxFailing), ForCodes(nil, "ann@x.example")
	ahead := start.AddDate(1, 0, 0)
	for range freeAttempts + 5 {
		g.Count(k, ahead)
	}
	require.NotZero(t, g.Locked(k, ahead.Add(-time.Second)), "a request that began earlier is no clock set back")
	require.Zero(t, g.Locked(k, start))
	require.Zero(t, g.Count(k, start))
}
