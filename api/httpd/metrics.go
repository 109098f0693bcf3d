package httpd

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count requests. Labels are our routes and statuses, never text of a client.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "probity_http_requests_total", Help: "Requests by route, method and status.",
		}, []string{"method", "route", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "probity_http_request_duration_seconds",
			Help:    "Time from a request's header to its answer, by route.",
			Buckets: []float64{.001, .005, .02, .1, .15, .5, 1, 3, 10, 30, 120, 600},
		}, []string{"route"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.durations} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts one answer; r is nil if the request matched no route.
func (m *metrics) observe(r *servedRoute, status int, took time.Duration) {
	switch {
	case r == nil:
		m.requests.WithLabelValues("other", "none", strconv.Itoa(status)).Inc()
		m.durations.WithLabelValues("none").Observe(took.Seconds())
		return
	case status == StatusOK:
		r.okRequests.Inc()
	default:
		m.requests.WithLabelValues(r.Method, r.Path, strconv.Itoa(status)).Inc()
	}
	r.duration.Observe(took.Seconds())
}
