package callback

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts attempts. Hosts, jobs and accounts are not labels.
type metrics struct {
	attempts *prometheus.CounterVec
	seconds  prometheus.Histogram
	bytes    prometheus.Counter
}

// newMetrics makes the metrics, and registers them if r is not nil.
func newMetrics(r prometheus.Registerer) metrics {
	auto := promauto.With(r)
	return metrics{
		attempts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "probity_callback_attempts_total",
			Help: "Attempts to deliver a callback, by what became of the callback: delivered, stopped, failed, or pending a retry.",
		}, []string{"state"}),
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "probity_callback_attempt_duration_seconds", Help: "How long attempts to deliver a callback took.",
			Buckets: []float64{.05, .25, 1, 5, 15, 60, 300, 1800, 7200},
		}),
		bytes: auto.NewCounter(prometheus.CounterOpts{
			Name: "probity_callback_sent_bytes_total", Help: "Bytes of callback bodies that were sent.",
		}),
	}
}
