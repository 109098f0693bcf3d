package api

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Backstage is what the operator's own listener shows. It has no authentication: it belongs on a loopback or a private
// address.
type Backstage struct {
	Metrics prometheus.Gatherer
	Config  func() any   // the configuration in force, secrets masked; nil: none
	Probes  http.Handler // recent probes; nil: none
	Server  *Server      // for health; nil is always ready
}

// Handler is the admin listener's: metrics, pprof, debug pages and health.
func (b Backstage) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, statusOK, []byte(`{"status":"ok"}`)) })
	mux.HandleFunc("GET /readyz", b.readiness)
	if b.Config != nil {
		mux.HandleFunc("GET /debug/config", b.config)
	}
	if b.Probes != nil {
		mux.Handle("GET /debug/probes", b.Probes)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerRefusal(w, refuse(notFound, "There is nothing here: see /metrics, /debug/pprof/, /debug/config, /debug/probes, /healthz, /readyz."))
	})
	return mux
}

func (b Backstage) readiness(w http.ResponseWriter, _ *http.Request) {
	if b.Server != nil {
		if err := b.Server.readiness(); err != nil {
			answerRefusal(w, refusalOf(err))
			return
		}
	}
	writeJSON(w, statusOK, []byte(`{"status":"ready"}`))
}

func (b Backstage) config(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(b.Config(), "", "  ")
	if err != nil {
		answerRefusal(w, refusalOf(err))
		return
	}
	writeJSON(w, statusOK, body)
}

func answerRefusal(w http.ResponseWriter, r *refusal) {
	for name, value := range r.headers() {
		w.Header().Set(name, value)
	}
	writeJSON(w, r.status(), appendDetail(nil, r.detail))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
