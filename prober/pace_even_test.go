package prober

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
	"probity/prober/wire"
)

// TestEvenUsesTheHour lets a long backlog ask whatever it may, with any answers: it ends up with what the budget allows, never
// more of it in a part of an hour than two portions above that part, and the window's law holds.
func TestEvenUsesTheHour(t *testing.T) {
	const hours = 10
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 5, 16, 20, 30, 160, 200}).Draw(t, "limit")
		refused := rapid.IntRange(10, 100).Draw(t, "percent refused")
		now := time.Unix(1_700_000_000, 0)
		end := now.Add(hours * time.Hour)
		p := newPace(engine.Limits{RefusalsPerHour: limit}, now)
		p.calls = &calls{}
		p.even.until = end
		open := p.anHour(bulk, now)
		var seen []time.Time
		for i := 0; now.Before(end); i++ {
			n, d := p.hourly(bulk, now)
			if n == 0 {
				require.True(t, d.until.After(now), "it waits in vain")
				now = d.until
				continue
			}
			n = min(n, rapid.IntRange(1, 5).Draw(t, "n"))
			c := &connPace{}
			p.reserve(c, n)
			p.even.out += n
			now = now.Add(time.Second)
			bad := 0
			for range n {
				if rapid.IntRange(1, 100).Draw(t, "answer") <= refused {
					bad++
					seen = append(seen, now)
				}
			}
			p.settle(c, n, n-bad, 0, now)
			p.spend(n, bad, now)
		}
		require.GreaterOrEqual(t, float64(len(seen)), 0.97*(hours-1)*float64(open)-1)
		require.LessOrEqual(t, worst(seen, time.Hour), open)
		portion := (open + portions - 1) / portions
		require.LessOrEqual(t, worst(seen, time.Hour/4), (open+3)/4+2*portion)
	})
}

// TestEvenLeavesShortJobsTheirShare has a long backlog and a short job want all of one budget: three of four refusals are the
// short one's, the long one does not starve, and the law holds.
func TestEvenLeavesShortJobsTheirShare(t *testing.T) {
	for _, limit := range []int{4, 20, 200} {
		now := time.Unix(1_700_000_000, 0)
		p := newPace(engine.Limits{RefusalsPerHour: limit}, now)
		p.calls = &calls{}
		p.even.until = now.Add(100 * time.Hour)
		var seen []time.Time
		had := map[priority]int{}
		for at := range 12 * 3600 {
			now = now.Add(time.Second)
			who := bulk
			if at > 6*3600 {
				p.even.shorn = now.Add(shortLinger)
				who = [...]priority{bulk, short}[at%2]
			}
			if n, _ := p.hourly(who, now); n > 0 {
				c := &connPace{}
				p.reserve(c, 1)
				p.settle(c, 1, 0, 0, now)
				if who == bulk {
					p.even.out++
					p.spend(1, 1, now)
				}
				if at > 6*3600 {
					had[who]++
				}
				seen = append(seen, now)
			}
		}
		require.LessOrEqual(t, worst(seen, time.Hour), limit)
		require.InDelta(t, 1.0/(1+shortShare), float64(had[bulk])/float64(had[bulk]+had[short]), 0.1, "%d: %v", limit, had)
	}
}

// TestEvenChargesWhatItSaid has a long backlog under way for all that it may ask when a short job comes, or the word that others have
// used the hour: it pays for two portions, and goes on when one of them is earned again.
func TestEvenChargesWhatItSaid(t *testing.T) {
	for name, change := range map[string]func(p *pace, now time.Time){
		"a short job comes":    func(p *pace, now time.Time) { p.even.shorn = now.Add(shortLinger) },
		"others used the hour": func(p *pace, now time.Time) { p.elsewhere = elsewhere{200, now.Add(shortLinger)} },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_700_000_000, 0)
			p := newPace(engine.Limits{RefusalsPerHour: 200}, now)
			p.calls = &calls{}
			p.even.until = now.Add(100 * time.Hour)
			n, _ := p.hourly(bulk, now)
			p.reserve(&connPace{}, n)
			p.even.out += n
			change(&p, now)
			p.settle(&connPace{}, n, 0, 0, now)
			p.spend(n, n, now)
			n, _ = p.hourly(bulk, now.Add(time.Hour/portions))
			require.Positive(t, n)
		})
	}
}

// TestShortJobFindsRoomBesideALongBacklog keeps a lane in work for hours with rows that are all refused. A short job of a tenth of
// the hour's budget comes whenever it likes: it is answered in less than an hour. Without the word of a long backlog it finds
// the hour spent.
func TestShortJobFindsRoomBesideALongBacklog(t *testing.T) {
	for _, steady := range []bool{true, false} {
		t.Run(fmt.Sprintf("steady %v", steady), func(t *testing.T) {
			h := &host{rcpt: knows("nobody")}
			inLab(t, limited("refusals_per_hour = 0", "refusals_per_hour = 20"), nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
				ctx, cancel := context.WithCancel(context.Background())
				var jobs sync.WaitGroup
				long := &wire.Batch{Job: "long", Steady: steady, Started: time.Now(), Rows: b.rows(mxa, addresses(400, "l.example")...)}
				jobs.Go(func() { require.NoError(t, b.prober.Verify(ctx, long, 100*time.Hour, func(wire.Results) {})) })
				slowest := time.Duration(0)
				for i := range 6 {
					time.Sleep(2*time.Hour + time.Duration(i)*11*time.Minute)
					if steady {
						b.prober.allLanes()[0].steady(time.Now()) // as each chunk of the long job says
					}
					began := time.Now()
					quick := &wire.Batch{Job: "short", Short: true, Started: began, Rows: b.rows(mxa, fmt.Sprintf("a%d@s.example", i), fmt.Sprintf("b%d@s.example", i))}
					require.NoError(t, b.prober.Verify(ctx, quick, 3*time.Hour, func(wire.Results) {}))
					slowest = max(slowest, time.Since(began))
				}
				cancel()
				jobs.Wait()
				require.LessOrEqual(t, worst(h.saw().refuse, time.Hour), 20)
				t.Logf("%v", slowest)
				if steady {
					require.Less(t, slowest, 12*time.Minute)
				} else {
					require.Greater(t, slowest, 20*time.Minute, "the lab spends no hour at once any more")
				}
			})
		})
	}
}

// TestLongBacklogUsesTheHour keeps a lane in work for ten hours with a long backlog of which all, or a quarter, is refused: but for
// the first hour it uses 97 % of the budget, as one that spends each hour at once does, and the law holds.
func TestLongBacklogUsesTheHour(t *testing.T) {
	const hours = 10
	for _, limit := range []int{20, 90} {
		for _, oneOf := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d an hour, one of %d refused", limit, oneOf), func(t *testing.T) {
				h := &host{rcpt: func(local string) string {
					if len(local) > 4 && int(local[len(local)-1]-'0')%oneOf == 0 {
						return "550 5.1.1 User unknown"
					}
					return "250 2.1.5 ok"
				}}
				inLab(t, limited("refusals_per_hour = 0", fmt.Sprintf("refusals_per_hour = %d", limit)), nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
					var word sync.WaitGroup
					word.Go(func() {
						time.Sleep(time.Second)
						l := b.prober.allLanes()[0]
						l.mu.Lock()
						l.pace.even.until = time.Now().Add(hours * time.Hour)
						l.mu.Unlock()
					})
					b.verify(hours*time.Hour, b.rows(mxa, addresses(hours*limit*oneOf+100, "a.example")...)...)
					word.Wait()
					seen, open := h.saw().refuse, limit-keptForFirst(limit)
					t.Logf("%d of %d, on %d connections", len(seen), hours*open, len(h.saw().dialed))
					require.LessOrEqual(t, worst(seen, time.Hour), open)
					require.GreaterOrEqual(t, float64(len(seen)), 0.97*float64((hours-1)*open))
				})
			})
		}
	}
}
