package prober

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// tarpit is an rcpt script of a host that knows everybody called ann, takes a second to refuse late, and is too slow to be asked on
// once it has refused so many.
func tarpit(past int64) func(string) string {
	var refused atomic.Int64
	return func(local string) string {
		if refused.Load() >= past {
			time.Sleep(stuckReply + time.Second)
		}
		if strings.HasPrefix(local, "ann") {
			return "250 2.1.5 ok"
		}
		if local == "late" {
			time.Sleep(time.Second)
		}
		refused.Add(1)
		return "550 5.1.1 User unknown"
	}
}

// TestTarpitIsAskedForProof: a host that has refused half of what it bears in an hour gets too slow to be asked on. Who has just been
// accepted is in doubt, and could not be believed when the host has been left alone: several are worth a decoy on the same connection,
// which settles them, and one is not.
func TestTarpitIsAskedForProof(t *testing.T) {
	for together, decoys := range map[int]int{2: 1, 1: 0} {
		t.Run(fmt.Sprintf("%d in doubt", together), func(t *testing.T) {
			table := strings.NewReplacer("connections = 2", "connections = 1", "refusals_per_hour = 0", "refusals_per_hour = 20",
				"recipients_per_transaction = 0", fmt.Sprintf("recipients_per_transaction = %d", together)).Replace(labTable)
			h := &host{rcpt: tarpit(10), noPipe: true}
			inLab(t, table, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
				before := []string{"ann@a.example"} // and its decoy
				for i := range 8 {
					before = append(before, fmt.Sprintf("nobody%d@a.example", i))
				}
				b.verify(10*time.Minute, b.rows(mxa, before...)...)
				var busy sync.WaitGroup
				busy.Go(func() { b.verify(10*time.Minute, b.rows(mxa, "late@a.example")...) })
				time.Sleep(time.Second / 2) // what comes now finds the connection busy, and is asked together
				var accepted []string
				for i := range 2 * together {
					accepted = append(accepted, fmt.Sprintf("ann%d@a.example", i))
				}
				settled := 0
				for _, r := range b.verify(2*time.Minute, b.rows(mxa, accepted...)...) {
					if r.Outcome == wire.Settled {
						require.Equal(t, "VALID", spell(r.Verdict))
						settled++
					}
				}
				busy.Wait()
				saw := h.saw()
				require.Equal(t, decoys*together, settled, "%v", saw.log)
				require.Len(t, saw.refuse, 10+decoys)
				require.Len(t, saw.rcpts, 11+together+decoys, "who is left alone is not asked: %v", saw.log)
				require.Len(t, saw.dialed, 1, "on the connection that was there")
			})
		})
	}
}
