package prober

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/prober/wire"
)

// metrics are what a prober counts itself; the rest is in Env.Metrics. No label contains an address or a domain.
type metrics struct {
	hits      prometheus.Counter
	answered  atomic.Uint64          // settled rows of batches
	outcomes  *prometheus.CounterVec // status, reason
	published *prometheus.Registry   // of outcomes, failures and actions, for Status
}

func newMetrics(p *Prober, reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "probity", Subsystem: "prober", Name: name,
			Help: help})
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "probity", Subsystem: "prober", Name: name,
			Help: help}, labels)
	}
	q := &p.env.Metrics
	q.Connections = counter("connections_total", "Connections dialled to mail servers.")
	q.Transactions = counter("transactions_total", "Transactions begun, each with a MAIL of its own.")
	q.Recipients = counter("recipients_total", "Recipients sent, decoys included.")
	q.Replies = counter("replies_total", "Replies to recipients.")
	q.Decoys = counter("decoys_total", "Decoys (random recipients) that were answered.")
	q.AddressWaits = counter("address_limited_total", "Connections put off because their address had no room.")
	q.Failures = vector("session_failures_total", "Hosts at which no recipient could be named, by what happened.",
		"event")
	q.Actions = vector("actions_total", "Actions that replies asked for.", "action")
	m := &metrics{
		hits:      counter("cache_hits_total", "Rows answered from the cache."),
		outcomes:  vector("outcomes_total", "Probes that ended, by status and reason; deferred ones have status DEFERRED.", "status", "reason"),
		published: prometheus.NewRegistry(),
	}
	m.published.MustRegister(m.outcomes, q.Failures, q.Actions)
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "probity", Subsystem: "prober", Name: name,
			Help: help}, f)
	}
	if reg == nil {
		return m, nil
	}
	singleLoad := func() float64 {
		if p.singleCalls.UnderLoad(time.Now()) {
			return 1
		}
		return 0
	}
	for _, c := range [...]prometheus.Collector{q.Connections, q.Transactions, q.Recipients, q.Replies, q.Decoys,
		m.hits, q.AddressWaits,
		m.outcomes, q.Failures, q.Actions,
		gauge("rows", "Probes in memory.", func() float64 { return float64(p.rows.Load()) }),
		gauge("ready_queues", "Ready queues in memory.", func() float64 { return float64(len(p.allQueues())) }),
		gauge("sessions", "Connections open or being opened.", func() float64 { return float64(p.env.Slots.InUse()) }),
		gauge("single_load_high", "1 while so many single calls come that jobs give way to them, else 0.", singleLoad),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("prober metrics: %w", err)
		}
	}
	return m, nil
}

// publishedCounters returns the counters that a node's status contains.
func (m *metrics) publishedCounters() (all []wire.Counter) {
	families, err := m.published.Gather()
	if err != nil {
		panic("BUG: counters that cannot be read: " + err.Error())
	}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			all = append(all, wire.Counter{Name: f.GetName() + "{" + strings.Join(labels, ",") + "}",
				Count: uint64(one.GetCounter().GetValue())})
		}
	}
	return all
}

func (m *metrics) outcome(o *outcome) {
	status := "DEFERRED"
	if !o.deferred {
		status = o.verdict.Status.String()
	}
	m.outcomes.WithLabelValues(status, o.verdict.Reason.String()).Inc()
}
