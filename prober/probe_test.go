package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/hostqueue"
)

// TestDeferredTargetAgesWithItsDecoy: a decoy asked after its greylisted target has waited as long as that when both
// are asked again; one asked after an acceptance moves nothing. Nothing is due before now.
func TestDeferredTargetAgesWithItsDecoy(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		target   engine.Meaning
		due, now time.Duration
		want     time.Duration
	}{
		{engine.Greylisted, 5 * time.Minute, 2 * time.Minute, 7 * time.Minute},
		{engine.Accepted, 5 * time.Minute, 2 * time.Minute, 5 * time.Minute},
		{engine.Accepted, 5 * time.Minute, 9 * time.Minute, 9 * time.Minute},
	} {
		p := &hostqueue.Probe{}
		p.Ev.Append(engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventReply,
			Finding: engine.Finding{Meaning: tt.target}, At: began})
		p.Ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Event: engine.EventReply,
			Finding: engine.Finding{Meaning: engine.RateLimited}, At: began.Add(2 * time.Minute)})
		got := deferUntil(p, began.Add(tt.due), began.Add(tt.now), "")
		require.Equal(t, tt.want, got.due.Sub(began), "%v", tt)
		require.Equal(t, got.due, got.verdict.Details.NextRetry)
	}
}
