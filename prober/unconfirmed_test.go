package prober

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/detector"
	"probity/prober/wire"
)

// acceptsAllPast is an rcpt script of a host that knows ann alone, accepts every recipient once it has refused so many,
// and sends its replies late, over some connections later than over others.
func acceptsAllPast(past int64, seed uint64) func(string) string {
	var refused atomic.Int64
	var asked atomic.Uint64
	return func(local string) string {
		random := rand.New(rand.NewPCG(seed, asked.Add(1)))
		late := time.Duration(random.IntN(2000)) * time.Millisecond
		if local == "ann" || refused.Load() >= past {
			time.Sleep(late)
			return "250 2.1.5 ok"
		}
		refused.Add(1)
		time.Sleep(late)
		return "550 5.1.1 User unknown"
	}
}

// TestSilentAcceptanceIsSeenOverOtherRoutes: a hoster counts unknown recipients at its address, whatever their route.
// Those in flight over another route may be what made it silent, though their replies come later.
func TestSilentAcceptanceIsSeenOverOtherRoutes(t *testing.T) {
	detector.SpareByDay(t)
	table := strings.NewReplacer("connections = 2", "connections = 4", "recipients_per_transaction = 0",
		"recipients_per_transaction = 2", "refusals_per_hour = 0", "refusals_per_hour = 20").Replace(testTable)
	for past := int64(10); past < 18; past++ {
		for seed := range uint64(2) {
			h := &fakeServer{rcpt: acceptsAllPast(past, seed), noPipelining: true}
			two := func(b *testNode) []wire.Row {
				var rows []wire.Row
				for i := range 40 {
					d := i % 2
					rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d.a.example", d)},
						fmt.Sprintf("nobody%d@a%d.example", i, d))...)
				}
				return rows
			}
			withTestNode(t, table, nil, map[string]*fakeServer{"mx0.a.example": h,
				"mx1.a.example": {addr: aliasAddr, down: true}}, func(b *testNode) {
				b.resolve = func(string) []netip.Addr { return []netip.Addr{h.addr} }
				for d := range 2 {
					for _, r := range b.verify(10*time.Minute,
						b.rows([]string{fmt.Sprintf("mx%d.a.example", d)}, fmt.Sprintf("ann@a%d.example", d))...) {
						require.Equal(t, "VALID", verdictText(r.Verdict), "the decoys are refused")
					}
				}
				for _, r := range b.verify(10*time.Minute, two(b)...) {
					require.NotEqual(t, engine.Valid, r.Verdict.Status, "silent past %d, seed %d: %v", past, seed,
						h.snapshot().log)
				}
			})
		}
	}
}

// TestSilentAcceptanceIsSeenOverManyConnections asks over four connections at once about mailboxes that do not exist,
// of a receiver that accepts every recipient when it has refused as many as half of what it bears: the refusals that
// made it silent arrive after the acceptances that came of them, and yet no address is called VALID.
func TestSilentAcceptanceIsSeenOverManyConnections(t *testing.T) {
	detector.SpareByDay(t)
	table := strings.NewReplacer("connections = 2", "connections = 4", "recipients_per_transaction = 0",
		"recipients_per_transaction = 2", "refusals_per_hour = 0", "refusals_per_hour = 20").Replace(testTable)
	for past := int64(10); past < 18; past++ {
		for seed := range uint64(3) {
			h := &fakeServer{rcpt: acceptsAllPast(past, seed), noPipelining: true}
			withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				known := b.rows(mxA, "ann@a0.example", "ann@a1.example", "ann@a2.example", "ann@a3.example")
				for _, r := range b.verify(10*time.Minute, known...) {
					require.Equal(t, "VALID", verdictText(r.Verdict), "the decoys are refused")
				}
				var addrs []string
				for i := range 40 {
					addrs = append(addrs, fmt.Sprintf("nobody%d@a%d.example", i, i%4))
				}
				for _, r := range b.verify(10*time.Minute, b.rows(mxA, addrs...)...) {
					require.NotEqual(t, engine.Valid, r.Verdict.Status, "silent past %d, seed %d: %v", past, seed,
						h.snapshot().log)
				}
			})
		}
	}
}
