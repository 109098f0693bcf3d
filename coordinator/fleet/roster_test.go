package fleet

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/coordinator/cluster"
	"probity/engine"
	"probity/prober/wire"
)

var nobody = engine.DefaultTable().Unknown

var rosterNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

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
		all[n] = &member{name: n}
	}
	return all
}

func routeTo(t require.TestingT, host string) *engine.Route {
	r := engine.DefaultTable().NewRoute([]engine.MX{{Host: host}})
	return &r
}

func addressAt(t require.TestingT, s string) engine.Address {
	a, err := engine.Parse(s)
	require.NoError(t, err)
	return a
}

func TestKeysOfRoutes(t *testing.T) {
	google, own := routeTo(t, "aspmx.l.google.com"), routeTo(t, "mx.example.org")
	key := func(r *engine.Route, address string) (uint64, bool) {
		k, narrow := keyOf(r, addressAt(t, address))
		return uint64(k), narrow
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

// When identities come or go, a narrow route that moves rests until who had it has hung up, and for jobs until the minute of that
// one's budget is over; any other has its owner at once. Who was away before has had that minute.
func TestRoutesThatMoveRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		members := membersOf(names...)
		n, m := rapid.IntRange(1, 5).Draw(t, "before"), rapid.IntRange(1, 5).Draw(t, "after")
		before := newRoster(viewOf(true, names[:n]...), members, nil, rosterNow)
		k, narrow := keyOf(routeTo(t, "mx"+strconv.Itoa(rapid.IntRange(0, 1000).Draw(t, "route"))+".example.org"), addressAt(t, "a@example.org"))
		for _, m := range members {
			m.worked.Store(rosterNow.UnixNano())
		}
		idle := newRoster(viewOf(true, names[:m]...), members, before, rosterNow.Add(time.Minute))
		after := newRoster(viewOf(true, names[:m]...), members, before, rosterNow)
		was, is := before.owner(k, narrow, nobody, "", rosterNow), after.owner(k, narrow, nobody, "", rosterNow)
		require.True(t, was.ready())
		require.Equal(t, was.identity == is.identity, is.ready())
		soon := after.owner(k, narrow, nobody, "", rosterNow.Add(handover))
		require.Equal(t, was.identity == is.identity, soon.ready())
		soon = idle.owner(k, narrow, nobody, "", rosterNow.Add(time.Minute+handover))
		require.True(t, soon.ready(), "who has not been at work for a minute has used none of it")
		one := after.single(k, narrow, nobody, nil, rosterNow.Add(handover))
		require.True(t, one.ready(), "a single waits until the other has hung up")
		require.Equal(t, is.identity, one.identity)
		later := after.owner(k, narrow, nobody, "", rosterNow.Add(time.Minute))
		require.True(t, later.ready())
		require.Equal(t, is.identity, later.identity)
		away := newRoster(viewOf(false, names[:n]...), members, before, rosterNow)
		moved := newRoster(viewOf(true, names[:m]...), members, away, rosterNow)
		soon = moved.owner(k, narrow, nobody, "", rosterNow.Add(handover))
		require.True(t, soon.ready())
		wide := after.owner(k, false, nobody, "", rosterNow)
		require.True(t, wide.ready(), "each source has a budget of its own at a wide provider")
	})
}

// A route that moves from a node which never asked a receiver does not rest, and none of its singles goes to the former owner. A node
// counts as one that asked from the moment at which it is given something, and when it says so of itself.
func TestRoutesThatMoveFromNodesThatNeverAskedDoNotRest(t *testing.T) {
	for what, change := range map[string]func(*member){
		"never asked":               func(*member) {},
		"given work":                func(m *member) { m.given.Store(true) },
		"asked for another process": func(m *member) { m.fresh.Store(false) },
	} {
		members := membersOf("a", "b", "c")
		for _, m := range members {
			m.fresh.Store(true)
		}
		before := newRoster(viewOf(true, "a"), members, nil, rosterNow)
		change(members["a"])
		after := newRoster(viewOf(true, "a", "b", "c"), members, before, rosterNow)
		moved := 0
		for i := range 50 {
			k, narrow := keyOf(routeTo(t, "mx"+strconv.Itoa(i)+".example.org"), addressAt(t, "a@example.org"))
			is, one := after.owner(k, narrow, nobody, "", rosterNow), after.single(k, narrow, nobody, nil, rosterNow)
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

func TestPinnedRowsStayWhileTheirIdentityIsThere(t *testing.T) {
	members := membersOf("a", "b", "c")
	r := newRoster(viewOf(true, "a", "b", "c"), members, nil, rosterNow)
	for i := range 20 {
		k, narrow := keyOf(routeTo(t, "mx"+strconv.Itoa(i)+".example.org"), addressAt(t, "a@example.org"))
		o := r.owner(k, false, nobody, "b", rosterNow)
		require.Equal(t, "b", o.identity)
		mine, pinned := r.owner(k, narrow, nobody, "", rosterNow), r.owner(k, narrow, nobody, "b", rosterNow)
		require.Equal(t, mine.identity, pinned.identity, "a narrow route has one source, whoever asked before")
		o = r.owner(k, narrow, nobody, "gone", rosterNow)
		require.NotEmpty(t, o.identity)
	}
}

func TestSinglesGoToTheNextBestWhereThatIsPolite(t *testing.T) {
	members := membersOf("a", "b")
	view := viewOf(true, "a", "b")
	r := newRoster(view, members, nil, rosterNow)
	k, narrow := keyOf(routeTo(t, "aspmx.l.google.com"), addressAt(t, "x@example.org"))
	first := r.single(k, narrow, nobody, nil, rosterNow)
	next := r.single(k, narrow, nobody, map[*member]bool{first.node: true}, rosterNow)
	require.NotEqual(t, first.identity, next.identity)
	none := r.single(k, narrow, nobody, map[*member]bool{first.node: true, next.node: true}, rosterNow)
	require.False(t, none.found())

	k, narrow = keyOf(routeTo(t, "mx.example.org"), addressAt(t, "x@example.org"))
	first = r.single(k, narrow, nobody, nil, rosterNow)
	again := r.single(k, narrow, nobody, map[*member]bool{first.node: true}, rosterNow)
	require.Equal(t, first.identity, again.identity, "a narrow route has one source, there or not")
}

func TestRowsOfNobodyComeHome(t *testing.T) {
	r := newRoster(&cluster.View{}, nil, nil, rosterNow)
	batch := &wire.Batch{Job: "j", Chunk: 3, Epoch: 2, Rows: []wire.Row{{Number: 7, Attempt: 1, Address: addressAt(t, "a@example.org"), Route: routeTo(t, "mx.example.org")}}}
	f := &Fleet{parts: nil}
	f.cfg.Suppressed = func(string, []string) bool { return false }
	f.cfg.SuppressedAddress = func(engine.Address) bool { return false }
	f.roster.Store(r)
	var got []wire.Results
	require.NoError(t, f.Verify(t.Context(), batch, time.Minute, func(r wire.Results) { got = append(got, r) }))
	require.Len(t, got, 2)
	require.Equal(t, wire.Later, got[0].Rows[0].Outcome)
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

func TestWhereNodesAreReached(t *testing.T) {
	for listen, want := range map[string]string{
		"10.0.0.2:7947":   "10.0.0.2:7947",
		"p1.example:7947": "p1.example:7947",
		"0.0.0.0:7947":    "10.0.0.9:7947",
		"[::]:7947":       "10.0.0.9:7947",
		"":                "",
	} {
		require.Equal(t, want, reachOf(&cluster.Node{Listen: listen, Gossip: "10.0.0.9:7946"}), listen)
	}
	require.Empty(t, reachOf(&cluster.Node{Listen: "0.0.0.0:7947"}), "what was known before holds")
}
