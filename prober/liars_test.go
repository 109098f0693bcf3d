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

// mixedAddresses are addresses at some domains, every so many of which exist.
func mixedAddresses(n, oneOf, domains int) (addrs []string) {
	for i := range n {
		local := "ann"
		if i%oneOf != 0 {
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
		got := b.verify(time.Minute, now...)
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
