package coordinator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/plan"
	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// threeSourceProber is a prober with three egress sources.
type threeSourceProber struct{ *fakeProber }

func (threeSourceProber) Sources() int { return 3 }

// planCSV is a list with one narrow route of 100 addresses, a few other domains, and rows that need no server.
func planCSV() string {
	var b strings.Builder
	b.WriteString("email\n")
	for i := range 100 {
		fmt.Fprintf(&b, "u%d@firm.example\nU%d@FIRM.example\n", i, i)
	}
	for i := range 30 {
		fmt.Fprintf(&b, "anna.bela%d@gmail.com\n", i)
	}
	b.WriteString("a@nx1.example\nb@null.example\nnot an address\n\nc@fail.example\nd@shop.example\nasked@not.example\n")
	return b.String()
}

// A plan of a queued job counts each address once and needs no prober.
func TestPlanOfAQueuedJob(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem(), func(w *testEnv, c *Config) {
		c.Prober = threeSourceProber{w.prober}
		c.Suppress = func(a engine.Address) bool { return a.Domain() == "not.example" }
	})
	j := w.accept(t, planCSV())
	p, err := w.c.Plan(t.Context(), j.ID, plan.Options{Refused: 0.2})
	require.NoError(t, err)
	require.EqualValues(t, j.Unique, p.Addresses)
	require.EqualValues(t, 4, p.Unasked, "two domains without mail servers, no address, a suppressed one")
	require.EqualValues(t, 1, p.Uncounted, "a domain that cannot be looked up")
	require.Equal(t, 3, p.Sources)
	require.Equal(t, 0.2, p.Refused)
	require.Len(t, p.Receivers, 3)
	firm := p.Receivers[0]
	require.Equal(t, "mx1.firm.example,mx2.firm.example", firm.Route)
	require.InDelta(t, 101, firm.Due.Recipients, 1e-6)
	require.InDelta(t, 21, firm.Due.Refused, 1e-6)
	require.Equal(t, time.Hour, p.MinTime, "21 refused at 20 an hour")
	require.Equal(t, "refusals_per_hour", firm.Limit)
	p, err = w.c.Plan(t.Context(), j.ID, plan.Options{Sources: 1, Refused: 1})
	require.NoError(t, err)
	require.Equal(t, 4*time.Hour, p.MinTime, "100 refused, and no decoy")
	require.Zero(t, w.prober.asked)
	require.NoError(t, w.close(t))
}

// Answered rows need no time, in a running job and in one that is paused after a restart.
func TestPlanCountsUnansweredRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		w := newTestEnv(t, fs)
		w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
			if r.Address.Domain() == "firm.example" {
				return wire.Deferred, time.Hour
			}
			return wire.Settled, 0
		}
		w.run()
		j := w.accept(t, planCSV())
		time.Sleep(time.Minute)
		left := func(w *testEnv) {
			p, err := w.c.Plan(t.Context(), j.ID, plan.Options{Refused: 0.2})
			require.NoError(t, err)
			require.EqualValues(t, 100, p.Addresses)
			require.Len(t, p.Receivers, 1)
			require.Equal(t, 1, p.Sources)
		}
		left(w)
		_, err := w.c.Pause(j.ID)
		require.NoError(t, err)
		synctest.Wait()
		left(w)
		require.NoError(t, w.close(t))
		w = newTestEnv(t, fs)
		left(w)
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		_, err = w.c.Plan(t.Context(), j.ID, plan.Options{})
		require.ErrorIs(t, err, ErrState)
		w.run()
		w.finish(t, j.ID)
		_, err = w.c.Plan(t.Context(), j.ID, plan.Options{})
		require.ErrorIs(t, err, ErrState)
		_, err = w.c.Plan(t.Context(), "none", plan.Options{})
		require.ErrorIs(t, err, store.ErrNotFound)
		require.NoError(t, w.close(t))
	})
}

// Domains that are not looked up in time are not counted: the plan is still a lower bound. Canceling the call ends the
// plan.
func TestPlanKeepsItsTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, c *Config) { c.Lookups = 1 })
		var b strings.Builder
		b.WriteString("email\n")
		for i := range 60 {
			fmt.Fprintf(&b, "a@slow%d.example\n", i)
		}
		j := w.accept(t, b.String())
		began := time.Now()
		p, err := w.c.Plan(t.Context(), j.ID, plan.Options{Refused: 0.2, Lookups: 20*time.Second + time.Millisecond})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 21*time.Second)
		require.InDelta(t, 40, p.Uncounted, 1)
		require.EqualValues(t, 60, p.Addresses)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err = w.c.Plan(ctx, j.ID, plan.Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, w.close(t))
	})
}
