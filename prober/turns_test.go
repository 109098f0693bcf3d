package prober

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/prober/wire"
)

// TestTurnsShare lets short and long jobs come and go, with transactions of any size. While both want turns, each has its
// share, but for what one transaction may be too much.
func TestTurnsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s turns
		had := map[priority]int{}
		for range rapid.IntRange(1, 300).Draw(t, "turns") {
			if rapid.IntRange(0, 50).Draw(t, "pause") == 0 {
				shorts := rapid.Bool().Draw(t, "shorts")
				require.Equal(t, shorts, s.whose(false, shorts) == short, "who is alone has the turn")
				clear(had)
				continue
			}
			who := s.whose(true, true)
			n := rapid.IntRange(1, maxTransaction).Draw(t, "recipients")
			s.took(who, n)
			had[who] += n
			require.LessOrEqual(t, had[short], shortShare*had[bulk]+maxTransaction)
			require.LessOrEqual(t, shortShare*had[bulk], had[short]+shortShare*maxTransaction)
		}
	})
}

// TestShortJobsComeFirst asks one host for two jobs, each with more rows than its budget of a minute: where one is short, three
// of four recipients are its.
func TestShortJobsComeFirst(t *testing.T) {
	h := &host{}
	inLab(t, limited("recipients_per_minute = 0", "recipients_per_minute = 50", "recipients_per_transaction = 0", "recipients_per_transaction = 5"), nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		var jobs sync.WaitGroup
		for job, domain := range map[string]string{"long": "l.example", "short": "s.example"} {
			batch := &wire.Batch{Job: job, Short: job == "short", Started: time.Now(), Rows: b.rows(mxa, addresses(120, domain)...)}
			jobs.Go(func() {
				require.NoError(t, b.prober.Verify(context.Background(), batch, 3*time.Minute, func(wire.Results) {}))
			})
		}
		jobs.Wait()
		rcpts := h.saw().rcpts
		first := map[string]int{}
		for i, line := range slices.DeleteFunc(h.saw().log, func(line string) bool { return line == "MAIL" }) {
			if at := rcpts[i].Sub(rcpts[0]); at > time.Minute && at < 3*time.Minute { // the first is who comes first's
				first[line[strings.IndexByte(line, '@')+1:]]++
			}
		}
		require.InDelta(t, 3, float64(first["s.example"])/float64(first["l.example"]), 0.7, "%v", first)
	})
}
