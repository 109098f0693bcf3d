package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSingleDoesNotWaitForQUIT: a connection whose server does not answer QUIT keeps a single call waiting for two
// seconds at most, also where the receiver takes one connection at a time. It counts until it has closed.
func TestSingleDoesNotWaitForQUIT(t *testing.T) {
	for name, c := range map[string]struct {
		mx          []string
		connections int
		most        time.Duration
	}{
		"a place is free":            {[]string{"mx.big.example"}, 2, 500 * time.Millisecond},
		"no place is free":           {[]string{"mx.big.example"}, 1, 2 * time.Second},
		"an unknown one, one place":  {mxA, 1, 2 * time.Second},
		"an unknown one, two places": {mxA, 2, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			table := strings.Replace(testTable, "connections = 2", fmt.Sprint("connections = ", c.connections), 1)
			h := &fakeServer{rcpt: acceptsAnn, ignoresQuit: true}
			withTestNode(t, table, nil, map[string]*fakeServer{c.mx[0]: h}, func(b *testNode) {
				require.Equal(t, "VALID", verdictText(b.single(time.Minute, c.mx, "ann@a.example")))
				for i := range 20 { // the connection is idle, then waits after QUIT, then is closed
					time.Sleep(time.Duration(i) * 500 * time.Millisecond)
					began := time.Now()
					require.Equal(t, "VALID",
						verdictText(b.single(time.Minute, c.mx, fmt.Sprintf("ann%d@a.example", i))))
					require.LessOrEqual(t, time.Since(began), c.most, i)
				}
				saw := h.snapshot()
				require.Greater(t, len(saw.dialTimes), 5)
				require.LessOrEqual(t, saw.peak, c.connections)
			})
		})
	}
}
