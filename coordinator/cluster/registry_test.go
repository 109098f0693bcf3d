package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestNodeStates(t *testing.T) {
	r := newRegistry()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	check := func(s float64, state State, usable bool, shares int) {
		t.Helper()
		v := r.view(at(s))
		n, ok := v.Node("a")
		require.True(t, ok)
		require.Equal(t, []any{state, usable, shares}, []any{n.State, n.Usable, len(v.Shares)})
	}
	require.True(t, r.setGossip("a", "10.0.0.2:1", meta{Role: RoleProber, Listen: "l"}, at(0)))
	check(1, Suspect, false, 0)
	r.setStream("a", liveStream(1, 2), at(2))
	check(2, Alive, true, 2)
	r.removeGossip("a", at(3))
	check(4, Alive, true, 2)
	r.setStream("a", Stream{Usable: true, Problem: "broken"}, at(10)) // lost, but still usable
	check(11, Suspect, true, 2)
	r.setStream("a", Stream{Problem: "silent"}, at(25))
	check(26, Suspect, false, 2)
	check(69.9, Suspect, false, 2)
	check(70, Gone, false, 0)
	r.setStream("a", liveStream(1, 2), at(80))
	check(80, Alive, true, 2)
	s := liveStream(1, 2)
	s.Draining = true
	r.setStream("a", s, at(90))
	check(90, Draining, false, 0)
	r.setStream("a", Stream{Draining: true}, at(95))
	check(96, Draining, false, 0)
	check(155, Gone, false, 0)
	r.view(at(95).Add(forgetAfter))
	require.Empty(t, r.view(at(95).Add(forgetAfter)).Nodes)
}

func TestIdentityBelongsToOneNode(t *testing.T) {
	r := newRegistry()
	for _, name := range []string{"a", "b", "c"} {
		r.setGossip(name, "x", meta{Role: RoleProber}, start)
	}
	r.setStream("b", liveStream(1, 2), start)
	r.view(start)
	r.setStream("a", liveStream(2, 3), start)
	r.setStream("c", liveStream(4, 4), start)
	v := r.view(start)
	require.Equal(t, []Share{{identity(1), "b", true}, {identity(2), "b", true}}, v.Shares)
	n, _ := v.Node("a")
	require.False(t, n.Usable)
	require.Equal(t, "identity 192.0.2.2 is node b's; give each address to one node", n.Problem)
	n, _ = v.Node("c")
	require.Equal(t, "two of its identities are named 192.0.2.4", n.Problem)

	r.setStream("b", Stream{}, start)
	require.Len(t, r.view(start.Add(KeepShare-1)).Shares, 2, "what b has is kept while its share is")
	v = r.view(start.Add(KeepShare))
	require.Equal(t, []Share{{identity(2), "a", true}, {identity(3), "a", true}}, v.Shares)
}

func TestNodesAreBounded(t *testing.T) {
	r := newRegistry()
	for i := range MaxNodes {
		require.True(t, r.setGossip(fmt.Sprint(i), "x", meta{Role: RoleProber}, start))
	}
	require.False(t, r.setGossip("more", "x", meta{Role: RoleProber}, start))
	require.Len(t, r.view(start).Nodes, MaxNodes)
}

// Whatever the order of events: shares are unique and sorted, they are those of nodes that are alive or absent for less
// than a minute, and a node without a stream is never usable for long.
func TestViewInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, now := newRegistry(), start
		lastLive := map[string]time.Time{} // last time that the stream was live
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			for name := range lastLive {
				if e := r.nodes[name]; e != nil && e.stream.Live {
					lastLive[name] = now
				}
			}
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				r.setGossip(name, "x", meta{Role: RoleProber}, now)
			case 1:
				r.removeGossip(name, now)
			case 2:
				if r.nodes[name] != nil {
					lastLive[name] = now
				}
				r.setStream(name, liveStream(rapid.IntRange(1, 4).Draw(t, "id")), now)
			case 3:
				r.setStream(name, Stream{}, now)
			}
			v := r.view(now)
			require.True(t, slices.IsSortedFunc(v.Shares,
				func(x, y Share) int { return strings.Compare(x.Name, y.Name) }))
			for i, s := range v.Shares {
				require.True(t, i == 0 || v.Shares[i-1].Name != s.Name, "one identity, two shares")
				require.Less(t, now.Sub(lastLive[s.Node]), KeepShare)
				n, _ := v.Node(s.Node)
				require.Contains(t, n.Identities, s.Identity)
				require.Equal(t, r.nodes[s.Node].stream.Usable, s.Usable)
			}
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	good := func() Config {
		return Config{Name: "n", Role: RoleProber, Listen: "10.0.0.1:1", Transport: newFakeNetwork().transport(1),
			Keys: [][]byte{keyA}}
	}
	_, err := New(good())
	require.NoError(t, err)
	for reason, corrupt := range map[string]func(*Config){
		"are needed":         func(c *Config) { c.Keys = nil },
		"no role":            func(c *Config) { c.Role = "cook" },
		"needs an address":   func(c *Config) { c.Listen = "" },
		"16, 24 or 32 bytes": func(c *Config) { c.Keys = [][]byte{[]byte("short")} },
		"the label has 256":  func(c *Config) { c.Label = strings.Repeat("x", 256) },
		"at most 512 fit":    func(c *Config) { c.Version = strings.Repeat("x", 480) },
	} {
		c := good()
		corrupt(&c)
		_, err := New(c)
		require.ErrorContains(t, err, reason)
	}
}

func FuzzReadMeta(f *testing.F) {
	b, _ := json.Marshal(meta{Protocol, RoleProber, "10.0.0.1:7947", "1.0"})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMeta("n", b)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		require.NoError(t, err)
		back, err := readMeta("n", again)
		require.NoError(t, err)
		require.Equal(t, m, back)
	})
}
