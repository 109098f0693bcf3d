package split

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/coordinator/chunks"
	"probity/engine"
)

// TestUnresolvedDomainsCountRows: domains fail, wait, are retried and released in any order; rows counts those of held
// domains.
func TestUnresolvedDomainsCountRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, ud, all := time.Now(), &unresolvedDomains{}, []*domain{}
		failed := chunks.Route{Route: engine.Route{Fact: engine.FactServFail}}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				x := &domain{route: failed, waitingRows: make([]splitRow, rapid.IntRange(1, 9).Draw(t, "rows"))}
				all = append(all, x)
				ud.handleAnswer(x, now)
			case 1:
				if len(all) > 0 {
					ud.addRow(rapid.SampledFrom(all).Draw(t, "domain"), splitRow{})
				}
			case 2:
				if rapid.Bool().Draw(t, "alive") {
					ud.checkPassed(now)
				} else {
					ud.checkFailed(now)
				}
			case 3:
				for x := ud.nextDue(now); x != nil; x = ud.nextDue(now) {
					ud.handleAnswer(x, now)
				}
			case 4:
				ud.release(rapid.Bool().Draw(t, "idle"), now)
			default:
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "wait"))
			}
			held := int64(0)
			for _, x := range ud.undecided {
				held += int64(len(x.waitingRows))
			}
			for _, p := range ud.scheduled {
				held += int64(len(p.domain.waitingRows))
			}
			require.Equal(t, held, ud.rows)
		}
	})
}
