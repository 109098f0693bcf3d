package adminlistener

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"probity/api/httpd"
	"probity/internal/buildinfo"
)

// Listener is what the admin listener serves. It has no authentication: bind it to a loopback or a private address.
type Listener struct {
	Metrics prometheus.Gatherer
	Config  func() any   // the current configuration, secrets masked; nil: none
	Probes  http.Handler // recent probes; nil: none
	Ready   func() error // returns why the process is not ready; nil is always ready
	Log     *slog.Logger // for metrics that fail; nil: none
	Build   buildinfo.Build
}

// Handler serves metrics, pprof, debug pages and health.
func (l Listener) Handler() http.Handler {
	mux := http.NewServeMux()
	// a metric that fails does not hide the others
	metrics := promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError}
	if l.Log != nil {
		metrics.ErrorLog = slog.NewLogLogger(l.Log.Handler(), slog.LevelError)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(l.Metrics, metrics))
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
	mux.HandleFunc("GET /readyz", l.readiness)
	if l.Config != nil {
		mux.HandleFunc("GET /debug/config", l.config)
	}
	if l.Probes != nil {
		mux.Handle("GET /debug/probes", l.Probes)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		httpd.WriteRefusal(w, httpd.Refuse(httpd.NotFound,
			"There is nothing here: see /metrics, /debug/pprof/, /debug/config, /debug/probes, /healthz, /readyz."))
	})
	return mux
}

func (l Listener) readiness(w http.ResponseWriter, _ *http.Request) {
	if l.Ready != nil {
		if err := l.Ready(); err != nil {
			writeError(w, err)
			return
		}
	}
	body, err := json.Marshal(buildinfo.Readiness{Status: "ready", Build: l.Build})
	if err != nil {
		writeError(w, err)
		return
	}
	httpd.WriteJSON(w, httpd.StatusOK, body)
}

func (l Listener) config(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(l.Config(), "", "  ")
	if err != nil {
		writeError(w, err)
		return
	}
	httpd.WriteJSON(w, httpd.StatusOK, body)
}

func writeError(w http.ResponseWriter, err error) {
	refusal, ok := errors.AsType[*httpd.Refusal](err)
	if !ok {
		refusal = httpd.NewFailure(err)
	}
	httpd.WriteRefusal(w, refusal)
}
