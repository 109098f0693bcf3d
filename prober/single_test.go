package prober

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

func TestSingleIsAnsweredAndCached(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		v := b.single(10*time.Second, mxa, "ann@a.example")
		require.Equal(t, "VALID", spell(v))
		require.True(t, v.SMTPValid)
		time.Sleep(time.Second)
		v = b.single(10*time.Second, mxa, "ann@a.example")
		require.Equal(t, "VALID", spell(v))
		require.True(t, v.FromCache)
		require.Equal(t, "mx.a.example", v.Details.Host)
		require.Equal(t, 2, h.count("RCPT"))
	})
}

func TestTwoSinglesMakeOneProbe(t *testing.T) {
	h := &host{rcpt: func(l string) string { time.Sleep(time.Second); return knows("ann")(l) }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { require.Equal(t, "VALID", spell(b.single(10*time.Second, mxa, "ann@a.example"))) })
		}
		wg.Wait()
		require.Equal(t, 2, h.count("RCPT"))
	})
}

func TestSingleAtItsDeadlineGoesOnInTheBackground(t *testing.T) {
	h := &host{rcpt: func(l string) string { time.Sleep(5 * time.Second); return knows("ann")(l) }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		start := time.Now()
		require.Equal(t, "UNKNOWN timeout", spell(b.single(time.Second, mxa, "ann@a.example")))
		require.WithinDuration(t, start.Add(time.Second), time.Now(), 50*time.Millisecond)
		time.Sleep(15 * time.Second)
		require.Equal(t, "VALID", spell(b.single(time.Second, mxa, "ann@a.example")))
		require.Equal(t, 2, h.count("RCPT"))
	})
}

func TestGreylistedSingleIsRetriedBehindTheScenes(t *testing.T) {
	h := &host{rcpt: grey(knows("ann"))}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		v := b.single(10*time.Second, mxa, "ann@a.example")
		require.Equal(t, "UNKNOWN greylisted", spell(v))
		require.WithinDuration(t, time.Now().Add(time.Minute), v.Details.NextRetry, 2*time.Second)
		time.Sleep(10 * time.Second)
		dialed := len(h.saw().dialed)
		v = b.single(10*time.Second, mxa, "ann@a.example")
		require.Equal(t, "UNKNOWN greylisted", spell(v))
		require.False(t, v.Details.NextRetry.IsZero())
		require.Len(t, h.saw().dialed, dialed, "no connection while the retry is pending")
		time.Sleep(time.Minute)
		v = b.single(10*time.Second, mxa, "ann@a.example")
		require.Equal(t, "VALID", spell(v), h.saw().log)
		require.True(t, v.FromCache)
		require.Empty(t, b.prober.retries.byKey)
	})
}

func TestSingleOvertakesBulk(t *testing.T) {
	h := &host{rcpt: func(string) string { time.Sleep(50 * time.Millisecond); return "550 5.1.1 User unknown" }}
	table := strings.Replace(labTable, "recipients_per_transaction = 0", "recipients_per_transaction = 10", 1)
	inLab(t, table, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		var addrs []string
		for i := range 1000 {
			addrs = append(addrs, "u"+strings.Repeat("x", i/26)+string(rune('a'+i%26))+"@a.example")
		}
		for i, a := range addrs {
			if at := strings.IndexByte(a, '@'); at > 64 {
				addrs[i] = a[at-60:]
			}
		}
		rows := b.rows(mxa, unique(addrs)...)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = b.prober.Verify(ctx, &wire.Batch{Rows: rows}, time.Hour, func(wire.Results) {})
		})
		time.Sleep(time.Second)
		start := time.Now()
		require.Equal(t, "INVALID mailbox_not_found", spell(b.single(10*time.Second, mxa, "zoe@a.example")))
		require.Less(t, time.Since(start), 1500*time.Millisecond, "at most one transaction of bulk comes before")

		start = time.Now()
		last := rows[len(rows)-1].Address
		v := b.single(10*time.Second, mxa, last.Local()+"@"+last.Domain())
		require.Equal(t, "INVALID mailbox_not_found", spell(v))
		require.Less(t, time.Since(start), 1500*time.Millisecond, "a queued row is promoted")
		cancel()
		wg.Wait()
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

func TestCancelledBatchGoesHome(t *testing.T) {
	h := &host{rcpt: func(string) string { return "-" }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "bob@b.example")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		n := 0
		require.NoError(t, b.prober.Verify(ctx, &wire.Batch{Rows: rows}, time.Hour, func(r wire.Results) {
			for _, x := range r.Rows {
				require.Equal(t, wire.Later, x.Outcome)
				n++
			}
		}))
		require.Equal(t, 2, n)
	})
}

func TestPublicTargetsNeedAFace(t *testing.T) {
	h := &host{down: true, addr: netip.MustParseAddr("9.9.9.9")}
	inLab(t, labTable, func(c *Config) { c.MailFrom = "" }, map[string]*host{"mx.a.example": h}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example")
		require.Equal(t, "UNKNOWN smtp_not_checked", spell(b.verify(time.Minute, rows...)[rows[0].Number].Verdict))
	})
}

func TestUnroutableHosts(t *testing.T) {
	inLab(t, labTable, func(c *Config) { c.AllowPrivate = false }, map[string]*host{"mx.a.example": {}}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example")
		require.Equal(t, "INVALID unroutable_mx", spell(b.verify(time.Minute, rows...)[rows[0].Number].Verdict))
	})
}
