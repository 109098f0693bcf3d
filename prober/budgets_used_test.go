package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
)

// TestBudgetsAreUsed keeps a ready queue busy for hours: it uses 97 % of the tightest budget, or of what it does not
// leave to single calls while they come, and never exceeds the budget.
func TestBudgetsAreUsed(t *testing.T) {
	detector.Spare(t)
	tests := []struct {
		name   string
		limit  []string
		budget int
		span   time.Duration
		spans  int
		seen   func(records) []time.Time
		rcpt   func(string) string
	}{
		{"refusals", []string{"refusals_per_hour = 0", "refusals_per_hour = 20"}, 20, time.Hour, 8,
			func(r records) []time.Time { return r.refusalTimes }, acceptsOnly("nobody")},
		{"many refusals", []string{"refusals_per_hour = 0", "refusals_per_hour = 200"}, 200, time.Hour, 8,
			func(r records) []time.Time { return r.refusalTimes }, acceptsOnly("nobody")},
		{"recipients", []string{"recipients_per_minute = 0", "recipients_per_minute = 60"}, 60, time.Minute, 30,
			func(r records) []time.Time { return r.rcptTimes }, nil},
		{"few recipients for long", []string{"recipients_per_minute = 0", "recipients_per_minute = 20"}, 20,
			time.Minute, 180, func(r records) []time.Time { return r.rcptTimes }, nil},
		{"many recipients", []string{"recipients_per_minute = 0", "recipients_per_minute = 300"}, 300, time.Minute, 12,
			func(r records) []time.Time { return r.rcptTimes }, nil},
	}
	for _, test := range tests {
		for _, singles := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, singles %v", test.name, singles), func(t *testing.T) {
				h := &fakeServer{rcpt: test.rcpt}
				withTestNode(t, tableWith(test.limit...), nil, map[string]*fakeServer{"mx.a.example": h},
					func(b *testNode) {
						open := test.budget
						if singles {
							open -= open / 5
							b.prober.singleCalls.Record(time.Now().Add(24 * time.Hour))
						}
						b.verify(time.Duration(test.spans)*test.span,
							b.rows(mxA, numberedAddresses(test.spans*test.budget+100, "a.example")...)...)
						seen := test.seen(h.snapshot())
						require.LessOrEqual(t, mostInSpan(seen, test.span), open)
						t.Logf("%d of %d", len(seen), test.spans*open)
						require.GreaterOrEqual(t, float64(len(seen)), 0.97*float64(test.spans*open))
					})
			})
		}
	}
}

// TestRowsAreShuffled verifies the rows of a domain: they are not asked in the order of the list, part of which may be
// bad.
func TestRowsAreShuffled(t *testing.T) {
	h := &fakeServer{}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		b.verify(time.Minute, b.rows(mxA, numberedAddresses(200, "a.example")...)...)
	})
	follow, last := 0, -1
	for _, line := range h.snapshot().log {
		var n int
		if _, err := fmt.Sscanf(line, "RCPT user%d@", &n); err != nil {
			continue
		}
		if n == last+1 {
			follow++
		}
		last = n
	}
	require.Less(t, follow, 10, "of 200 rows, those that follow on who comes before them in the list")
}
