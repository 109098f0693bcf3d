package prober

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHostThatAnswersTwiceIsNeverBelieved: whichever command has two replies, whenever the second comes, no mailbox
// gets the reply to another command, alone or in a list, with and without PIPELINING.
func TestHostThatAnswersTwiceIsNeverBelieved(t *testing.T) {
	for _, to := range []string{"220", "EHLO", "MAIL", "RCPT"} {
		for _, reply := range []string{"250 HELP", "220 again", "550 5.1.1 User unknown"} {
			for _, after := range []time.Duration{0, 20 * time.Millisecond, 250 * time.Millisecond} {
				for _, noPipelining := range []bool{false, true} {
					t.Run(fmt.Sprint(to, " ", reply[:3], " ", after, " ", noPipelining), func(t *testing.T) {
						h := &fakeServer{terse: true, rcpt: acceptsOnly("ann", "bob"),
							extra:        extraReply{to, reply, after},
							noPipelining: noPipelining, replyDelay: 10 * time.Millisecond}
						withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
							require.Contains(t, verdictText(b.single(time.Minute, mxA, "ann@a.example")), "UNKNOWN")
							for _, r := range b.verify(time.Hour,
								b.rows(mxA, "nobody@a.example", "bob@a.example", "ann@a.example", "zoe@a.example")...) {
								require.Contains(t, verdictText(r.Verdict), "UNKNOWN")
							}
						})
					})
				}
			}
		}
	}
}

// TestLateSecondReplyVoidsTheList: the second reply to EHLO comes only once the first recipients are answered. What
// they were told is taken back, catch-all check included.
func TestLateSecondReplyVoidsTheList(t *testing.T) {
	h := &fakeServer{terse: true, rcpt: acceptsOnly("ann"),
		extra: extraReply{"EHLO", "250 HELP", 20 * time.Millisecond}}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		for _, r := range b.verify(time.Hour, b.rows(mxA, "ann@a.example", "nobody@a.example", "zoe@a.example")...) {
			require.Equal(t, "UNKNOWN protocol_error", verdictText(r.Verdict))
		}
		for _, mx := range mxA {
			_, known := b.cache.Fact("a.example", mx, time.Now())
			require.False(t, known, "no fact of such a dialogue is kept")
		}
	})
}

// TestFirstAnswersCountWithQUIT: a host of which nothing is known, and that quotes no recipient, costs one more
// connection at most and no recipient more than another; its later connections are used as before.
func TestFirstAnswersCountWithQUIT(t *testing.T) {
	h := &fakeServer{terse: true, rcpt: acceptsOnly("ann"), replyDelay: 10 * time.Millisecond}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		began := time.Now()
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
		require.Less(t, time.Since(began), 100*time.Millisecond, "QUIT is said at once")
		require.Len(t, h.snapshot().dialTimes, 1)
		for range 3 {
			require.Equal(t, "INVALID mailbox_not_found",
				verdictText(b.verify(time.Minute, b.rows(mxA,
					fmt.Sprintf("nobody%d@a.example", time.Now().Nanosecond()))...)[b.lastRow.Load()].Verdict))
		}
		saw := h.snapshot()
		require.Len(t, saw.dialTimes, 2, "the second one is kept")
		require.Len(t, saw.rcptTimes, 5+4, "and the control of each refusal, the decoy's included")
	})
}

// TestHostThatClosesFirstIsAskedOneByOne: a first connection that ends without QUIT shows nothing; the next sends one
// command at a time, and its answers count as they come.
func TestHostThatClosesFirstIsAskedOneByOne(t *testing.T) {
	h := &fakeServer{terse: true, rcpt: acceptsOnly("ann"), maxAnswered: 3}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		got := map[string]int{}
		for _, v := range b.verifyList(1, []string{"ann@a.example", "u1@a.example", "u2@a.example", "u3@a.example",
			"u4@a.example"}) {
			got[verdictText(v)]++
		}
		require.Equal(t, map[string]int{"VALID": 1, "INVALID mailbox_not_found": 4}, got)
	})
}

// TestPipeliningThatIsNotEnduredCostsNoRow: a server that offers it and drops what comes early, or the connection, is
// sent one command at a time from then on.
func TestPipeliningThatIsNotEnduredCostsNoRow(t *testing.T) {
	for _, ahead := range []string{"dropped", "closed"} {
		for _, mx := range [][]string{mxA, {"mx.big.example"}} {
			t.Run(ahead+" "+mx[0], func(t *testing.T) {
				h := &fakeServer{rcpt: acceptsOnly("ann", "bob"), ahead: ahead}
				withTestNode(t, testTable, nil, map[string]*fakeServer{mx[0]: h}, func(b *testNode) {
					var addrs []string
					for i := range 20 {
						addrs = append(addrs, fmt.Sprintf("user%d@a.example", i))
					}
					got := map[string]int{}
					for _, r := range b.verify(time.Hour,
						b.rows(mx, append(addrs, "ann@a.example", "bob@a.example")...)...) {
						got[verdictText(r.Verdict)]++
					}
					require.Equal(t, map[string]int{"VALID": 2, "INVALID mailbox_not_found": 20}, got)
					dials := len(h.snapshot().dialTimes)
					require.LessOrEqual(t, dials, 4)
					began := time.Now()
					require.Equal(t, "INVALID mailbox_not_found",
						verdictText(b.single(time.Minute, mx, "zoe@a.example")))
					require.Less(t, time.Since(began), 5*time.Second, "it is remembered")
				})
			})
		}
	}
}

// TestCarefulHostTakesNoConnectionOver: a host of a provider that was out of step gets one command at a time, over a
// connection that was opened for it, also where an idle one of another host leads to the same address. That it is in
// step then is learnt of that host, though its connection goes on to another.
func TestCarefulHostTakesNoConnectionOver(t *testing.T) {
	var misled atomic.Bool
	w := newProviderHosts(".big.example", 2, &fakeServer{rcptByDomain: func(local, domain string) string {
		if domain == "d1.example" && !misled.Swap(true) {
			return "550 5.1.1 User unknown\r\n550 5.1.1 User unknown"
		}
		return acceptsAnn(local)
	}})
	withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
		verify := func(host int, local string) {
			rows := b.rows([]string{fmt.Sprintf("mx%d.big.example", host)}, fmt.Sprintf("%s@d%d.example", local, host))
			requireOwnReplies(t, rows, b.verify(10*time.Minute, rows...))
		}
		verify(1, "nobody")
		require.True(t, misled.Load())
		w.servers[0].withLock(func() { w.servers[0].pipelined = nil })
		time.Sleep(time.Minute) // its connections have ended
		verify(0, "ann0")       // leaves an idle connection
		require.NotEmpty(t, w.servers[0].snapshot().pipelined)
		verify(1, "ann1")
		verify(1, "nobody2")
		for _, to := range w.servers[0].snapshot().pipelined {
			require.NotContains(t, to, "@d1.example")
		}
		verify(0, "ann2") // perhaps over the connection of the other host
		time.Sleep(time.Minute)
		began := time.Now()
		verify(1, "ann3")
		require.Less(t, time.Since(began), 2*settleTime, "it is known to be in step: no command waits")
	})
}

// settleTime is how long a command waits for a reply too many at a host that was out of step.
const settleTime = 300 * time.Millisecond

// TestSingleAtAHostThatDropsGroups: within its deadline.
func TestSingleAtAHostThatDropsGroups(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann"), ahead: "closed"}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(10*time.Second, mxA, "ann@a.example")))
	})
}

// TestNextAddressOfAHostIsTried: RFC 5321 section 5.1. The address that does not answer is remembered, and no recipient
// is sent twice.
func TestNextAddressOfAHostIsTried(t *testing.T) {
	dead := netip.MustParseAddr("10.7.7.1")
	for name, change := range map[string]func(*fakeServer){
		"refuses":        func(h *fakeServer) { h.down = true },
		"is silent":      func(h *fakeServer) { h.neverReplies = true },
		"closes at once": func(h *fakeServer) { h.maxConns, h.open = 1, 1 },
		"has trouble":    func(h *fakeServer) { h.banner = "451 4.3.0 local trouble" },
	} {
		t.Run(name, func(t *testing.T) {
			h, first := &fakeServer{rcpt: acceptsOnly("ann")}, &fakeServer{}
			change(first)
			withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h, "other.a.example": first},
				func(b *testNode) {
					b.resolve = func(string) []netip.Addr {
						if first.down {
							return []netip.Addr{dead, h.addr}
						}
						return []netip.Addr{first.addr, h.addr}
					}
					require.Equal(t, "VALID", verdictText(b.single(2*time.Minute, mxA, "ann@a.example")))
					began := time.Now()
					for _, r := range b.verify(time.Hour, b.rows(mxA, "zoe@a.example", "ann@a.example")...) {
						require.NotContains(t, verdictText(r.Verdict), "UNKNOWN")
					}
					require.Less(t, time.Since(began), 10*time.Second, "the bad address comes last")
					require.Less(t, len(first.snapshot().dialTimes), 2)
					require.Equal(t, 1, strings.Count(strings.Join(h.snapshot().log, " "), "RCPT zoe@"))
				})
		})
	}
}

// TestRefusalIsNotEvadedByAnotherAddress: a host that blocks us at one address is not asked at the next.
func TestRefusalIsNotEvadedByAnotherAddress(t *testing.T) {
	h, first := &fakeServer{rcpt: acceptsOnly("ann")}, &fakeServer{banner: "554 5.7.1 you are blocked"}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h, "other.a.example": first},
		func(b *testNode) {
			b.resolve = func(string) []netip.Addr { return []netip.Addr{first.addr, h.addr} }
			require.Equal(t, "UNKNOWN blocked", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
			require.Empty(t, h.snapshot().dialTimes)
		})
}

// TestAllAddressesFailOnce: a host is given up after each of its addresses, and at most four, failed; jobs confirm that
// once.
func TestAllAddressesFailOnce(t *testing.T) {
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": {down: true}}, func(b *testNode) {
		b.resolve = func(string) (all []netip.Addr) {
			for i := range 9 {
				all = append(all, netip.AddrFrom4([4]byte{10, 7, 7, byte(i)}))
			}
			return all
		}
		began := time.Now()
		require.Equal(t, "UNKNOWN connection_failed", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
		require.Less(t, time.Since(began), 10*time.Second)
	})
}
