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
)

// TestOffMeansOffAtOnce: rows that wait in a lane when the table is reloaded with probe = "off" for their receiver are not asked, nor
// are decoys for those that were accepted, nor rows that come with a route of the table before.
func TestOffMeansOffAtOnce(t *testing.T) {
	h := &host{rcpt: func(string) string { return "250 2.1.5 ok" }, slow: 10 * time.Second, most: 4}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		var addrs []string
		for i := range 60 {
			addrs = append(addrs, fmt.Sprintf("u%d@a%d.example", i, i%3))
		}
		rows := b.rows(mxa, addrs...)
		time.AfterFunc(25*time.Second, func() { b.prober.SetTable(offTable(t, "mx.a.example")) })
		got := b.verify(10*time.Minute, rows...)
		time.Sleep(time.Minute) // what was on its way has been heard
		asked := h.count("RCPT")
		require.Positive(t, asked)
		require.Less(t, asked, len(rows)/2)
		unasked := 0
		for _, r := range got {
			require.NotEqual(t, engine.Valid, r.Verdict.Status, "no decoy was refused")
			if spell(r.Verdict) == "UNKNOWN smtp_not_checked" {
				unasked++
			}
		}
		require.Greater(t, unasked, len(rows)/2)
		b.verify(time.Minute, b.rows(mxa, "late@a0.example", "late@b.example")...)
		require.Equal(t, asked, h.count("RCPT"))

		b.prober.SetTable(b.table)
		b.verify(time.Minute, b.rows(mxa, "again@c.example")...)
		require.Greater(t, h.count("RCPT"), asked, "on again")
	})
}

// oneAMinute has receivers take one connection a minute, with one recipient on it: a decoy waits a minute for its own.
var oneAMinute = limited("connections_per_minute = 0", "connections_per_minute = 1", "recipients_per_connection = 0", "recipients_per_connection = 1")

// TestNoDecoyWhereNobodyIsToBeAsked: a decoy that was wanted when its receiver was forbidden is not worth a connection to it, were it
// without a recipient; once the receiver is allowed again it is asked as any other.
func TestNoDecoyWhereNobodyIsToBeAsked(t *testing.T) {
	h := &host{rcpt: knows("ann", "eve")}
	inLab(t, oneAMinute, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example")
		time.AfterFunc(10*time.Second, func() { b.prober.SetTable(offTable(t, "mx.a.example")) })
		require.Equal(t, "RISKY accepted_unconfirmed", spell(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict))
		time.Sleep(5 * time.Minute)
		require.Len(t, h.saw().dialed, 1)
		for _, l := range b.prober.allLanes() {
			l.mu.Lock()
			require.Empty(t, l.places)
			require.Empty(t, l.groups)
			l.mu.Unlock()
		}
		b.prober.SetTable(b.table)
		rows = b.rows(mxa, "eve@a.example")
		require.Equal(t, "VALID", spell(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict), "on again")
	})
}

// awayTable is a table in which Big is wide, and sends a source away with a code.
func awayTable(table, code string) string {
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

func fromTwo(c *Config) {
	for i := range byte(2) {
		c.Identities = append(c.Identities[:i], Identity{Local: netip.AddrFrom4([4]byte{192, 0, 2, i}), EHLO: fmt.Sprintf("mail%d.us.example", i)})
	}
}

// TestNoDecoyWhereTheSourceRests: nor is it worth a connection to a receiver that has sent the source away; who waits for it is asked
// from another source, where there is one.
func TestNoDecoyWhereTheSourceRests(t *testing.T) {
	mx := []string{"mx.big.example"}
	for want, change := range map[string]func(*Config){"RISKY accepted_unconfirmed": nil, "VALID": fromTwo} {
		h := &host{rcpt: func(local string) string {
			if local == "bob" {
				return "554 5.7.1 stay away"
			}
			return knows("ann")(local)
		}}
		inLab(t, awayTable(oneAMinute, "554"), change, map[string]*host{mx[0]: h}, func(b *lab) {
			time.AfterFunc(10*time.Second, func() { b.single(time.Second, mx, "bob@a.example") })
			// Held for longer than bob waits for his minute: a row handed back at that instant would be asked anew, and be told of the rest.
			require.Equal(t, map[string]int{want: 1}, b.finishHolding(10*time.Minute, b.rows(mx, "ann@a.example")))
			time.Sleep(3 * time.Hour)
			if change == nil {
				require.Len(t, h.saw().dialed, 2, "ann's and bob's")
			}
			require.Equal(t, 1, h.count("RCPT bob"))
		})
	}
}

// TestSentAwayBeforeADecoy: nor is it told as closed where the receiver sends the source away for the one before it, and hangs up.
func TestSentAwayBeforeADecoy(t *testing.T) {
	mx := []string{"mx.big.example"}
	for _, code := range []string{"421", "554"} {
		for want, change := range map[string]func(*Config){"RISKY accepted_unconfirmed": nil, "VALID": fromTwo} {
			t.Run(code+" "+want, func(t *testing.T) {
				var away, gone atomic.Bool
				h := &host{slow: 10 * time.Second, rcpt: func(local string) string {
					switch known := local == "ann" || local == "bob"; {
					case local == "bob" && !away.Swap(true):
						return code + " 5.7.1 stay away"
					case !known && away.Load() && !gone.Swap(true):
						return "" // hangs up
					}
					return knows("ann", "bob")(local)
				}}
				if code == "421" {
					gone.Store(true) // it hangs up by itself
				}
				inLab(t, awayTable(labTable, code), change, map[string]*host{mx[0]: h}, func(b *lab) {
					time.AfterFunc(25*time.Second, func() { b.single(time.Second, mx, "bob@a.example") }) // ann has been asked and not answered
					require.Equal(t, map[string]int{want: 1}, b.finishHolding(10*time.Minute, b.rows(mx, "ann@a.example")))
					require.True(t, away.Load())
					require.True(t, gone.Load())
				})
			})
		}
	}
}

// TestASuppressedAddressIsNotAskedAgain: whoever asks not to be probed while his row waits for a retry is not asked by it.
func TestASuppressedAddressIsNotAskedAgain(t *testing.T) {
	var wished wish // holds the address
	h := &host{rcpt: func(string) string { return "451 4.7.1 Greylisted, try again later" }}
	forbid := func(c *Config) {
		c.SuppressedAddress = func(a engine.Address) bool { name := wished.Load(); return name != nil && a.Folded() == *name }
	}
	inLab(t, labTable, forbid, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "bob@a.example")
		b.verify(time.Minute, rows...)
		require.Equal(t, "UNKNOWN greylisted", spell(b.single(time.Second, mxa, "eve@b.example")))
		before := h.count("RCPT")
		wished.Store(new("ann@a.example"))
		b.verify(time.Minute, rows[0])
		require.Equal(t, before, h.count("RCPT"))
		wished.Store(new("eve@b.example"))
		time.Sleep(time.Hour) // for the single's retries
		require.Equal(t, before, h.count("RCPT"))
		b.verify(time.Minute, rows[1])
		require.Greater(t, h.count("RCPT"), before)
	})
}
