package prober

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

func TestSingleIsAnsweredAndCached(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		v := b.single(10*time.Second, mxA, "ann@a.example")
		require.Equal(t, "VALID", verdictText(v))
		require.True(t, v.SMTPValid)
		time.Sleep(time.Second)
		v = b.single(10*time.Second, mxA, "ann@a.example")
		require.Equal(t, "VALID", verdictText(v))
		require.True(t, v.FromCache)
		require.Equal(t, "mx.a.example", v.Details.Host)
		require.Equal(t, 3, h.count("RCPT"), "the target, its decoy and the control behind it")
	})
}

func TestTwoSinglesMakeOneProbe(t *testing.T) {
	h := &fakeServer{rcpt: func(l string) string { time.Sleep(time.Second); return acceptsOnly("ann")(l) }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { require.Equal(t, "VALID", verdictText(b.single(10*time.Second, mxA, "ann@a.example"))) })
		}
		wg.Wait()
		require.Equal(t, 3, h.count("RCPT"), "the target, its decoy and the control behind it")
	})
}

func TestSingleContinuesAfterItsDeadline(t *testing.T) {
	h := &fakeServer{rcpt: func(l string) string { time.Sleep(5 * time.Second); return acceptsOnly("ann")(l) }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		start := time.Now()
		require.Equal(t, "UNKNOWN timeout", verdictText(b.single(time.Second, mxA, "ann@a.example")))
		require.WithinDuration(t, start.Add(time.Second), time.Now(), 50*time.Millisecond)
		time.Sleep(15 * time.Second)
		require.Equal(t, "VALID", verdictText(b.single(time.Second, mxA, "ann@a.example")))
		require.Equal(t, 3, h.count("RCPT"), "the target, its decoy and the control behind it")
	})
}

func TestGreylistedSingleIsRetriedInBackground(t *testing.T) {
	h := &fakeServer{rcpt: greylist(acceptsOnly("ann"))}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		v := b.single(10*time.Second, mxA, "ann@a.example")
		require.Equal(t, "UNKNOWN greylisted", verdictText(v))
		require.WithinDuration(t, time.Now().Add(time.Minute), v.Details.NextRetry, 2*time.Second)
		time.Sleep(10 * time.Second)
		dialed := len(h.snapshot().dialTimes)
		v = b.single(10*time.Second, mxA, "ann@a.example")
		require.Equal(t, "UNKNOWN greylisted", verdictText(v))
		require.False(t, v.Details.NextRetry.IsZero())
		require.Len(t, h.snapshot().dialTimes, dialed, "no connection while the retry is pending")
		time.Sleep(time.Minute)
		v = b.single(10*time.Second, mxA, "ann@a.example")
		require.Equal(t, "VALID", verdictText(v), h.snapshot().log)
		require.True(t, v.FromCache)
		require.Empty(t, b.prober.retries.byKey)
	})
}

func TestSingleOvertakesBulk(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { time.Sleep(50 * time.Millisecond); return "550 5.1.1 User unknown" }}
	table := strings.Replace(testTable, "recipients_per_transaction = 0", "recipients_per_transaction = 10", 1)
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		var addrs []string
		for i := range 1000 {
			addrs = append(addrs, "u"+strings.Repeat("x", i/26)+string(rune('a'+i%26))+"@a.example")
		}
		for i, a := range addrs {
			if at := strings.IndexByte(a, '@'); at > 64 {
				addrs[i] = a[at-60:]
			}
		}
		rows := b.rows(mxA, unique(addrs)...)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = b.prober.Verify(ctx, &wire.Batch{Rows: rows}, time.Hour, func(wire.Results) {})
		})
		time.Sleep(time.Second)
		start := time.Now()
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(10*time.Second, mxA, "zoe@a.example")))
		require.Less(t, time.Since(start), 1500*time.Millisecond, "at most one transaction of bulk comes before")

		start = time.Now()
		last := rows[len(rows)-1].Address
		v := b.single(10*time.Second, mxA, last.Local()+"@"+last.Domain())
		require.Equal(t, "INVALID mailbox_not_found", verdictText(v))
		require.Less(t, time.Since(start), 1500*time.Millisecond, "a queued row is promoted")
		cancel()
		wg.Wait()
	})
}

// TestSingleJoinsARowThatIsBeingAsked makes a single call for a row of a list that is in a transaction. The host has
// accepted no recipient: the refusals of the list wait for the first that it accepts, and the single call does not.
func TestSingleJoinsARowThatIsBeingAsked(t *testing.T) {
	var asking chan struct{}
	h := &fakeServer{rcpt: func(local string) string {
		if local == "zoe" {
			close(asking)
		}
		time.Sleep(time.Second)
		return unknownReply
	}}
	table := strings.Replace(testTable, "recipients_per_transaction = 0", "recipients_per_transaction = 2", 1)
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		asking = make(chan struct{})
		var addresses []string
		for i := range 40 {
			addresses = append(addresses, fmt.Sprintf("gone%d@a.example", i))
		}
		var lists sync.WaitGroup
		lists.Go(func() { b.verify(time.Hour, b.rows(mxA, "zoe@a.example")...) })
		<-asking
		lists.Go(func() { b.verify(time.Hour, b.rows(mxA, addresses...)...) })
		synctest.Wait() // until they are queued
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.single(5*time.Second, mxA, "zoe@a.example")))
		lists.Wait()
	})
}

func unique(in []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

func TestCancelledBatchReturns(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { return "-" }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		rows := b.rows(mxA, "ann@a.example", "bob@b.example")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		n := 0
		require.NoError(t, b.prober.Verify(ctx, &wire.Batch{Rows: rows}, time.Hour, func(r wire.Results) {
			for _, x := range r.Rows {
				require.Equal(t, wire.Returned, x.Outcome)
				n++
			}
		}))
		require.Equal(t, 2, n)
	})
}

func TestPublicTargetsNeedASenderIdentity(t *testing.T) {
	h := &fakeServer{down: true, addr: netip.MustParseAddr("9.9.9.9")}
	withTestNode(t, testTable, func(c *Config) { c.MailFrom = "" }, map[string]*fakeServer{"mx.a.example": h},
		func(b *testNode) {
			rows := b.rows(mxA, "ann@a.example")
			require.Equal(t, "UNKNOWN smtp_not_checked",
				verdictText(b.verify(time.Minute, rows...)[rows[0].Number].Verdict))
		})
}

func TestUnroutableHosts(t *testing.T) {
	withTestNode(t, testTable, func(c *Config) { c.AllowPrivate = false }, map[string]*fakeServer{"mx.a.example": {}},
		func(b *testNode) {
			rows := b.rows(mxA, "ann@a.example")
			require.Equal(t, "INVALID unroutable_mx",
				verdictText(b.verify(time.Minute, rows...)[rows[0].Number].Verdict))
		})
}
