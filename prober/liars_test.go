package prober

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/detector"
	"probity/prober/wire"
)

// liar is a receiver that is asked about a list of mailboxes, half of which exist: those whose names begin with ann.
type liar struct {
	// connection makes the script of a connection. The receiver is at work in one goroutine for each connection, so the
	// script of all is called under one lock.
	connection func() rcptScript
	catchAll   bool // it delivers mail to every mailbox: none may be VALID, and none INVALID
	right      int  // so many of the 24 rows get their right verdict at least
	domains    int  // of the rows; 0 is one
}

const (
	acceptedReply = "250 2.1.5 ok"
	unknownReply  = "550 5.1.1 User unknown"

	replyDelay = 50 * time.Millisecond
)

func exists(local string) bool { return strings.HasPrefix(local, "ann") }

// honest is the script of a receiver that says the truth.
func honest(local, _ string) string {
	if exists(local) {
		return acceptedReply
	}
	return unknownReply
}

// checkLiar verifies a list of 24 shuffled rows at a receiver until each is settled, under the shipped table and in
// virtual time. No verdict may be false, but INVALID of a mailbox whose receiver had accepted nothing yet: so does a
// host without mailboxes look.
func checkLiar(t *testing.T, newLiar func() liar) {
	for seed := range uint64(6) {
		l := newLiar()
		var mu sync.Mutex
		connections, dialogue := 0, ""
		var firstAccepted time.Time
		blind := map[string]bool{} // the last refusal came before we could know a recipient that the receiver accepts
		h := &fakeServer{replyDelay: replyDelay, connection: func() rcptScript {
			mu.Lock()
			defer mu.Unlock()
			script := l.connection()
			connections++
			number := connections
			return func(local, domain string) string {
				mu.Lock()
				defer mu.Unlock()
				reply := script(local, domain)
				if strings.HasPrefix(reply, "250") && firstAccepted.IsZero() {
					firstAccepted = time.Now()
				}
				blind[local+"@"+domain] = firstAccepted.IsZero() || time.Since(firstAccepted) < 2*replyDelay
				dialogue += fmt.Sprintf("\n%s connection %d: %s@%s: %s", time.Now().Format(time.TimeOnly), number,
					local, domain, reply)
				return reply
			}
		}}
		withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			right, settled := 0, b.verifyList(seed, mixedAddresses(24, 2, max(1, l.domains)))
			mu.Lock()
			defer mu.Unlock()
			for addr, v := range settled {
				there := exists(addr)
				require.False(t, v.Status == engine.Valid && (l.catchAll || !there), "seed %d: %s is VALID: %s", seed,
					addr, dialogue)
				require.False(t, v.Status == engine.Invalid && (l.catchAll || there) && !blind[addr],
					"seed %d: %s is INVALID: %s", seed, addr, dialogue)
				if v.Status == engine.Valid || v.Status == engine.Invalid ||
					l.catchAll && v.Reason == engine.ReasonCatchAll {
					right++
				}
			}
			require.GreaterOrEqual(t, right, l.right, "seed %d: %s", seed, dialogue)
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

// verifyList verifies addresses in a random order as a coordinator does: rows come again when they are due, until each
// is settled.
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

// TestFirstRecipientOnly: a catch-all domain whose host takes the first recipient of a connection, and refuses the
// others in words that are not about them, or in those of an unknown user.
func TestFirstRecipientOnly(t *testing.T) {
	for _, words := range []string{"550 No more", "550 5.5.0 One at a time, thank you", "554 transaction closed",
		unknownReply} {
		checkLiar(t, func() liar {
			return liar{catchAll: true, connection: func() rcptScript {
				answered := 0
				return func(string, string) string {
					answered++
					if answered > 1 {
						return words
					}
					return acceptedReply
				}
			}}
		})
	}
}

// TestMachineThatAcceptsEverybody: a receiver of two machines behind one name. One of them accepts every recipient, and
// they take turns, or chance decides.
func TestMachineThatAcceptsEverybody(t *testing.T) {
	turn := func(connection int) bool { return connection%2 == 0 }
	chance := rand.New(rand.NewPCG(1, 2))
	for _, accepts := range []func(connection int) bool{turn, func(int) bool { return chance.IntN(2) == 0 }} {
		for range 5 {
			checkLiar(t, func() liar {
				connections := 0
				return liar{connection: func() rcptScript {
					connections++
					if accepts(connections) {
						return func(string, string) string { return acceptedReply }
					}
					return honest
				}}
			})
		}
	}
}

// TestGreylistingInTheWordsOfAnUnknownUser: a catch-all domain that makes each recipient wait, and calls it unknown
// meanwhile.
func TestGreylistingInTheWordsOfAnUnknownUser(t *testing.T) {
	for _, words := range []string{"450 4.1.1 User unknown", "451 4.1.1 No such user here",
		"450 mailbox not found, try later", "450 4.1.1 Recipient address rejected: User unknown in local recipient table",
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

// silentAfter is the script of a receiver that accepts every recipient for some time, once a source asked for so many
// unknown ones. It counts anew afterwards.
func silentAfter(unknown int, lasts time.Duration) rcptScript {
	refused, silent := 0, time.Time{}
	return func(local, domain string) string {
		if time.Now().Before(silent) {
			return acceptedReply
		}
		if !exists(local) {
			refused++
			if refused == unknown {
				refused, silent = 0, time.Now().Add(lasts)
			}
		}
		return honest(local, domain)
	}
}

// blocksAfter is the script of a receiver that refuses every recipient for some time, once a source asked for so many
// that it counts.
func blocksAfter(most int, counts func(local string) bool, lasts time.Duration, words string) rcptScript {
	asked, blocked := 0, time.Time{}
	return func(local, domain string) string {
		if time.Now().Before(blocked) {
			return words
		}
		if counts(local) {
			asked++
			if asked == most {
				asked, blocked = 0, time.Now().Add(lasts)
			}
		}
		return honest(local, domain)
	}
}

// TestBlocksInTheWordsOfAnUnknownUser: a receiver that refuses every recipient after a few unknown ones, or a few of
// any kind.
func TestBlocksInTheWordsOfAnUnknownUser(t *testing.T) {
	detector.SpareByDay(t)
	unknown := func(local string) bool { return !exists(local) }
	anybody := func(string) bool { return true }
	for _, words := range []string{unknownReply, "550 5.1.1 Recipient address rejected: no such mailbox"} {
		for _, domains := range []int{1, 8} {
			for _, most := range []int{3, 5, 8} {
				checkLiar(t, func() liar {
					script := blocksAfter(most, unknown, 10*time.Minute, words)
					return liar{right: 1, domains: domains, connection: func() rcptScript { return script }}
				})
			}
			checkLiar(t, func() liar { // it may block before anything is shown of it
				script := blocksAfter(10, anybody, 300*time.Hour, words)
				return liar{domains: domains, connection: func() rcptScript { return script }}
			})
		}
	}
}

// TestBlockThatEndsUnseen: a receiver that blocks a source in the words of an unknown user, and soon closes its
// connections until the block is over. Then the control is accepted again, and says nothing about the block.
func TestBlockThatEndsUnseen(t *testing.T) {
	for _, most := range []int{2, 4, 6} {
		for _, more := range []int{1, 3, 6} {
			checkLiar(t, func() liar {
				refused, left, blocked := 0, 0, time.Time{}
				script := func(local, domain string) string {
					switch {
					case time.Now().Before(blocked) && left == 0:
						return ""
					case time.Now().Before(blocked):
						left--
						return unknownReply
					case !exists(local):
						refused++
						if refused == most {
							refused, left, blocked = 0, more, time.Now().Add(10*time.Minute)
						}
					}
					return honest(local, domain)
				}
				return liar{connection: func() rcptScript { return script }}
			})
		}
	}
}

// TestTruthForSomeRecipientsOfAConnection: a receiver that refuses every recipient of a connection once it has accepted
// a few, or answered a few, in the words of an unknown user.
func TestTruthForSomeRecipientsOfAConnection(t *testing.T) {
	for name, counts := range map[string]func(string) bool{"accepted": exists,
		"answered": func(string) bool { return true }} {
		for _, most := range []int{2, 3, 5} {
			t.Run(fmt.Sprint(most, name), func(t *testing.T) {
				checkLiar(t, func() liar {
					return liar{right: 1, connection: func() rcptScript {
						return blocksAfter(most, counts, time.Hour,
							unknownReply)
					}}
				})
			})
		}
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

// TestSilentAcceptanceIsNoCatchAllForAWeek: a domain of a host that fell silent gets its verdict when the host tells
// the truth again.
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

// TestDomainThatBecomesACatchAllPausesItsHostOnce: a domain that is a catch-all now, and was none when its decoy was
// refused, looks like a host that fell silent. It does so once.
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
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@other.example")),
			"the host is not paused")
	})
}

// TestControlsCostLittle: an honest receiver of 400 rows is asked for hardly more recipients than there are rows, and
// refuses hardly more than do not exist, on the average of three orders of the rows.
func TestControlsCostLittle(t *testing.T) {
	const orders = 3
	for _, c := range []struct{ oneOf, recipients, refusals int }{{20, 422, 28}, {10, 437, 48}, {5, 467, 91}} {
		recipients, refusals := 0, 0
		for seed := range uint64(orders) {
			h := &fakeServer{replyDelay: replyDelay, rcptByDomain: honest}
			withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				for addr, v := range b.verifyList(seed, mixedAddresses(400, c.oneOf, 1)) {
					require.Equal(t, exists(addr), v.Status == engine.Valid, "%s: %s", addr, verdictText(v))
					require.Equal(t, exists(addr), v.Status != engine.Invalid, "%s: %s", addr, verdictText(v))
				}
				saw := h.snapshot()
				t.Logf("one of %d does not exist: %d recipients, %d refused, %d connections", c.oneOf,
					len(saw.rcptTimes), len(saw.refusalTimes), len(saw.dialTimes))
				recipients += len(saw.rcptTimes)
				refusals += len(saw.refusalTimes)
			})
		}
		require.LessOrEqual(t, recipients, c.recipients*orders)
		require.LessOrEqual(t, refusals, c.refusals*orders)
	}
}

// TestRefusalsOfAnHourWaitForTheNext: a host that refuses everybody before it could accept anybody looks like one
// without mailboxes. While rows are left that wait for the hour's budget, its refusals wait for the first acceptance.
func TestRefusalsOfAnHourWaitForTheNext(t *testing.T) {
	blockedUntil := time.Time{}
	h := &fakeServer{rcptByDomain: func(local, domain string) string {
		if time.Now().Before(blockedUntil) {
			return unknownReply
		}
		return honest(local, domain)
	}}
	withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		blockedUntil = time.Now().Add(10 * time.Minute)
		for addr, v := range b.verifyList(1, mixedAddresses(40, 2, 1)) {
			require.Equal(t, exists(addr), v.Status == engine.Valid, "%s: %s", addr, verdictText(v))
			require.Equal(t, !exists(addr), v.Status == engine.Invalid, "%s: %s", addr, verdictText(v))
		}
	})
}

// TestRefusalsThatWaitForNothingSettle: rows that do not come again keep neither a refusal nor a queue.
func TestRefusalsThatWaitForNothingSettle(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly()}
	withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		returned := 0
		for _, r := range b.verify(time.Minute, b.rows(mxA, mixedAddresses(40, 1, 1)...)...) {
			if r.Outcome == wire.Returned {
				returned++
			}
		}
		require.Equal(t, 40, returned, "also what was refused: more rows wait for the hour's budget")
		time.Sleep(2*time.Hour + 2*time.Minute)
		require.Zero(t, b.prober.rows.Load())
		settled := 0
		again := &wire.Batch{Job: "later", Rows: b.rows(mxA, mixedAddresses(40, 1, 1)...), MaxAge: 24 * time.Hour}
		require.NoError(t, b.prober.Verify(context.Background(), again, time.Minute, func(r wire.Results) {
			for i := range r.Rows {
				if r.Rows[i].Outcome == wire.Settled {
					settled++
					require.Equal(t, "INVALID mailbox_not_found", verdictText(r.Rows[i].Verdict))
				}
			}
		}))
		require.Equal(t, 40, settled)
		require.Len(t, h.snapshot().refusalTimes, 40, "none is asked twice")
	})
}

// TestSingleTakesARefusalThatWaits: a single call for an address whose refusal waits for the first acceptance of its
// host has it at once.
func TestSingleTakesARefusalThatWaits(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly()}
	withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		b.verify(time.Minute, b.rows(mxA, mixedAddresses(40, 1, 1)...)...)
		refused := len(h.snapshot().refusalTimes)
		began := time.Now()
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(10*time.Second, mxA, h.targets()[0])))
		require.Less(t, time.Since(began), time.Second)
		require.Len(t, h.snapshot().refusalTimes, refused, "it is not asked again")
	})
}

// TestShortListsEndSoon: what is not confirmed at an honest host is asked again after the schedule's first wait, not
// at the end of the time that a confirmation may take.
func TestShortListsEndSoon(t *testing.T) {
	for seed := range uint64(60) {
		h := &fakeServer{replyDelay: replyDelay, rcptByDomain: honest}
		withTestNode(t, "", nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			began := time.Now()
			for addr, v := range b.verifyList(seed, mixedAddresses(5+int(seed%6), 2, 1)) {
				require.Equal(t, exists(addr), v.Status == engine.Valid, "seed %d: %s: %s", seed, addr, verdictText(v))
			}
			require.Less(t, time.Since(began), confirmWait, "seed %d", seed)
		})
	}
}

// confirmWait is how soon a refusal must come that confirms an acceptance.
const confirmWait = 5 * time.Minute
