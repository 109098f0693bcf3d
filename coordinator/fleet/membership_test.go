package fleet

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/coordinator/cluster"
	"probity/coordinator/shard"
	"probity/engine"
	"probity/internal/detector"
	"probity/prober/wire"
	"probity/prober/wire/stream"
)

var (
	testTable       = engine.DefaultTable()
	unknownProvider = testTable.Unknown
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// viewOf is a view of nodes with one identity each, of the node's name.
func viewOf(usable bool, names ...string) *cluster.View {
	v := &cluster.View{}
	for _, n := range names {
		v.Shares = append(v.Shares, cluster.Share{Identity: cluster.Identity{Name: n}, Node: n, Usable: usable})
	}
	return v
}

func membersOf(names ...string) map[string]*member {
	all := map[string]*member{}
	for _, n := range names {
		all[n] = &member{name: n, client: &stream.Client{}}
	}
	return all
}

func routeTo(host string) *engine.Route {
	r := testTable.NewRoute([]engine.MX{{Host: host}})
	return &r
}

func addressAt(t require.TestingT, s string) engine.Address {
	a, err := engine.Parse(s)
	require.NoError(t, err)
	return a
}

func TestKeysOfRoutes(t *testing.T) {
	google, own := routeTo("aspmx.l.google.com"), routeTo("mx.example.org")
	key := func(r *engine.Route, address string) (shard.Key, bool) {
		return keyOf(r, addressAt(t, address))
	}
	a, narrow := key(own, "a@example.org")
	b, _ := key(own, "b@example.com")
	require.True(t, narrow)
	require.Equal(t, a, b, "a narrow route has one key")
	a, narrow = key(google, "a@example.org")
	b, _ = key(google, "b@example.org")
	c, _ := key(google, "a@example.com")
	require.False(t, narrow)
	require.Equal(t, a, b, "a domain of a wide provider has one key")
	require.NotEqual(t, a, c)
	a, _ = key(google, "ann@gmail.com")
	b, _ = key(google, "bob@gmail.com")
	require.NotEqual(t, a, b, "at a consumer domain each address has its own")
}

// When identities come or go, a narrow route that moves waits until its former owner has closed its connections and,
// for jobs, until that one's per-minute budget has expired; any other route has its owner at once. For an owner that
// was absent before, it has.
func TestMovedRoutesWaitForTheFormerOwner(t *testing.T) {
	detector.Spare(t)
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		members := membersOf(names...)
		n, m := rapid.IntRange(1, 5).Draw(t, "before"), rapid.IntRange(1, 5).Draw(t, "after")
		before := newMembership(viewOf(true, names[:n]...), members, nil, testNow)
		k, narrow := keyOf(routeTo("mx"+strconv.Itoa(rapid.IntRange(0, 1000).Draw(t, "route"))+".example.org"),
			addressAt(t, "a@example.org"))
		for _, m := range members {
			m.lastWork.Store(testNow.UnixNano())
		}
		idle := newMembership(viewOf(true, names[:m]...), members, before, testNow.Add(time.Minute))
		after := newMembership(viewOf(true, names[:m]...), members, before, testNow)
		was, is := before.ownerOf(k, narrow, unknownProvider, "", testNow),
			after.ownerOf(k, narrow, unknownProvider, "", testNow)
		require.True(t, was.ready())
		require.Equal(t, was.identity == is.identity, is.ready())
		soon := after.ownerOf(k, narrow, unknownProvider, "", testNow.Add(handover))
		require.Equal(t, was.identity == is.identity, soon.ready())
		soon = idle.ownerOf(k, narrow, unknownProvider, "", testNow.Add(time.Minute+handover))
		require.True(t, soon.ready(), "who has not been at work for a minute has used none of it")
		one := after.ownerForSingle(k, narrow, unknownProvider, nil, testNow.Add(handover))
		require.True(t, one.ready(), "a single waits until the other has hung up")
		require.Equal(t, is.identity, one.identity)
		later := after.ownerOf(k, narrow, unknownProvider, "", testNow.Add(time.Minute))
		require.True(t, later.ready())
		require.Equal(t, is.identity, later.identity)
		unreached := newMembership(viewOf(false, names[:n]...), members, before, testNow)
		moved := newMembership(viewOf(true, names[:m]...), members, unreached, testNow)
		soon = moved.ownerOf(k, narrow, unknownProvider, "", testNow.Add(handover))
		require.True(t, soon.ready())
		wide := after.ownerOf(k, false, unknownProvider, "", testNow)
		require.True(t, wide.ready(), "each source has a budget of its own at a wide provider")
	})
}

// TestStormsOfChangesKeepOneSource: however many nodes come or go one by one, a narrow route has its new owner only a
// minute after the former one could ask, and nodes that come have joined soon after the last.
func TestStormsOfChangesKeepOneSource(t *testing.T) {
	detector.SpareByDay(t)
	const nodes, step = 200, 250 * time.Millisecond
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("192.0.2.%d", i)
	}
	storms := map[string]func(step int) []string{
		"come": func(step int) []string { return names[:min(1+step, nodes)] },
		"go":   func(step int) []string { return names[min(step, nodes/2):] },
		"both": func(step int) []string { return names[min(step, nodes)/2 : min(nodes/2+step, nodes)] },
	}
	for what, present := range storms {
		t.Run(what, func(t *testing.T) {
			members, now := membersOf(names...), testNow
			var r *membership
			type use struct {
				identity string
				at       time.Time
			}
			last := map[int]use{}
			for i := range int(4 * time.Minute / step) {
				for _, m := range members {
					m.lastWork.Store(now.UnixNano())
				}
				r = newMembership(viewOf(true, present(i)...), members, r, now)
				require.LessOrEqual(t, len(r.formerSets), maxFormerSets)
				for route := range 100 {
					k, narrow := keyOf(routeTo(fmt.Sprintf("mx%d.example.org", route)), addressAt(t, "a@example.org"))
					o := r.ownerOf(k, narrow, unknownProvider, "", now)
					if !o.ready() {
						continue
					}
					if was := last[route]; was.identity != "" && was.identity != o.identity {
						require.GreaterOrEqual(t, now.Sub(was.at), time.Minute, "mx%d", route)
					}
					last[route] = use{o.identity, now}
				}
				now = now.Add(step)
			}
			require.Equal(t, len(present(1<<30)), r.set.Len(), "all that came have joined")
			require.Len(t, last, 100)
			for route, is := range last {
				require.Equal(t, now.Add(-step), is.at, "mx%d is asked again", route)
			}
		})
	}
}

// A route that moves from a node which never contacted a receiver does not wait, and none of its single calls goes to
// the former owner. A node counts as used once it is sent work, or when it says so itself.
func TestRoutesOfUnusedNodesMoveAtOnce(t *testing.T) {
	detector.Spare(t)
	for what, change := range map[string]func(*member){
		"never asked":               func(*member) {},
		"given work":                func(m *member) { m.used.Store(true) },
		"asked for another process": func(m *member) { m.fresh.Store(false) },
	} {
		members := membersOf("a", "b", "c")
		for _, m := range members {
			m.fresh.Store(true)
		}
		before := newMembership(viewOf(true, "a"), members, nil, testNow)
		change(members["a"])
		after := newMembership(viewOf(true, "a", "b", "c"), members, before, testNow)
		moved := 0
		for i := range 50 {
			k, narrow := keyOf(routeTo("mx"+strconv.Itoa(i)+".example.org"), addressAt(t, "a@example.org"))
			is, one := after.ownerOf(k, narrow, unknownProvider, "", testNow),
				after.ownerForSingle(k, narrow, unknownProvider, nil, testNow)
			if is.identity == "a" {
				require.True(t, is.ready(), what)
				continue
			}
			moved++
			require.Equal(t, what == "never asked", is.ready(), what)
			if what == "never asked" {
				require.Equal(t, is.identity, one.identity)
			} else {
				require.Equal(t, "a", one.identity, "while it hands over")
			}
		}
		require.Greater(t, moved, 20)
	}
}

func TestPinnedRowsStayAtTheirIdentity(t *testing.T) {
	members := membersOf("a", "b", "c")
	r := newMembership(viewOf(true, "a", "b", "c"), members, nil, testNow)
	for i := range 20 {
		k, narrow := keyOf(routeTo("mx"+strconv.Itoa(i)+".example.org"), addressAt(t, "a@example.org"))
		o := r.ownerOf(k, false, unknownProvider, "b", testNow)
		require.Equal(t, "b", o.identity)
		mine, pinned := r.ownerOf(k, narrow, unknownProvider, "", testNow),
			r.ownerOf(k, narrow, unknownProvider, "b", testNow)
		require.Equal(t, mine.identity, pinned.identity, "a narrow route has one source, whoever asked before")
		o = r.ownerOf(k, narrow, unknownProvider, "gone", testNow)
		require.NotEmpty(t, o.identity)
	}
}

func TestSinglesFallBackOnlyAtWideProviders(t *testing.T) {
	members := membersOf("a", "b")
	view := viewOf(true, "a", "b")
	r := newMembership(view, members, nil, testNow)
	k, narrow := keyOf(routeTo("aspmx.l.google.com"), addressAt(t, "x@example.org"))
	first := r.ownerForSingle(k, narrow, unknownProvider, nil, testNow)
	next := r.ownerForSingle(k, narrow, unknownProvider, map[*member]bool{first.node: true}, testNow)
	require.NotEqual(t, first.identity, next.identity)
	none := r.ownerForSingle(k, narrow, unknownProvider, map[*member]bool{first.node: true, next.node: true}, testNow)
	require.False(t, none.found())

	k, narrow = keyOf(routeTo("mx.example.org"), addressAt(t, "x@example.org"))
	first = r.ownerForSingle(k, narrow, unknownProvider, nil, testNow)
	again := r.ownerForSingle(k, narrow, unknownProvider, map[*member]bool{first.node: true}, testNow)
	require.Equal(t, first.identity, again.identity, "a narrow route has one source, there or not")
}

func TestRowsWithoutOwnerAreReturned(t *testing.T) {
	r := newMembership(&cluster.View{}, nil, nil, testNow)
	batch := &wire.Batch{Job: "j", Chunk: 3, Epoch: 2,
		Rows: []wire.Row{{Number: 7, Attempt: 1, Address: addressAt(t, "a@example.org"),
			Route: routeTo("mx.example.org")}}}
	f := &Fleet{parts: nil}
	f.cfg.Suppressed = func(string, []string) bool { return false }
	f.cfg.SuppressedAddress = func(engine.Address) bool { return false }
	f.membership.Store(r)
	var got []wire.Results
	require.NoError(t, f.Verify(t.Context(), batch, time.Minute, func(r wire.Results) { got = append(got, r) }))
	require.Len(t, got, 2)
	require.Equal(t, wire.Returned, got[0].Rows[0].Outcome)
	require.EqualValues(t, 1, got[0].Rows[0].Attempt)
	require.True(t, got[1].Done)

	none, noAddress := f.cfg.Suppressed, f.cfg.SuppressedAddress
	for _, forbid := range []func(){
		func() { f.cfg.Suppressed = func(domain string, _ []string) bool { return domain == "example.org" } },
		func() { f.cfg.SuppressedAddress = func(a engine.Address) bool { return a.Folded() == "a@example.org" } },
	} {
		f.cfg.Suppressed, f.cfg.SuppressedAddress = none, noAddress
		forbid()
		got = nil
		require.NoError(t, f.Verify(t.Context(), batch, time.Minute, func(r wire.Results) { got = append(got, r) }))
		require.Equal(t, wire.Settled, got[0].Rows[0].Outcome)
		require.Equal(t, engine.ReasonSMTPNotChecked, got[0].Rows[0].Verdict.Reason)
	}
}

// TestRowsThatWereNotSentUseNoBudget: rows for a node that has gone before it was sent them come back, and count as
// refused nowhere: the next owner of their route would wait an hour for nothing.
func TestRowsThatWereNotSentUseNoBudget(t *testing.T) {
	members := membersOf("a")
	f := &Fleet{members: members, parts: map[*part]context.CancelFunc{},
		usage: clusterUsage{routes: routeUsage{}}}
	f.cfg.Suppressed = func(string, []string) bool { return false }
	f.cfg.SuppressedAddress = func(engine.Address) bool { return false }
	f.membership.Store(newMembership(viewOf(true, "a"), members, nil, testNow))
	route := routeTo("mx.example.org")
	batch := &wire.Batch{Job: "j", Rows: []wire.Row{{Number: 7, Address: addressAt(t, "a@example.org"), Route: route}}}
	var got []wire.Results
	require.NoError(t, f.Verify(t.Context(), batch, time.Minute, func(r wire.Results) { got = append(got, r) }))
	require.Len(t, got, 2)
	require.Equal(t, wire.Returned, got[0].Rows[0].Outcome)
	require.Zero(t, f.usage.usedByOthers(route, "b", time.Now()))
	f.usage.addUnanswered(route, "a", time.Now())
	require.Equal(t, 1, f.usage.usedByOthers(route, "b", time.Now()).Used, "as a row that was sent does")
}

func TestStreamAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"10.0.0.2:7947":   "10.0.0.2:7947",
		"p1.example:7947": "p1.example:7947",
		"0.0.0.0:7947":    "10.0.0.9:7947",
		"[::]:7947":       "10.0.0.9:7947",
		"":                "",
	} {
		require.Equal(t, want, streamAddress(&cluster.Node{Listen: listen, Gossip: "10.0.0.9:7946"}), listen)
	}
	require.Empty(t, streamAddress(&cluster.Node{Listen: "0.0.0.0:7947"}), "what was known before holds")
}
