package prober

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/source"
)

// TestProbeOffTakesEffectAtOnce: rows in a ready queue when the table is reloaded with probe = "off" for their receiver
// are not asked, nor decoys for accepted ones, nor rows that come with a route of the old table.
func TestProbeOffTakesEffectAtOnce(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { return "250 2.1.5 ok" }, replyDelay: 10 * time.Second, maxAnswered: 4}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		var addrs []string
		for i := range 60 {
			addrs = append(addrs, fmt.Sprintf("u%d@a%d.example", i, i%3))
		}
		rows := b.rows(mxA, addrs...)
		time.AfterFunc(25*time.Second, func() { b.prober.SetTable(disabledTable(t, "mx.a.example")) })
		got := b.verify(10*time.Minute, rows...)
		time.Sleep(time.Minute) // what was in flight has been answered
		asked := h.count("RCPT")
		require.Positive(t, asked)
		require.Less(t, asked, len(rows)/2)
		unwanted := 0
		for _, r := range got {
			require.NotEqual(t, engine.Valid, r.Verdict.Status, "no decoy was refused")
			if verdictText(r.Verdict) == "UNKNOWN smtp_not_checked" {
				unwanted++
			}
		}
		require.Greater(t, unwanted, len(rows)/2)
		b.verify(time.Minute, b.rows(mxA, "late@a0.example", "late@b.example")...)
		require.Equal(t, asked, h.count("RCPT"))

		b.prober.SetTable(b.table)
		b.verify(time.Minute, b.rows(mxA, "again@c.example")...)
		require.Greater(t, h.count("RCPT"), asked, "on again")
	})
}

// onePerMinuteTable permits one connection a minute with one recipient: a decoy waits a minute for its own.
var onePerMinuteTable = tableWith("connections_per_minute = 0", "connections_per_minute = 1",
	"recipients_per_connection = 0", "recipients_per_connection = 1")

// TestNoDecoyAtForbiddenHosts: no connection is made to a receiver for a decoy that was pending when the table excluded
// it; once the receiver is allowed again it is asked like any other.
func TestNoDecoyAtForbiddenHosts(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann", "eve")}
	withTestNode(t, onePerMinuteTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example")
		time.AfterFunc(10*time.Second, func() { b.prober.SetTable(disabledTable(t, "mx.a.example")) })
		require.Equal(t, "RISKY accepted_unconfirmed",
			verdictText(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict))
		time.Sleep(5 * time.Minute)
		require.Len(t, h.snapshot().dialTimes, 1)
		b.prober.SetTable(b.table)
		rows = b.rows(mxA, "eve@a.example")
		require.Equal(t, "VALID", verdictText(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict), "on again")
	})
}

// quarantiningTable is a table in which Big is wide, and quarantines a source with a code.
func quarantiningTable(table, code string) string {
	return strings.Replace(table, "name = \"Big\"", "name = \"Big\"\nwide = true", 1) + `
[[provider.rule]]
id = "away"
code = "` + code + `"
text = ["stay away"]
meaning = "blocked"
blame = "us"
action = "quarantine"
for = "4h"
`
}

func useTwoSources(c *Config) {
	for i := range byte(2) {
		c.Sources = append(c.Sources[:i], source.Identity{Local: netip.AddrFrom4([4]byte{192, 0, 2, i}),
			EHLO: fmt.Sprintf("mail%d.us.example", i)})
	}
}

// TestNoDecoyWhereQuarantined: nor to a receiver that has quarantined the source; the probe that waits for the decoy is
// asked from another source, if there is one.
func TestNoDecoyWhereQuarantined(t *testing.T) {
	mx := []string{"mx.big.example"}
	for want, change := range map[string]func(*Config){"RISKY accepted_unconfirmed": nil, "VALID": useTwoSources} {
		h := &fakeServer{rcpt: func(local string) string {
			if local == "bob" {
				return "554 5.7.1 stay away"
			}
			return acceptsOnly("ann")(local)
		}}
		withTestNode(t, quarantiningTable(onePerMinuteTable, "554"), change, map[string]*fakeServer{mx[0]: h},
			func(b *testNode) {
				time.AfterFunc(10*time.Second, func() { b.single(time.Second, mx, "bob@a.example") })
				// Held for longer than bob's minute: a row returned at that instant would be asked again, and get the
				// quarantine.
				require.Equal(t, map[string]int{want: 1},
					b.verifyToEndHolding(10*time.Minute, b.rows(mx, "ann@a.example")))
				time.Sleep(3 * time.Hour)
				if change == nil {
					require.Len(t, h.snapshot().dialTimes, 2, "ann's and bob's")
				}
				require.Equal(t, 1, h.count("RCPT bob@"))
			})
	}
}

// TestQuarantinedBeforeDecoyReply: a decoy is not reported as closed if the receiver quarantines the source at the
// recipient before it and closes.
func TestQuarantinedBeforeDecoyReply(t *testing.T) {
	mx := []string{"mx.big.example"}
	for _, code := range []string{"421", "554"} {
		for want, change := range map[string]func(*Config){"RISKY accepted_unconfirmed": nil, "VALID": useTwoSources} {
			t.Run(code+" "+want, func(t *testing.T) {
				var away, gone atomic.Bool
				h := &fakeServer{replyDelay: 10 * time.Second, rcpt: func(local string) string {
					switch known := local == "ann" || local == "bob"; {
					case local == "bob" && !away.Swap(true):
						return code + " 5.7.1 stay away"
					case !known && away.Load() && !gone.Swap(true):
						return "" // closes
					}
					return acceptsOnly("ann", "bob")(local)
				}}
				if code == "421" {
					gone.Store(true) // it closes by itself
				}
				withTestNode(t, quarantiningTable(testTable, code), change, map[string]*fakeServer{mx[0]: h},
					func(b *testNode) {
						// ann was sent and not answered
						time.AfterFunc(25*time.Second, func() { b.single(time.Second, mx, "bob@a.example") })
						require.Equal(t, map[string]int{want: 1},
							b.verifyToEndHolding(10*time.Minute, b.rows(mx, "ann@a.example")))
						require.True(t, away.Load())
						require.True(t, gone.Load())
					})
			})
		}
	}
}

// TestSuppressedAddressIsNotRetried: an address that is suppressed while its row waits for a retry is not probed.
func TestSuppressedAddressIsNotRetried(t *testing.T) {
	var suppressed suppressList // holds the address
	h := &fakeServer{rcpt: func(string) string { return "451 4.7.1 Greylisted, try again later" }}
	forbid := func(c *Config) {
		c.SuppressedAddress = func(a engine.Address) bool {
			name := suppressed.Load()
			return name != nil &&
				a.Folded() == *name
		}
	}
	withTestNode(t, testTable, forbid, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example", "bob@a.example")
		b.verify(time.Minute, rows...)
		require.Equal(t, "UNKNOWN greylisted", verdictText(b.single(time.Second, mxA, "eve@b.example")))
		before := h.count("RCPT")
		suppressed.Store(new("ann@a.example"))
		b.verify(time.Minute, rows[0])
		require.Equal(t, before, h.count("RCPT"))
		suppressed.Store(new("eve@b.example"))
		time.Sleep(time.Hour) // for the single call's retries
		require.Equal(t, before, h.count("RCPT"))
		b.verify(time.Minute, rows[1])
		require.Greater(t, h.count("RCPT"), before)
	})
}

// TestNoConnectionWhereALookUpOutlivesItsPermission: a connection whose host is being looked up when the table excludes
// the receiver is not made.
func TestNoConnectionWhereALookUpOutlivesItsPermission(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		b.dnsDelay.Store(int64(time.Second))
		time.AfterFunc(time.Second/2, func() { b.prober.SetTable(disabledTable(t, "mx.a.example")) })
		rows := b.rows(mxA, "ann@a.example")
		require.Equal(t, "UNKNOWN smtp_not_checked",
			verdictText(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict))
		time.Sleep(time.Minute)
		require.Empty(t, h.snapshot().dialTimes)
		b.prober.SetTable(b.table)
		rows = b.rows(mxA, "ann@b.example")
		require.Equal(t, "VALID", verdictText(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict), "on again")
	})
}
