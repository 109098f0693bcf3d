package activity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"probity/coordinator/fleet"
	"probity/prober/wire"
	"probity/store"
)

// world is what a Recorder reads from.
type world struct {
	valid, singles prometheus.Counter
	broken         atomic.Bool
	jobs           []*store.Job
	queues         []fleet.ReadyQueueReport
	traces         []fleet.TraceReport
	registry       *prometheus.Registry
}

func newWorld() *world {
	w := &world{registry: prometheus.NewRegistry()}
	rows := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "probity_job_rows_total"}, []string{"status"})
	singles := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "probity_singles_total"}, []string{"status"})
	waiting := prometheus.NewGauge(prometheus.GaugeOpts{Name: "probity_job_rows_waiting"})
	w.registry.MustRegister(rows, singles, waiting)
	w.valid, w.singles = rows.WithLabelValues("VALID"), singles.WithLabelValues("RISKY")
	waiting.Set(7)
	w.registry.MustRegister(w)
	return w
}

func (w *world) recorder() *Recorder {
	return New(Config{Metrics: w.registry, Views: w, Jobs: w, Log: slog.New(slog.DiscardHandler)})
}

// Describe and Collect are those of a metric that cannot be read while the world is broken.
func (w *world) Describe(chan<- *prometheus.Desc) {}

func (w *world) Collect(to chan<- prometheus.Metric) {
	if w.broken.Load() {
		to <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Broken.", nil, nil), errors.New("broken"))
	}
}

func (w *world) JobsIn(_ store.JobStage, visit func(id string) error) error {
	for _, j := range w.jobs {
		if err := visit(j.ID); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Job(id string) (*store.Job, error) {
	for _, j := range w.jobs {
		if j.ID == id && j.State != store.JobExpired {
			return j, nil
		}
	}
	return nil, store.ErrNotFound
}

func (w *world) ReadyQueues(context.Context) ([]fleet.ReadyQueueReport, []string) {
	return w.queues, []string{"n2"}
}

func (w *world) Traces(_ context.Context, q fleet.TraceQuery) (list []fleet.TraceReport, _ []string, _ error) {
	for _, t := range w.traces {
		if t.Status == q.Status {
			list = append(list, t)
		}
	}
	return list, nil, nil
}

func (w *world) EndQuarantine(context.Context, string, string, string) (bool, error) {
	return false, nil
}

func (w *world) queue(provider, route string, used, limit int) {
	q := fleet.ReadyQueueReport{Node: "n1"}
	q.Provider, q.Route = provider, route
	q.PerMinute = wire.Usage{Used: used, Limit: limit}
	w.queues = append(w.queues, q)
}

func (w *world) failure(status, host string, at time.Time) {
	var t fleet.TraceReport
	t.Status, t.Host, t.At = status, host, at
	w.traces = append(w.traces, t)
}

// run runs a Recorder for some minutes, and then reads it.
func (w *world) run(t *testing.T, minutes int, each func(minute int)) *Recorder {
	r := w.recorder()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	for i := range minutes {
		each(i)
		time.Sleep(time.Minute)
		synctest.Wait()
	}
	stop()
	require.NoError(t, <-done)
	return r
}

func TestReportSumsUpMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.valid.Add(5)
		begun := time.Now() // on a whole hour
		w.jobs = []*store.Job{{ID: "gone", State: store.JobExpired}, {ID: "old", CreatedAt: begun.Add(-time.Hour)},
			{ID: "new", CreatedAt: begun}}
		w.queue("Google", "Google", 30, 60)
		w.queue("Google", "Google", 54, 60)
		w.queue("other", "mx.shop.test,mx2.shop.test", 5, 10)
		w.queue("other", "mx.unlimited.test", 5, 0)
		w.queue("", "", 10, 10)
		r := w.run(t, 12, func(i int) {
			w.valid.Add(10)
			w.singles.Inc()
			if i == 10 {
				w.failure("UNKNOWN", "mx.dead.test", time.Now().Add(time.Second))
				w.failure("DEFERRED", "mx.dead.test", time.Now().Add(time.Second))
				w.failure("DEFERRED", "mx.grey.test", time.Now().Add(time.Second))
				w.failure("DEFERRED", "", time.Now().Add(time.Second))
			}
		})
		rep := r.Report(time.Now(), 10*time.Minute)
		require.Equal(t, 600, rep.Step)
		require.Len(t, rep.Points, 2)
		first, second := rep.Points[0], rep.Points[1]
		require.True(t, begun.Equal(time.Time(first.At)))
		require.True(t, begun.Add(10*time.Minute).Equal(time.Time(second.At)))
		require.Equal(t, []int{10, 2}, []int{first.Minutes, second.Minutes})
		require.Equal(t, map[string]int64{"VALID": 105, "RISKY": 0, "INVALID": 0, "UNKNOWN": 0}, first.Counts)
		require.Equal(t, int64(20), second.Counts["VALID"])
		require.Equal(t, []int64{10, 2}, []int64{first.Singles, second.Singles})
		require.Equal(t, []int64{4200, 4320}, []int64{first.Oldest, second.Oldest})
		require.Equal(t, int64(7), second.Waiting)
		require.Equal(t, []Receiver{{"Google", []int{90, 90}, 90}, {"mx.shop.test", []int{50, 50}, 50}}, rep.Receivers)
		require.Equal(t, []int{2, 1}, []int{rep.Hosts[0].Failures, rep.Hosts[1].Failures})
		require.Equal(t, []string{"mx.dead.test", "mx.grey.test"}, []string{rep.Hosts[0].Host, rep.Hosts[1].Host})
		require.True(t, begun.Add(11*time.Minute).Equal(time.Time(rep.Hosts[0].Last)))
		require.Equal(t, "old", rep.OldestJob.ID)
	})
}

func TestMinuteThatCannotBeReadIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.run(t, 3, func(i int) {
			w.broken.Store(i == 1)
			w.valid.Add(10)
		})
		rep := r.Report(time.Now(), time.Minute)
		require.Len(t, rep.Points, 2)
		require.Equal(t, int64(20), rep.Points[1].Counts["VALID"])
		require.Nil(t, rep.OldestJob)
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 3 * maxNames {
			w.queue("other", fmt.Sprintf("mx%d.test", i), i, 1000)
			w.failure("UNKNOWN", strings.Repeat("x", i+1), time.Now().Add(48*time.Hour))
		}
		r := w.run(t, Kept+100, func(int) {})
		require.Len(t, r.minutes, Kept)
		require.LessOrEqual(t, cap(r.minutes), 2*Kept)
		for _, m := range r.minutes {
			require.LessOrEqual(t, len(m.used), maxNames)
			require.Len(t, m.failed, maxNames)
		}
		rep := r.Report(time.Now(), time.Minute)
		require.Len(t, rep.Points, Kept)
		require.Len(t, rep.Receivers, maxNames)
		require.Len(t, r.Report(time.Now().Add(23*time.Hour), time.Minute).Points, 61, "older ones are left out")
	})
}
