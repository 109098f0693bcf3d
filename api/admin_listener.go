package api

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"probity/api/httpd"
)

// AdminListener is what the admin listener serves. It has no authentication: bind it to a loopback or a private address.
type AdminListener struct {
	Metrics prometheus.Gatherer
	Config  func() any   // the current configuration, secrets masked; nil: none
	Probes  http.Handler // recent probes; nil: none
	Server  *Server      // for health; nil is always ready
	Log     *slog.Logger // for metrics that fail; nil: none
}

// Handler serves metrics, pprof, debug pages and health.
func (al AdminListener) Handler() http.Handler {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError} // a metric that fails does not hide the others
	if al.Log != nil {
		metrics.ErrorLog = slog.NewLogLogger(al.Log.Handler(), slog.LevelError)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(al.Metrics, metrics))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, os.Args[0]) // the arguments may have a proxy's password
	})
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		httpd.WriteJSON(w, httpd.StatusOK, []byte(`{"status":"ok"}`))
	})
	mux.HandleFunc("GET /readyz", al.readiness)
	if al.Config != nil {
		mux.HandleFunc("GET /debug/config", al.config)
	}
	if al.Probes != nil {
		mux.Handle("GET /debug/probes", al.Probes)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		httpd.WriteRefusal(w, httpd.Refuse(httpd.NotFound, "There is nothing here: see /metrics, /debug/pprof/, /debug/config, /debug/probes, /healthz, /readyz."))
	})
	return mux
}

func (al AdminListener) readiness(w http.ResponseWriter, _ *http.Request) {
	if al.Server != nil {
		if err := al.Server.readiness(); err != nil {
			httpd.WriteRefusal(w, refusalOf(err))
			return
		}
	}
	httpd.WriteJSON(w, httpd.StatusOK, []byte(`{"status":"ready"}`))
}

func (al AdminListener) config(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(al.Config(), "", "  ")
	if err != nil {
		httpd.WriteRefusal(w, refusalOf(err))
		return
	}
	httpd.WriteJSON(w, httpd.StatusOK, body)
}
