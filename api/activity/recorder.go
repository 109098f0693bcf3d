package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/coordinator/fleet"
	"probity/engine"
	"probity/store"
)

const (
	// Kept is how many minutes are kept.
	Kept = 24 * 60

	maxNames = 12 // receivers of a minute, and hosts of one: those with the highest figures
)

// Jobs are the records of jobs.
type Jobs interface {
	JobsIn(stage store.JobStage, visit func(id string) error) error
	Job(id string) (*store.Job, error)
}

// Config is what a Recorder reads from.
type Config struct {
	Metrics prometheus.Gatherer // with those of the coordinator
	Views   fleet.Views         // nil: receivers and hosts are not known
	Jobs    Jobs
	Log     *slog.Logger
}

// Recorder takes a sample each minute while Run runs.
type Recorder struct {
	cfg  Config
	last totals    // of the last sample; owned by Run
	at   time.Time // of the last sample; owned by Run

	mu      sync.Mutex // guards what follows
	minutes []minute   // in order; what is kept does not change
	oldest  *store.Job
}

// minute is what happened since the minute before.
type minute struct {
	at       time.Time                 // its end
	answered [engine.Invalid + 1]int64 // addresses of jobs, by status
	singles  int64
	waiting  int64         // rows, at its end
	oldest   time.Duration // age of the oldest unfinished job at its end; 0: there was none
	used     []figure      // receivers, with the percentage of the fullest budget of recipients a minute
	failed   []figure      // hosts, with the number of failed probes
}

// figure is a number of a receiver or host.
type figure struct {
	name  string
	count int
}

// New makes a Recorder. Its owner calls Run.
func New(cfg Config) *Recorder { return &Recorder{cfg: cfg} }

// Run takes a sample each minute until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	r.at = time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if err := r.sample(ctx, now); err != nil && ctx.Err() == nil {
				r.cfg.Log.Error("a minute is missing in what operators see of the last day", "error", err)
			}
		}
	}
}

func (r *Recorder) sample(ctx context.Context, now time.Time) error {
	t, err := readTotals(r.cfg.Metrics)
	if err != nil {
		return err
	}
	m := minute{at: now, waiting: t.waiting, singles: t.singles - r.last.singles}
	for s, n := range t.answered {
		m.answered[s] = n - r.last.answered[s]
	}
	oldest, err := r.oldestJob()
	if err != nil {
		return err
	}
	if oldest != nil {
		m.oldest = max(0, now.Sub(oldest.CreatedAt))
	}
	if r.cfg.Views != nil {
		queues, _ := r.cfg.Views.ReadyQueues(ctx) // those of nodes that answer are better than none
		m.used = usedOf(queues)
		if m.failed, err = r.failedSince(ctx, r.at); err != nil {
			return err
		}
	}
	r.last, r.at = t, now
	r.mu.Lock()
	defer r.mu.Unlock()
	r.oldest = oldest
	r.minutes = append(r.minutes[max(0, len(r.minutes)+1-Kept):], m)
	return nil
}

var errFound = errors.New("found")

// oldestJob is the unfinished job that was made first, or nil.
func (r *Recorder) oldestJob() (found *store.Job, err error) {
	err = r.cfg.Jobs.JobsIn(store.StageUnfinished, func(id string) error {
		j, err := r.cfg.Jobs.Job(id)
		if errors.Is(err, store.ErrNotFound) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
		found = j
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// usedOf is how full the fullest budget of recipients is at each receiver.
func usedOf(queues []fleet.ReadyQueueReport) []figure {
	percent := map[string]int{}
	for _, q := range queues {
		if q.Route == "" || q.PerMinute.Limit == 0 {
			continue
		}
		name := receiverOf(q)
		percent[name] = max(percent[name], min(100, 100*q.PerMinute.Used/q.PerMinute.Limit))
	}
	return highest(percent)
}

// receiverOf is the name of a queue's provider, or its first host where the provider is unknown.
func receiverOf(q fleet.ReadyQueueReport) string {
	if q.Provider != "" && q.Provider != "other" {
		return q.Provider
	}
	first, _, _ := strings.Cut(q.Route, ",")
	return first
}

// failedSince counts the failed probes since a time by host.
func (r *Recorder) failedSince(ctx context.Context, since time.Time) ([]figure, error) {
	byHost := map[string]int{}
	for _, status := range []string{"DEFERRED", engine.Unknown.String()} {
		traces, _, err := r.cfg.Views.Traces(ctx, fleet.TraceQuery{Status: status})
		if err != nil {
			return nil, fmt.Errorf("probes: %w", err)
		}
		for _, t := range traces {
			if t.At.After(since) && t.Host != "" {
				byHost[t.Host]++
			}
		}
	}
	return highest(byHost), nil
}

// highest are the names with the highest figures above 0, the highest first.
func highest(of map[string]int) []figure {
	var list []figure
	for name, n := range of {
		if n > 0 {
			list = append(list, figure{name, n})
		}
	}
	slices.SortFunc(list, func(a, b figure) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.name, b.name))
	})
	return slices.Clone(list[:min(len(list), maxNames)])
}

// totals are the coordinator's counters since the start of the process.
type totals struct {
	answered [engine.Invalid + 1]int64
	singles  int64
	waiting  int64
}

func readTotals(from prometheus.Gatherer) (t totals, err error) {
	families, err := from.Gather()
	if err != nil {
		return t, fmt.Errorf("metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "probity_job_rows_total":
				for s := range t.answered {
					if m.GetLabel()[0].GetValue() == engine.Status(s).String() {
						t.answered[s] = int64(m.GetCounter().GetValue())
					}
				}
			case "probity_singles_total":
				t.singles += int64(m.GetCounter().GetValue())
			case "probity_job_rows_waiting":
				t.waiting = int64(m.GetGauge().GetValue())
			}
		}
	}
	return t, nil
}
