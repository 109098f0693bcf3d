package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// meters count requests. Labels are routes of ours and statuses, never what a client made up.
type meters struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMeters(r prometheus.Registerer) (*meters, error) {
	m := &meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "probity_http_requests_total", Help: "Requests by route, method and status.",
		}, []string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "probity_http_request_duration_seconds", Help: "Time from a request's header to its answer, by route.",
			Buckets: []float64{.001, .005, .02, .1, .15, .5, 1, 3, 10, 30, 120, 600},
		}, []string{"route"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// of gives a route the meters of its usual answer, so that they need not be looked up.
func (m *meters) of(r *route) {
	r.usual = m.requests.WithLabelValues(r.method, r.name, strconv.Itoa(statusOK))
	r.seconds = m.seconds.WithLabelValues(r.name)
}

// observe counts one answer; r is nil where the request found no route.
func (m *meters) observe(r *route, status int, took time.Duration) {
	switch {
	case r == nil:
		m.requests.WithLabelValues("other", "none", strconv.Itoa(status)).Inc()
		m.seconds.WithLabelValues("none").Observe(took.Seconds())
		return
	case status == statusOK:
		r.usual.Inc()
	default:
		m.requests.WithLabelValues(r.method, r.name, strconv.Itoa(status)).Inc()
	}
	r.seconds.Observe(took.Seconds())
}
