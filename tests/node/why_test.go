package node_test

import (
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
	"probity/coordinator/ingest"
	"probity/internal/app"
	"probity/internal/detector"
)

const (
	whyRows   = 200              // of each job
	whyEvery  = 7 * time.Minute  // between two explanations of a job
	whySample = 10 * time.Second // between two looks at the referee
)

// whyPersonas are receivers that make their jobs wait, one for each of the jobs.
var whyPersonas = append([]string{"outlook", "yahoo", "gmx", "qq", "mailru", "orange", "icloud", "comcast", "laposte"},
	slowPersonas...)

// deferring are the personas that defer rows again after a retry, which cannot be foreseen.
var deferring = map[string]bool{"greylist-triple": true, "greylist-address": true, "unknown-450": true,
	"temporary": true}

// slowJob is a job of one persona, and what was told of it.
type slowJob struct {
	persona    string
	id         string
	done       time.Time
	recipients int64
	asked      []time.Time // samples in which the referee saw recipients
	told       []toldTimes
}

// toldTimes are what an explanation said of a job.
type toldTimes struct {
	at, opens, doneBy time.Time
	waiting           bool // no row was being asked, and none waited for its turn only
}

// whyRunsEnv names how often TestWhyTellsTheTruth runs.
const whyRunsEnv = "PROBITY_WHY_RUNS"

// TestWhyTellsTheTruth verifies lists of slow receivers in virtual time, one job each, and compares what is told of
// their opening and of their end with what the referee saw. The ends of one run say little: of 200, a few jobs make 4
// or 19 % wrong. They are judged over the runs of make why.
func TestWhyTellsTheTruth(t *testing.T) {
	detector.Spare(t)
	runs := 1
	if text := os.Getenv(whyRunsEnv); text != "" {
		var err error
		runs, err = strconv.Atoi(text)
		require.NoError(t, err, whyRunsEnv)
	}
	var c truths
	for range runs {
		runWhy(t, &c)
	}
	t.Logf("%+v", c)
	require.Greater(t, c.opens, 200*runs)
	require.Less(t, float64(c.wrongOpens), 0.05*float64(c.opens), "opening times within a minute")
	require.Greater(t, c.ends, 150*runs)
	if runs > 1 {
		require.Less(t, float64(c.lateEnds), 0.25*float64(c.ends), "ends within a quarter of what was left")
		require.Less(t, float64(c.wrongEnds), 0.05*float64(c.ends), "ends within a window of the budgets")
	}
}

func runWhy(t *testing.T, c *truths) {
	onInternet(t, func(ctx context.Context, t *testing.T, n *app.Node, internet *sim.Server) {
		var jobs []*slowJob
		for _, p := range whyPersonas {
			list := "email\n" + strings.Join(internet.World.Addresses(p, whyRows), "\n") + "\n"
			job, err := n.Coordinator.Accept(ctx, ingest.Upload{Body: strings.NewReader(list),
				Options: ingest.Options{MaxHours: ingest.MaxHours}})
			require.NoError(t, err)
			jobs = append(jobs, &slowJob{persona: p, id: job.ID})
		}
		followSlowJobs(ctx, t, n, internet, jobs)
		for _, j := range jobs {
			c.add(t, j)
		}
	})
}

// followSlowJobs samples the referee until all jobs are done, and asks now and then why they are not.
func followSlowJobs(ctx context.Context, t *testing.T, n *app.Node, internet *sim.Server, jobs []*slowJob) {
	next := time.Now().Add(whyEvery)
	for open := len(jobs); open > 0; {
		time.Sleep(whySample)
		now := time.Now()
		seen := map[string]int64{}
		for _, u := range internet.Referee.Usage() {
			seen[u.Persona] += u.Recipients
		}
		explain := !now.Before(next)
		if explain {
			next = now.Add(whyEvery)
		}
		open = 0
		for _, j := range jobs {
			if seen[j.persona] > j.recipients {
				j.recipients = seen[j.persona]
				j.asked = append(j.asked, now)
			}
			if !j.done.IsZero() {
				continue
			}
			record, err := n.Coordinator.Job(j.id)
			require.NoError(t, err)
			if record.State.Finished() {
				j.done = record.FinishedAt
				continue
			}
			open++
			if explain {
				w, err := n.Coordinator.Why(ctx, j.id)
				require.NoError(t, err)
				j.told = append(j.told, timesOf(&w))
			}
		}
	}
}

func timesOf(w *coordinator.Why) toldTimes {
	told := toldTimes{at: w.At, waiting: true}
	for _, r := range w.Receivers {
		told.waiting = told.waiting && r.Asking+r.Queued == 0
		if !r.Opens.IsZero() && (told.opens.IsZero() || r.Opens.Before(told.opens)) {
			told.opens = r.Opens
		}
		if r.DoneBy.After(told.doneBy) {
			told.doneBy = r.DoneBy
		}
	}
	return told
}

// truths counts what was told: opening times, those that were off by more than a minute, ends, and those that were off
// by more than a quarter of the time that was left, and of these by more than one window of an hourly budget.
type truths struct{ opens, wrongOpens, ends, lateEnds, wrongEnds int }

// add compares what was told of a job.
func (c *truths) add(t *testing.T, j *slowJob) {
	before := *c
	for _, told := range j.told {
		next := slices.IndexFunc(j.asked, func(at time.Time) bool { return at.After(told.at) })
		if told.waiting && !told.opens.IsZero() && next >= 0 {
			c.opens++
			if j.asked[next].Sub(told.opens).Abs() > time.Minute+whySample {
				c.wrongOpens++
			}
		}
		if deferring[j.persona] {
			continue // whether a deferred row is deferred again cannot be foreseen
		}
		c.ends++
		off := told.doneBy.Sub(j.done).Abs()
		if off > j.done.Sub(told.at)/4 {
			c.lateEnds++
			if off > time.Hour+time.Minute {
				c.wrongEnds++
			}
		}
	}
	t.Logf("%s: done at %s; opens %d, wrong %d; ends %d, off by more than a quarter %d, by more than an hour %d",
		j.persona, j.done.Format(time.TimeOnly),
		c.opens-before.opens, c.wrongOpens-before.wrongOpens, c.ends-before.ends, c.lateEnds-before.lateEnds,
		c.wrongEnds-before.wrongEnds)
}
