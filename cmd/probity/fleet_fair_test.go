package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/coordinator"
	"probity/store"
)

// The rows of the long job, which is still under way at the end, and of the short one; and how many singles are asked.
const (
	fairLong    = 120_000
	fairShort   = 10_000 // more than the budgets of one minute, which a list alone finds untouched
	fairSingles = 60
)

// TestFleetIsFair asks single addresses and a short list while a long list is under way: neither waits for its end. All are of
// one wide provider, so that they want the same budgets, and receivers take as long to answer as the real ones do.
func TestFleetIsFair(t *testing.T) {
	if raceEnabled {
		t.Skip("it is long, and its paces are tried without the race detector; other tests look for races")
	}
	inFleetAt(t, 1, "realistic", 4, 2, func(ctx context.Context, f *fleetLab, _ []*spoke) {
		fresh := f.mailboxes(2*fairSingles+2*fairShort+fairLong, 99)
		next := func(n int) (some []string) {
			some, fresh = fresh[:n], fresh[n:]
			return some
		}
		idle := f.singles(ctx, next(fairSingles))
		time.Sleep(2 * time.Minute)
		alone := f.timed(ctx, listOf(next(fairShort)))
		time.Sleep(2 * time.Minute)
		long := f.hub.accept(t, ctx, listOf(next(fairLong)))
		time.Sleep(2 * time.Minute)
		loaded := f.singles(ctx, next(fairSingles))
		beside := f.timed(ctx, listOf(next(fairShort)))
		job, err := f.hub.store.Job(long)
		require.NoError(t, err)
		require.Equal(t, store.JobRunning, job.State, "the long job ended too early")
		t.Logf("fresh single p50 %s idle, %s beside the long job (%.2f times); %d rows in %s alone, %s beside it (%.2f times)", idle, loaded,
			loaded.Seconds()/idle.Seconds(), fairShort, alone, beside, beside.Seconds()/alone.Seconds())
		requirePolite(t, f.internet.Referee.Report())
		if loaded > 3*idle/2 {
			t.Error("singles wait for the long job")
		}
		if beside.Seconds() > 2*alone.Seconds() {
			t.Error("the short list waits for the long one")
		}
		_, err = f.hub.coordinator.Cancel(long)
		require.NoError(t, err)
	})
}

// mailboxes are addresses that exist at gmail.com.
func (f *fleetLab) mailboxes(n int, seed uint64) []string {
	w, seen, found := f.internet.World, map[string]bool{}, []string(nil)
	for ; len(found) < n; seed++ {
		var list bytes.Buffer
		require.NoError(f.t, sim.WriteList(&list, w, 200_000, seed))
		keepRows(f.t, list.Bytes(), func(email string) bool {
			local, domain, _ := strings.Cut(email, "@")
			if domain == "gmail.com" && w.Mailbox(domain, local) == sim.Present && !seen[email] {
				seen[email] = true
				found = append(found, email)
			}
			return false
		})
	}
	return found[:n]
}

func listOf(emails []string) []byte { return []byte("email\n" + strings.Join(emails, "\n") + "\n") }

// singles asks one address after another and gives the median time.
func (f *fleetLab) singles(ctx context.Context, emails []string) time.Duration {
	var took []time.Duration
	for _, email := range emails {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		began := time.Now()
		_, err := f.hub.coordinator.Single(ctx, coordinator.Request{Email: email})
		require.NoError(f.t, err)
		took = append(took, time.Since(began))
		cancel()
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// timed verifies a list and gives how long it took.
func (f *fleetLab) timed(ctx context.Context, list []byte) time.Duration {
	began := time.Now()
	f.hub.finish(f.t, ctx, f.hub.accept(f.t, ctx, list))
	return time.Since(began)
}
