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

var mxa = []string{"mx.a.example"}

func TestBatchIsVerified(t *testing.T) {
	h := &host{rcpt: knows("ann", "bob")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "bob@a.example", "eve@a.example")
		got := b.verify(time.Minute, rows...)
		require.Equal(t, "VALID", spell(got[rows[0].Number].Verdict))
		require.Equal(t, "VALID", spell(got[rows[1].Number].Verdict))
		require.Equal(t, "INVALID mailbox_not_found", spell(got[rows[2].Number].Verdict))
		require.Equal(t, 4, h.count("RCPT"), "three targets and one decoy: %v", h.saw().log)
		require.Len(t, h.saw().dialed, 1)

		time.Sleep(time.Second)
		again := b.verify(time.Minute, rows...)
		require.Equal(t, "VALID", spell(again[rows[0].Number].Verdict))
		require.True(t, again[rows[0].Number].Verdict.FromCache)
		require.Equal(t, 4, h.count("RCPT"), "from the cache")

		more := b.rows(mxa, "abe@a.example", "bob@a.example", "ann@a.example")
		b.verify(time.Minute, more...)
		require.Equal(t, 5, h.count("RCPT"), "the decoy of a domain is asked once: %v", h.saw().log)
	})
}

// A list that wants fresh answers takes those that were heard after it began: what was asked for it while its row was not here is not
// asked again. Older answers do not count.
func TestAFreshListIsAskedOnce(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example")
		fresh := func(began time.Time) (v engine.Verdict) {
			err := b.prober.Verify(context.Background(), &wire.Batch{Job: "j", Rows: rows, Started: began}, time.Minute, func(r wire.Results) {
				for i := range r.Rows {
					v = r.Rows[i].Verdict
				}
			})
			require.NoError(t, err)
			return v
		}
		began := time.Now()
		time.Sleep(time.Second)
		require.Equal(t, "VALID", spell(fresh(began)))
		require.Equal(t, 2, h.count("RCPT"), "a target and a decoy")
		time.Sleep(time.Hour)
		again := fresh(began)
		require.Equal(t, "VALID", spell(again))
		require.False(t, again.FromCache, "it is not older than the list")
		require.Equal(t, 2, h.count("RCPT"), "asked again: %v", h.saw().log)
		require.Equal(t, "VALID", spell(fresh(time.Now())))
		require.Equal(t, 3, h.count("RCPT"), "another list asks afresh")
	})
}

func TestDecoyComesAfterTheTargetAndOnlyWhenNeeded(t *testing.T) {
	h := &host{rcpt: knows()}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		b.verify(time.Minute, b.rows(mxa, "ann@a.example", "bob@a.example")...)
		require.Equal(t, 2, h.count("RCPT"), "nobody was accepted: %v", h.saw().log)
	})
}

func TestCatchAllDomain(t *testing.T) {
	h := &host{}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "bob@a.example", "cid@b.example")
		got := b.verify(time.Minute, rows...)
		for _, r := range rows {
			require.Equal(t, "RISKY catch_all", spell(got[r.Number].Verdict))
		}
		require.Equal(t, 5, h.count("RCPT"), "one decoy a domain: %v", h.saw().log)
	})
}

func TestNextHostAfterAConnectionFailure(t *testing.T) {
	dead, h := &host{down: true}, &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx1.a.example": dead, "mx2.a.example": h}, func(b *lab) {
		rows := b.rows([]string{"mx1.a.example", "mx2.a.example"}, "ann@a.example", "eve@a.example")
		got := b.verify(time.Minute, rows...)
		require.Equal(t, "VALID", spell(got[rows[0].Number].Verdict))
		require.Equal(t, "INVALID mailbox_not_found", spell(got[rows[1].Number].Verdict))
	})
}

func TestNoOtherHostAfterARecipientReply(t *testing.T) {
	first, second := &host{rcpt: func(string) string { return "550 5.1.1 User unknown" }}, &host{}
	inLab(t, labTable, nil, map[string]*host{"mx1.a.example": first, "mx2.a.example": second}, func(b *lab) {
		rows := b.rows([]string{"mx1.a.example", "mx2.a.example"}, "ann@a.example")
		require.Equal(t, "INVALID mailbox_not_found", spell(b.verify(time.Minute, rows...)[rows[0].Number].Verdict))
		require.Empty(t, second.saw().dialed)
	})
}

func TestThreeHostsAtMost(t *testing.T) {
	hosts, mx := map[string]*host{}, []string{}
	for _, n := range []string{"1", "2", "3", "4"} {
		mx = append(mx, "mx"+n+".a.example")
		hosts[mx[len(mx)-1]] = &host{banner: "554 5.7.1 no"}
	}
	inLab(t, labTable, nil, hosts, func(b *lab) {
		rows := b.rows(mx, "ann@a.example")
		got := b.verify(time.Minute, rows...)[rows[0].Number]
		require.Equal(t, wire.Settled, got.Outcome)
		require.Equal(t, "UNKNOWN", got.Verdict.Status.String())
		require.Len(t, hosts[mx[2]].saw().dialed, 1)
		require.Empty(t, hosts[mx[3]].saw().dialed)
	})
}

// TestBatchIsCachedRowByRow sends six hundred rows of which every third has a mailbox, then the same ones backwards with as many new
// ones between: each has its own verdict, and nobody is asked about it again.
func TestBatchIsCachedRowByRow(t *testing.T) {
	const rows = 600
	h := &host{rcpt: func(local string) string {
		if n, err := strconv.Atoi(strings.TrimPrefix(local, "u")); err == nil && n%3 == 0 {
			return "250 2.1.5 ok"
		}
		return "550 5.1.1 User unknown"
	}}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		verify := func(numbers []int) {
			t.Helper()
			var addrs []string
			for _, n := range numbers {
				addrs = append(addrs, fmt.Sprintf("u%d@a.example", n))
			}
			list := b.rows(mxa, addrs...)
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

func TestClosedInMidBatch(t *testing.T) {
	var asked int
	h := &host{}
	h.rcpt = func(local string) string {
		if asked++; asked == 3 {
			return "421 4.7.0 closing"
		}
		return knows("ann", "bob", "cid", "dan", "eve")(local)
	}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "bob@a.example", "cid@a.example", "dan@a.example", "eve@a.example")
		got := b.verify(5*time.Minute, rows...)
		for _, r := range rows {
			require.Equal(t, "VALID", spell(got[r.Number].Verdict), h.saw().log)
		}
		require.Len(t, h.saw().dialed, 2)
	})
}

func TestHostThatAlwaysClosesIsGivenUp(t *testing.T) {
	h := &host{rcpt: func(string) string { return "" }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "bob@a.example", "cid@a.example")
		got := b.verify(30*time.Minute, rows...)
		for _, r := range rows {
			require.Equal(t, "UNKNOWN connection_failed", spell(got[r.Number].Verdict))
		}
		require.LessOrEqual(t, len(h.saw().dialed), 9)
	})
}

func TestSilentHostTimesOut(t *testing.T) {
	h := &host{rcpt: func(string) string { return "-" }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example")
		require.Equal(t, "UNKNOWN timeout", spell(b.verify(30*time.Minute, rows...)[rows[0].Number].Verdict))
		require.Len(t, h.saw().dialed, 2, "a timeout weighs two")
	})
}

// grey defers an address until a minute after it was first seen.
func grey(then func(string) string) func(string) string {
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

func TestGreylistedRowsAreDeferredAndSettleOnRetry(t *testing.T) {
	h := &host{rcpt: grey(knows("ann"))}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "eve@a.example")
		start := time.Now()
		for n, r := range b.verify(time.Minute, rows...) {
			require.Equal(t, wire.Deferred, r.Outcome)
			require.Equal(t, uint8(1), r.Attempt)
			require.Equal(t, "mail.us.example", r.Egress)
			require.WithinDuration(t, start.Add(time.Minute), r.Due, 5*time.Second)
			rows[n-rows[0].Number].Attempt = r.Attempt
		}
		require.Equal(t, 3, h.count("RCPT"), "the decoy ages beside the targets: %v", h.saw().log)
		time.Sleep(61 * time.Second)
		got := b.verify(time.Minute, rows...)
		require.Equal(t, "VALID", spell(got[rows[0].Number].Verdict), h.saw().log)
		require.Equal(t, "INVALID mailbox_not_found", spell(got[rows[1].Number].Verdict))
	})
}

func TestRetriesEndWithTheSchedule(t *testing.T) {
	h := &host{rcpt: func(string) string { return "451 4.7.1 Greylisted, try again later" }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example")
		rows[0].Attempt = 2
		got := b.verify(time.Minute, rows...)[rows[0].Number]
		require.Equal(t, wire.Settled, got.Outcome)
		require.Equal(t, "UNKNOWN greylisted", spell(got.Verdict))
	})
}

func TestHoldSendsRowsHome(t *testing.T) {
	h := &host{rcpt: knows()}
	table := strings.NewReplacer("refusals_per_hour = 0", "refusals_per_hour = 10", "refusals_per_connection = 0", "refusals_per_connection = 5").Replace(labTable)
	inLab(t, table, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		b.prober.calls.called(time.Now())
		var addrs []string
		for i := range 30 {
			addrs = append(addrs, "user"+string(rune('a'+i%26))+strings.Repeat("x", i/26)+"@a.example")
		}
		start := time.Now()
		later := 0
		for _, r := range b.verify(20*time.Second, b.rows(mxa, addrs...)...) {
			if r.Outcome == wire.Later {
				later++
				require.Greater(t, r.Due.Sub(start), 50*time.Minute, "when the hour allows more")
			}
		}
		require.Equal(t, 22, later, "bulk may use eight of ten while singles come")
		require.WithinDuration(t, start.Add(20*time.Second), time.Now(), time.Second)
		require.Len(t, h.saw().refuse, 8)
		require.Zero(t, b.prober.rows.Load())

		require.Equal(t, "INVALID mailbox_not_found", spell(b.single(10*time.Second, mxa, "zoe@a.example")), "singles have the rest")
	})
}
