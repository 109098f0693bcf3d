package prober

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// liar is a receiver that is asked about a list of mailboxes, half of which exist: those whose names begin with ann.
type liar struct {
	// connection makes the script of a connection. The receiver is at work in one goroutine for each connection, so the script of all
	// is called under one lock.
	connection func() rcptScript
	catchAll   bool // it delivers mail to every mailbox: none may be VALID, and none INVALID
	right      int  // so many of the 24 rows get their right verdict at least
	domains    int  // of the rows; 0 is one
}

const (
	acceptedReply = "250 2.1.5 ok"
	unknownReply  = "550 5.1.1 User unknown"
)

func exists(local string) bool { return strings.HasPrefix(local, "ann") }

// honest is the script of a receiver that says the truth.
func honest(local, _ string) string {
	if exists(local) {
		return acceptedReply
	}
	return unknownReply
}

// checkLiar verifies a list of 24 shuffled rows at a receiver until each is settled, under the shipped table and in virtual time. No verdict
// may be false.
func checkLiar(t *testing.T, make func() liar) {
	for seed := range uint64(6) {
		l := make()
		var mu sync.Mutex
		h := &fakeServer{replyDelay: 50 * time.Millisecond, connection: func() rcptScript {
			mu.Lock()
			defer mu.Unlock()
			script := l.connection()
			return func(local, domain string) string {
				mu.Lock()
				defer mu.Unlock()
				return script(local, domain)
			}
		}}
		withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			right := 0
			for addr, v := range b.verifyList(seed, mixedAddresses(24, 2, max(1, l.domains))) {
				there := exists(addr)
				require.False(t, v.Status == engine.Valid && (l.catchAll || !there), "seed %d: %s is VALID: %v", seed, addr, h.snapshot().log)
				require.False(t, v.Status == engine.Invalid && (l.catchAll || there), "seed %d: %s is INVALID: %v", seed, addr, h.snapshot().log)
				if v.Status == engine.Valid || v.Status == engine.Invalid || l.catchAll && v.Reason == engine.ReasonCatchAll {
					right++
				}
			}
			require.GreaterOrEqual(t, right, l.right, "seed %d: %v", seed, h.snapshot().log)
		})
	}
}

// mixedAddresses are addresses at some domains; one of so many does not exist.
func mixedAddresses(n, oneOf, domains int) (addrs []string) {
	for i := range n {
		local := "ann"
		if i%oneOf == 0 {
			local = "nobody"
		}
		addrs = append(addrs, fmt.Sprintf("%s%d@d%d.example", local, i, i/oneOf%domains))
	}
	return addrs
}

// verifyList verifies addresses in a random order as a coordinator does: rows come again when they are due, until each is settled.
func (b *testNode) verifyList(seed uint64, addrs []string) map[string]engine.Verdict {
	rand.New(rand.NewPCG(seed, 40)).Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	settled, rows := map[string]engine.Verdict{}, b.rows(mxA, addrs...)
	due := map[uint32]time.Time{}
	for began := time.Now(); len(rows) > 0; {
		require.Less(b.t, time.Since(began), 30*time.Hour, "the list does not end")
		var now, later []wire.Row
		for _, r := range rows {
			if due[r.Number].After(time.Now()) {
				later = append(later, r)
			} else {
				now = append(now, r)
			}
		}
		if len(now) == 0 {
			time.Sleep(time.Second)
			continue
		}
		got := b.verify(10*time.Minute, now...)
		for _, r := range now {
			switch x := got[r.Number]; x.Outcome {
			case wire.Settled:
				settled[r.Address.String()] = x.Verdict
			case wire.Deferred:
				r.Attempt = x.Attempt
				fallthrough
			default:
				due[r.Number] = x.Due
				later = append(later, r)
			}
		}
		rows = later
	}
	return settled
}

// TestFirstRecipientOnly: a catch-all domain whose host takes the first recipient of a connection, and refuses the others in words that are
// not about them.
func TestFirstRecipientOnly(t *testing.T) {
	for _, words := range []string{"550 No more", "550 5.5.0 One at a time, thank you", "554 transaction closed"} {
		checkLiar(t, func() liar {
			return liar{catchAll: true, connection: func() rcptScript {
				answered := 0
				return func(string, string) string {
					if answered++; answered > 1 {
						return words
					}
					return acceptedReply
				}
			}}
		})
	}
}

// TestGreylistingInTheWordsOfAnUnknownUser: a catch-all domain that makes each recipient wait, and calls it unknown meanwhile.
func TestGreylistingInTheWordsOfAnUnknownUser(t *testing.T) {
	for _, words := range []string{"450 4.1.1 User unknown", "451 4.1.1 No such user here", "450 mailbox not found, try later", "450 4.1.1 Recipient address rejected: User unknown in local recipient table",
		"451 unknown recipient, come back in five minutes"} {
		checkLiar(t, func() liar {
			first := map[string]time.Time{}
			return liar{catchAll: true, right: 20, connection: func() rcptScript {
				return func(local, _ string) string {
					if first[local].IsZero() {
						first[local] = time.Now()
					}
					if time.Since(first[local]) < 5*time.Minute {
						return words
					}
					return acceptedReply
				}
			}}
		})
	}
}

// TestUnknownUsersAreDeferred: an honest receiver that refuses unknown users with a temporary code.
func TestUnknownUsersAreDeferred(t *testing.T) {
	checkLiar(t, func() liar {
		return liar{right: 12, connection: func() rcptScript {
			return func(local, _ string) string {
				if exists(local) {
					return acceptedReply
				}
				return "450 4.1.1 Recipient address rejected: User unknown in local recipient table"
			}
		}}
	})
}

// silentAfter is the script of a receiver that accepts every recipient for some time, once a source asked for so many unknown ones. It counts
// anew afterwards.
func silentAfter(unknown int, lasts time.Duration) rcptScript {
	refused, silent := 0, time.Time{}
	return func(local, domain string) string {
		if time.Now().Before(silent) {
			return acceptedReply
		}
		if !exists(local) {
			if refused++; refused == unknown {
				refused, silent = 0, time.Now().Add(lasts)
			}
		}
		return honest(local, domain)
	}
}

// TestSilentAcceptance: a receiver that accepts every recipient after a few unknown ones.
func TestSilentAcceptance(t *testing.T) {
	for _, unknown := range []int{3, 5, 8, 12} {
		for _, domains := range []int{1, 8} {
			for _, lasts := range []time.Duration{10 * time.Minute, time.Hour} {
				checkLiar(t, func() liar {
					script := silentAfter(unknown, lasts)
					return liar{right: 1, domains: domains, connection: func() rcptScript { return script }}
				})
			}
		}
	}
}

// TestSilentAcceptanceIsNoCatchAllForAWeek: a domain of a host that fell silent gets its verdict when the host tells the truth again.
func TestSilentAcceptanceIsNoCatchAllForAWeek(t *testing.T) {
	script := silentAfter(3, 10*time.Minute)
	h := &fakeServer{rcptByDomain: script}
	withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		for i := range 3 {
			b.single(time.Minute, mxA, fmt.Sprintf("nobody%d@first.example", i))
		}
		require.Equal(t, "RISKY catch_all", verdictText(b.single(time.Minute, mxA, "ann@second.example")))
		time.Sleep(2 * time.Hour)
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann2@second.example")))
	})
}

// TestDomainThatBecomesACatchAllPausesItsHostOnce: a domain that is a catch-all now, and was none when its decoy was refused, looks like a host
// that fell silent. It does so once.
func TestDomainThatBecomesACatchAllPausesItsHostOnce(t *testing.T) {
	catchAll := false
	h := &fakeServer{rcptByDomain: func(local, domain string) string {
		if catchAll && domain == "turned.example" {
			return acceptedReply
		}
		return honest(local, domain)
	}}
	withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@turned.example")))
		catchAll = true
		require.Equal(t, "RISKY accepted_unconfirmed", verdictText(b.verifyLastAttempt("ann2@turned.example").Verdict))
		time.Sleep(61 * time.Minute)
		b.single(time.Minute, mxA, "nobody@other.example")
		require.Equal(t, "RISKY catch_all", verdictText(b.verifyLastAttempt("ann3@turned.example").Verdict))
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@other.example")), "the host is not paused")
	})
}

// TestControlsCostLittle: an honest receiver of 400 rows is asked for hardly more recipients than there are rows, and refuses hardly more than
// do not exist.
func TestControlsCostLittle(t *testing.T) {
	for _, c := range []struct{ oneOf, recipients, refusals int }{{20, 404, 24}, {10, 404, 44}, {5, 404, 84}} {
		for seed := range uint64(3) {
			h := &fakeServer{replyDelay: 50 * time.Millisecond, rcptByDomain: honest}
			withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				for addr, v := range b.verifyList(seed, mixedAddresses(400, c.oneOf, 1)) {
					require.Equal(t, exists(addr), v.Status == engine.Valid, "%s: %s", addr, verdictText(v))
					require.Equal(t, exists(addr), v.Status != engine.Invalid, "%s: %s", addr, verdictText(v))
				}
				saw := h.snapshot()
				t.Logf("one of %d does not exist: %d recipients, %d refused, %d connections", c.oneOf, len(saw.rcptTimes), len(saw.refusalTimes), len(saw.dialTimes))
				require.LessOrEqual(t, len(saw.rcptTimes), c.recipients)
				require.LessOrEqual(t, len(saw.refusalTimes), c.refusals)
			})
		}
	}
}
