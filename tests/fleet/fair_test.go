package fleet_test

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

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
	"probity/coordinator"
	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

// The rows of the long job, which is still running at the end, and of the short one; and the number of single calls.
const (
	fairLongRows  = 120_000
	fairShortRows = 10_000 // more than the budgets of one minute, which are unused when a job runs alone
	fairSingles   = 60
	fairSmallRows = 1000 // of the realistic mix, while the long job of make fair runs
	// of the long job of make fair before the measurement: its hourly budgets are in full use then
	fairHours   = 2
	fairRowsEnv = "PROBITY_FAIR_ROWS" // rows of the realistic mix for the long job instead: make fair
)

// TestFleetIsFair verifies single addresses and a short list while a long job runs: neither waits for its end. All are
// of one wide provider, so that they share the same budgets, and receivers have realistic latency. For make fair the
// long list has the realistic mix, and there is a small list with it too.
func TestFleetIsFair(t *testing.T) {
	detector.Spare(t)
	withMemClusterAt(t, 1, "realistic", 4, 2, func(ctx context.Context, f *memCluster, _ []*memProber) {
		rows, long := fairRows(t), fairLongRows
		if rows > 0 {
			long = 0
		}
		fresh := f.mailboxes(2*fairSingles+4*fairHours+2*fairShortRows+long, 99)
		next := func(n int) (some []string) {
			some, fresh = fresh[:n], fresh[n:]
			return some
		}
		idle := f.singles(ctx, next(fairSingles))
		time.Sleep(2 * time.Minute)
		unloaded := f.verifyTime(ctx, listOf(next(fairShortRows)))
		smallUnloaded := f.verifyMixTime(ctx, rows, 97)
		time.Sleep(2 * time.Minute)
		id := f.acceptLongJob(ctx, rows, next(long))
		if rows > 0 {
			f.idleWithSingles(ctx, next(4*fairHours))
		}
		time.Sleep(2 * time.Minute)
		loaded := f.singles(ctx, next(fairSingles))
		t.Logf("fresh single p50 %s idle, %s beside the long job (%.2f times)", idle, loaded,
			loaded.Seconds()/idle.Seconds())
		concurrent := f.verifyTime(ctx, listOf(next(fairShortRows)))
		smallConcurrent := f.verifyMixTime(ctx, rows, 98)
		job, err := f.coord.store.Job(id)
		require.NoError(t, err)
		require.Equal(t, store.JobRunning, job.State, "the long job ended too early")
		if rows > 0 {
			s, err := f.coord.coordinator.Snapshot(id)
			require.NoError(t, err)
			t.Logf("the long job has %d rows, of which %d are answered; %d rows of the mix in %s alone, %s next to it (%.2f times); %s of CPU time", job.Rows,
				s.Answered, fairSmallRows, smallUnloaded, smallConcurrent,
				smallConcurrent.Seconds()/smallUnloaded.Seconds(), harness.CPUTime().Round(time.Second))
			if smallConcurrent.Seconds() > 2*smallUnloaded.Seconds() {
				t.Error("the small list of the mix waits for the long one")
			}
		}
		t.Logf("%d rows in %s alone, %s next to it (%.2f times)", fairShortRows, unloaded, concurrent,
			concurrent.Seconds()/unloaded.Seconds())
		harness.RequireWithinLimits(t, f.internet.Referee.Report())
		if loaded > 3*idle/2 {
			t.Error("singles wait for the long job")
		}
		most := 2.0
		if rows > 0 {
			most = 3 // for rows of one provider at its full rate, while nine tenths of the hourly budget are in use
		}
		if concurrent.Seconds() > most*unloaded.Seconds() {
			t.Error("the short list waits for the long one")
		}
		_, err = f.coord.coordinator.Cancel(id)
		require.NoError(t, err)
	})
}

// fairRows is the length of the list of make fair; 0 without it.
func fairRows(t *testing.T) int {
	text := os.Getenv(fairRowsEnv)
	if text == "" {
		return 0
	}
	rows, err := strconv.Atoi(text)
	require.NoError(t, err, fairRowsEnv)
	return rows
}

// acceptLongJob starts the long job, and waits until some rows are answered.
func (f *memCluster) acceptLongJob(ctx context.Context, rows int, emails []string) string {
	list := listOf(emails)
	if rows > 0 {
		list = f.list(rows, nil)
	}
	id := f.coord.accept(ctx, f.t, list)
	for range 60 {
		if s, err := f.coord.coordinator.Snapshot(id); err == nil && s.Answered > fairShortRows {
			break
		}
		time.Sleep(time.Minute)
	}
	return id
}

// verifyMixTime verifies a small list of the realistic mix in make fair.
func (f *memCluster) verifyMixTime(ctx context.Context, rows int, seed uint64) time.Duration {
	if rows == 0 {
		return 0
	}
	var list bytes.Buffer
	require.NoError(f.t, world.WriteList(&list, f.internet.World, fairSmallRows, seed))
	return f.verifyTime(ctx, list.Bytes())
}

// mailboxes are addresses that exist at gmail.com.
func (f *memCluster) mailboxes(n int, seed uint64) []string {
	w, seen, found := f.internet.World, map[string]bool{}, []string(nil)
	for ; len(found) < n; seed++ {
		var list bytes.Buffer
		require.NoError(f.t, world.WriteList(&list, w, 200_000, seed))
		keepRows(f.t, list.Bytes(), func(email string) bool {
			local, domain, _ := strings.Cut(email, "@")
			if domain == "gmail.com" && w.Mailbox(domain, local) == persona.Present && !seen[email] {
				seen[email] = true
				found = append(found, email)
			}
			return false
		})
	}
	return found[:n]
}

func listOf(emails []string) []byte { return []byte("email\n" + strings.Join(emails, "\n") + "\n") }

// singles verifies one address after another and returns the median time.
func (f *memCluster) singles(ctx context.Context, emails []string) time.Duration {
	var took []time.Duration
	for _, email := range emails {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		began := time.Now()
		_, err := f.coord.coordinator.Single(ctx, coordinator.Request{Email: email})
		require.NoError(f.t, err)
		took = append(took, time.Since(began))
		cancel()
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// idleWithSingles lets time pass with a single call every quarter of an hour.
func (f *memCluster) idleWithSingles(ctx context.Context, emails []string) {
	for _, email := range emails {
		time.Sleep(time.Hour / 4)
		f.singles(ctx, []string{email})
	}
}

// verifyTime verifies a list and returns how long it took.
func (f *memCluster) verifyTime(ctx context.Context, list []byte) time.Duration {
	began := time.Now()
	f.coord.waitResult(ctx, f.t, f.coord.accept(ctx, f.t, list))
	return time.Since(began)
}
