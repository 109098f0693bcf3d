package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
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
	fairSmall   = 1000                // of the realistic mix, beside the list of make fair
	fairHours   = 2                   // of the long list of make fair, before anything is measured: its hours' budgets are in full use then
	fairRowsEnv = "PROBITY_FAIR_ROWS" // rows of the realistic mix for the long job instead: make fair
)

// TestFleetIsFair asks single addresses and a short list while a long list is under way: neither waits for its end. All are of
// one wide provider, so that they want the same budgets, and receivers take as long to answer as the real ones do. For make fair
// the long list is of the realistic mix, and there is a small one of it too.
func TestFleetIsFair(t *testing.T) {
	if raceEnabled {
		t.Skip("it is long, and its paces are tried without the race detector; other tests look for races")
	}
	inFleetAt(t, 1, "realistic", 4, 2, func(ctx context.Context, f *fleetLab, _ []*spoke) {
		rows, long := fairRows(t), fairLong
		if rows > 0 {
			long = 0
		}
		fresh := f.mailboxes(2*fairSingles+4*fairHours+2*fairShort+long, 99)
		next := func(n int) (some []string) {
			some, fresh = fresh[:n], fresh[n:]
			return some
		}
		idle := f.singles(ctx, next(fairSingles))
		time.Sleep(2 * time.Minute)
		alone := f.timed(ctx, listOf(next(fairShort)))
		smallAlone := f.timedMix(ctx, rows, 97)
		time.Sleep(2 * time.Minute)
		id := f.acceptLong(ctx, rows, next(long))
		if rows > 0 {
			f.goOn(ctx, next(4*fairHours))
		}
		time.Sleep(2 * time.Minute)
		loaded := f.singles(ctx, next(fairSingles))
		t.Logf("fresh single p50 %s idle, %s beside the long job (%.2f times)", idle, loaded, loaded.Seconds()/idle.Seconds())
		beside := f.timed(ctx, listOf(next(fairShort)))
		smallBeside := f.timedMix(ctx, rows, 98)
		job, err := f.hub.store.Job(id)
		require.NoError(t, err)
		require.Equal(t, store.JobRunning, job.State, "the long job ended too early")
		if rows > 0 {
			s, err := f.hub.coordinator.Snapshot(id)
			require.NoError(t, err)
			t.Logf("the long job has %d rows, of which %d are answered; %d rows of the mix in %s alone, %s beside it (%.2f times); %s of CPU time", job.Rows,
				s.Answered, fairSmall, smallAlone, smallBeside, smallBeside.Seconds()/smallAlone.Seconds(), cpuTime().Round(time.Second))
			if smallBeside.Seconds() > 2*smallAlone.Seconds() {
				t.Error("the small list of the mix waits for the long one")
			}
		}
		t.Logf("%d rows in %s alone, %s beside it (%.2f times)", fairShort, alone, beside, beside.Seconds()/alone.Seconds())
		requirePolite(t, f.internet.Referee.Report())
		if loaded > 3*idle/2 {
			t.Error("singles wait for the long job")
		}
		most := 2.0
		if rows > 0 {
			most = 3 // rows of one provider at its full pace, where all but a tenth of the hour is in use
		}
		if beside.Seconds() > most*alone.Seconds() {
			t.Error("the short list waits for the long one")
		}
		_, err = f.hub.coordinator.Cancel(id)
		require.NoError(t, err)
	})
}

// fairRows is how long a list make fair asked for; 0 without it.
func fairRows(t *testing.T) int {
	text := os.Getenv(fairRowsEnv)
	if text == "" {
		return 0
	}
	rows, err := strconv.Atoi(text)
	require.NoError(t, err, fairRowsEnv)
	return rows
}

// acceptLong begins the long job, and waits until some of it is answered.
func (f *fleetLab) acceptLong(ctx context.Context, rows int, emails []string) string {
	list := listOf(emails)
	if rows > 0 {
		list = f.list(rows, nil)
	}
	id := f.hub.accept(f.t, ctx, list)
	for range 60 {
		if s, err := f.hub.coordinator.Snapshot(id); err == nil && s.Answered > fairShort {
			break
		}
		time.Sleep(time.Minute)
	}
	return id
}

// timedMix verifies a small list of the realistic mix, where make fair asked for it.
func (f *fleetLab) timedMix(ctx context.Context, rows int, seed uint64) time.Duration {
	if rows == 0 {
		return 0
	}
	var list bytes.Buffer
	require.NoError(f.t, sim.WriteList(&list, f.internet.World, fairSmall, seed))
	return f.timed(ctx, list.Bytes())
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

// goOn lets some time pass in which a single is asked now and then.
func (f *fleetLab) goOn(ctx context.Context, emails []string) {
	for _, email := range emails {
		time.Sleep(time.Hour / 4)
		f.singles(ctx, []string{email})
	}
}

// timed verifies a list and gives how long it took.
func (f *fleetLab) timed(ctx context.Context, list []byte) time.Duration {
	began := time.Now()
	f.hub.finish(f.t, ctx, f.hub.accept(f.t, ctx, list))
	return time.Since(began)
}
