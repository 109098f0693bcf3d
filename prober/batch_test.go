package prober

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

var mxA = []string{"mx.a.example"}

func TestBatchIsVerified(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann", "bob")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example", "bob@a.example", "eve@a.example")
		got := b.verify(time.Minute, rows...)
		require.Equal(t, "VALID", verdictText(got[rows[0].Number].Verdict))
		require.Equal(t, "VALID", verdictText(got[rows[1].Number].Verdict))
		require.Equal(t, "INVALID mailbox_not_found", verdictText(got[rows[2].Number].Verdict))
		asked := 4 // three targets and one decoy
		if h.targets()[2] == "eve@a.example" {
			asked += 2 // and the controls of a refusal that no acceptance followed: first in a transaction, and behind
		}
		require.Equal(t, asked, h.count("RCPT"), "%v", h.snapshot().log)
		require.Len(t, h.snapshot().dialTimes, 1)

		time.Sleep(time.Second)
		again := b.verify(time.Minute, rows...)
		require.Equal(t, "VALID", verdictText(again[rows[0].Number].Verdict))
		require.True(t, again[rows[0].Number].Verdict.FromCache)
		require.Equal(t, asked, h.count("RCPT"), "from the cache")

		more := b.rows(mxA, "abe@a.example", "bob@a.example", "ann@a.example")
		b.verify(time.Minute, more...)
		require.Equal(t, asked+2, h.count("RCPT"),
			"the decoy of a domain is asked once, and a control after the refusal: %v", h.snapshot().log)
	})
}

// targets are the recipients in the order in which they were asked.
func (h *fakeServer) targets() (all []string) {
	for _, line := range h.snapshot().log {
		if to, ok := strings.CutPrefix(line, "RCPT "); ok {
			all = append(all, to)
		}
	}
	return all
}

// A job that wants fresh answers takes those given after it began: what was asked for it while its row was not here is
// not asked again. Older answers do not count.
func TestFreshListIsAskedOnce(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example")
		fresh := func(began time.Time) (v engine.Verdict) {
			err := b.prober.Verify(context.Background(), &wire.Batch{Job: "j", Rows: rows, Started: began}, time.Minute,
				func(r wire.Results) {
					for i := range r.Rows {
						v = r.Rows[i].Verdict
					}
				})
			require.NoError(t, err)
			return v
		}
		began := time.Now()
		time.Sleep(time.Second)
		require.Equal(t, "VALID", verdictText(fresh(began)))
		require.Equal(t, 3, h.count("RCPT"), "a target, a decoy and the control behind it")
		time.Sleep(time.Hour)
		again := fresh(began)
		require.Equal(t, "VALID", verdictText(again))
		require.False(t, again.FromCache, "it is not older than the list")
		require.Equal(t, 3, h.count("RCPT"), "asked again: %v", h.snapshot().log)
		require.Equal(t, "VALID", verdictText(fresh(time.Now())))
		require.Equal(t, 4, h.count("RCPT"), "another list asks afresh")
	})
}

func TestDecoyFollowsTheTargetWhenNeeded(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly()}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		b.verify(time.Minute, b.rows(mxA, "ann@a.example", "bob@a.example")...)
		require.Equal(t, 2, h.count("RCPT"), "nobody was accepted: %v", h.snapshot().log)
	})
}

func TestCatchAllDomain(t *testing.T) {
	h := &fakeServer{}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example", "bob@a.example", "cid@b.example")
		got := b.verify(time.Minute, rows...)
		for _, r := range rows {
			require.Equal(t, "RISKY catch_all", verdictText(got[r.Number].Verdict))
		}
		require.Equal(t, 5+1, h.count("RCPT"), "one decoy a domain, and the control behind them: %v", h.snapshot().log)
	})
}

func TestNextHostAfterAConnectionFailure(t *testing.T) {
	dead, h := &fakeServer{down: true}, &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx1.a.example": dead, "mx2.a.example": h},
		func(b *testNode) {
			rows := b.rows([]string{"mx1.a.example", "mx2.a.example"}, "ann@a.example", "eve@a.example")
			got := b.verify(time.Minute, rows...)
			require.Equal(t, "VALID", verdictText(got[rows[0].Number].Verdict))
			require.Equal(t, "INVALID mailbox_not_found", verdictText(got[rows[1].Number].Verdict))
		})
}

func TestNoOtherHostAfterARecipientReply(t *testing.T) {
	first, second := &fakeServer{rcpt: func(string) string { return "550 5.1.1 User unknown" }}, &fakeServer{}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx1.a.example": first, "mx2.a.example": second},
		func(b *testNode) {
			rows := b.rows([]string{"mx1.a.example", "mx2.a.example"}, "ann@a.example")
			require.Equal(t, "INVALID mailbox_not_found",
				verdictText(b.verify(time.Minute, rows...)[rows[0].Number].Verdict))
			require.Empty(t, second.snapshot().dialTimes)
		})
}

func TestThreeHostsAtMost(t *testing.T) {
	hosts, mx := map[string]*fakeServer{}, []string{}
	for _, n := range []string{"1", "2", "3", "4"} {
		mx = append(mx, "mx"+n+".a.example")
		hosts[mx[len(mx)-1]] = &fakeServer{banner: "554 5.7.1 no"}
	}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		rows := b.rows(mx, "ann@a.example")
		got := b.verify(time.Minute, rows...)[rows[0].Number]
		require.Equal(t, wire.Settled, got.Outcome)
		require.Equal(t, "UNKNOWN", got.Verdict.Status.String())
		require.Len(t, hosts[mx[2]].snapshot().dialTimes, 1)
		require.Empty(t, hosts[mx[3]].snapshot().dialTimes)
	})
}

// TestBatchIsCachedRowByRow sends six hundred rows of which every third has a mailbox, then the same ones backwards
// with as many new ones between: each has its own verdict, and no host is asked about it again.
func TestBatchIsCachedRowByRow(t *testing.T) {
	const rows = 600
	h := &fakeServer{rcpt: func(local string) string {
		if n, err := strconv.Atoi(strings.TrimPrefix(local, "u")); err == nil && n%3 == 0 {
			return "250 2.1.5 ok"
		}
		return "550 5.1.1 User unknown"
	}}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		verify := func(numbers []int) {
			t.Helper()
			var addrs []string
			for _, n := range numbers {
				addrs = append(addrs, fmt.Sprintf("u%d@a.example", n))
			}
			list := b.rows(mxA, addrs...)
			got := b.verify(time.Hour, list...)
			for i, row := range list {
				v := got[row.Number].Verdict
				require.Equal(t, numbers[i]%3 == 0, v.SMTPValid, addrs[i])
				require.Equal(t, numbers[i]%3 == 0, v.Status == engine.Valid, addrs[i])
			}
		}
		var first, both []int
		for n := range rows {
			first = append(first, n)
			both = append(both, rows-1-n, rows+n)
		}
		verify(first)
		asked := h.count("RCPT")
		verify(both)
		require.InDelta(t, asked+rows, h.count("RCPT"), 2, "a decoy may be asked anew")
	})
}

func TestConnectionClosedMidBatch(t *testing.T) {
	var asked int
	h := &fakeServer{}
	h.rcpt = func(local string) string {
		asked++
		if asked == 3 {
			return "421 4.7.0 closing"
		}
		return acceptsOnly("ann", "bob", "cid", "dan", "eve")(local)
	}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example", "bob@a.example", "cid@a.example", "dan@a.example", "eve@a.example")
		got := b.verify(5*time.Minute, rows...)
		for _, r := range rows {
			require.Equal(t, "VALID", verdictText(got[r.Number].Verdict), h.snapshot().log)
		}
		require.Len(t, h.snapshot().dialTimes, 2)
	})
}

func TestHostThatAlwaysClosesFails(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { return "" }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example", "bob@a.example", "cid@a.example")
		got := b.verify(30*time.Minute, rows...)
		for _, r := range rows {
			require.Equal(t, "UNKNOWN connection_failed", verdictText(got[r.Number].Verdict))
		}
		require.LessOrEqual(t, len(h.snapshot().dialTimes), 9)
	})
}

func TestSilentHostTimesOut(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { return "-" }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example")
		require.Equal(t, "UNKNOWN timeout", verdictText(b.verify(30*time.Minute, rows...)[rows[0].Number].Verdict))
		require.Len(t, h.snapshot().dialTimes, 2, "a timeout weighs two")
	})
}

// greylist defers an address until a minute after it was first seen.
func greylist(then func(string) string) func(string) string {
	first := map[string]time.Time{}
	return func(local string) string {
		if _, ok := first[local]; !ok {
			first[local] = time.Now()
		}
		if time.Since(first[local]) < time.Minute {
			return "451 4.7.1 Greylisted, try again later"
		}
		return then(local)
	}
}

func TestGreylistedRowsSettleOnRetry(t *testing.T) {
	h := &fakeServer{rcpt: greylist(acceptsOnly("ann"))}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example", "eve@a.example")
		start := time.Now()
		for n, r := range b.verify(time.Minute, rows...) {
			require.Equal(t, wire.Deferred, r.Outcome)
			require.Equal(t, uint8(1), r.Attempt)
			require.Equal(t, "mail.us.example", r.Egress)
			require.WithinDuration(t, start.Add(time.Minute), r.Due, 5*time.Second)
			rows[n-rows[0].Number].Attempt = r.Attempt
		}
		require.Equal(t, 3, h.count("RCPT"), "the decoy ages beside the targets: %v", h.snapshot().log)
		time.Sleep(61 * time.Second)
		got := b.verify(time.Minute, rows...)
		require.Equal(t, "VALID", verdictText(got[rows[0].Number].Verdict), h.snapshot().log)
		require.Equal(t, "INVALID mailbox_not_found", verdictText(got[rows[1].Number].Verdict))
	})
}

func TestRetriesEndWithSchedule(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { return "451 4.7.1 Greylisted, try again later" }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example")
		rows[0].Attempt = 2
		got := b.verify(time.Minute, rows...)[rows[0].Number]
		require.Equal(t, wire.Settled, got.Outcome)
		require.Equal(t, "UNKNOWN greylisted", verdictText(got.Verdict))
	})
}

func TestHoldReturnsRows(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	table := strings.NewReplacer("refusals_per_hour = 0", "refusals_per_hour = 10", "refusals_per_connection = 0",
		"refusals_per_connection = 5").Replace(testTable)
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")), "its decoy is refused")
		var addrs []string
		for i := range 30 {
			addrs = append(addrs, "user"+string(rune('a'+i%26))+strings.Repeat("x", i/26)+"@a.example")
		}
		start := time.Now()
		later := 0
		for _, r := range b.verify(20*time.Second, b.rows(mxA, addrs...)...) {
			if r.Outcome == wire.Returned {
				later++
				require.Greater(t, r.Due.Sub(start), 50*time.Minute, "when the hour allows more")
			}
		}
		require.Equal(t, 23, later, "bulk may use what is left of eight of ten while singles come")
		require.WithinDuration(t, start.Add(20*time.Second), time.Now(), time.Second)
		require.Len(t, h.snapshot().refusalTimes, 8)
		require.Zero(t, b.prober.rows.Load())

		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(10*time.Second, mxA, "zoe@a.example")),
			"singles have the rest")
	})
}

// TestBatchMayBeLargerThanAMessage: a server with hundreds of sources of its own gets chunks that no message would
// hold.
func TestBatchMayBeLargerThanAMessage(t *testing.T) {
	mx := &fakeServer{rcpt: acceptsOnly()}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.site.example": mx}, func(b *testNode) {
		addresses := make([]string, wire.MaxRows+1)
		for i := range addresses {
			addresses[i] = fmt.Sprintf("u%d@site.example", i)
		}
		for _, r := range b.verify(time.Hour, b.rows([]string{"mx.site.example"}, addresses...)...) {
			require.Equal(t, wire.Settled, r.Outcome)
		}
	})
}
