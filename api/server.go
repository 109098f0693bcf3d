package api

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"probity/api/apidocs"
	"probity/api/compare"
	"probity/api/described"
	"probity/api/httpd"
	"probity/api/reasons"
	"probity/api/rowsearch"
	"probity/api/tus"
	"probity/api/web"
	"probity/coordinator"
	"probity/coordinator/bucket"
	"probity/coordinator/callback"
	"probity/coordinator/erase"
	"probity/coordinator/fetch"
	"probity/coordinator/singles"
	"probity/internal/buildinfo"
	"probity/internal/pipeline"
	"probity/store"
	book "probity/store/feedback"
	"probity/store/history"
)

// Deps are what the server depends on.
type Deps struct {
	Store       *store.Store
	Coordinator *coordinator.Coordinator
	Callbacks   *callback.Sender // nil if none are sent
	Late        *singles.Late    // answers single calls later; nil as Callbacks
	Deliveries  *bucket.Sender   // of results; nil: there are none
	// FS and Scratch are where a copy of an upload is kept while later parts can still change how the file is read.
	FS      vfs.FS
	Scratch string
	Fetcher *fetch.Fetcher // of lists by their URLs; nil: none are fetched
	Uploads *tus.Store     // that are resumable; nil: none are kept
	// Eraser erases addresses. Its owner calls Run.
	Eraser  *erase.Eraser
	History *history.History // of what accounts did; nil: none is kept
	// Feedback keeps what customers report of messages; nil of a Local. Its owner runs a feedback.Matcher.
	Feedback *book.Book
	// Operator is what the dashboard shows to operators.
	Operator Operator
	// Ready returns why the server is not ready; a nil func is always ready.
	Ready   func() error
	Build   buildinfo.Build
	Log     *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
	// Now is the clock of limits and ledgers; default time.Now.
	Now func() time.Time
}

// Server is the HTTP server of the API. It serves any number of listeners, and starts nothing before Serve.
type Server struct {
	cfg              Config
	deps             Deps
	log              *slog.Logger
	now              func() time.Time
	http             *httpd.Server
	described        map[string]httpd.Content // what the requests of each operation may contain
	routeTable       []*route
	docsPage         httpd.Page
	descriptionPage  httpd.Page
	widgetPage       httpd.Page
	reasonsBody      []byte
	dashboard        dashboardState
	secure           bool                          // clients use TLS, to us or to a proxy
	auditedDownloads *lru.Cache[string, time.Time] // when a download (job and note) was recorded
	backupRunning    atomic.Bool                   // a backup is in progress: one at a time
	comparisons      *compare.Queue
}

// New makes a server from its dependencies. An error says what is wrong with the configuration.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, now: deps.Now, comparisons: compare.NewQueue()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.secure = s.overTLS()
	var err error
	if s.auditedDownloads, err = lru.New[string, time.Time](maxAuditedDownloads); err != nil {
		return nil, err
	}
	s.widgetPage, s.reasonsBody = httpd.NewPage(widgetScript, "text/javascript; charset=utf-8"), reasons.JSON()
	if s.descriptionPage, err = apidocs.Description(descriptionJSON, cfg.PublicURL); err != nil {
		return nil, err
	}
	if s.docsPage, err = apidocs.Page(web.Dist); err != nil {
		return nil, err
	}
	s.dashboard.searcher, s.dashboard.started = rowsearch.New(), s.now()
	if s.dashboard.files, err = web.Open(); err != nil {
		return nil, err
	}
	if s.described, err = described.Requests(descriptionJSON); err != nil {
		return nil, err
	}
	s.routeTable = s.routes()
	routes := make([]httpd.Route, 0, len(s.routeTable))
	for _, r := range s.routeTable {
		routes = append(routes, r.Route)
	}
	s.http, err = httpd.New(cfg.Config, httpd.Deps{Routes: routes, NewID: deps.Store.NewRequest, Refusal: refusalOf,
		Finished: s.recordCall,
		Fatal:    isFatal, Secure: s.secure, Log: s.log, Metrics: deps.Metrics})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// clock is the time of limits and ledgers at now of the machine's clock.
func (s *Server) clock(now time.Time) time.Time {
	if s.deps.Now == nil {
		return now
	}
	return s.deps.Now()
}

// isFatal reports whether panicked is a panic after which the state on disk is unknown: the process must end, and the
// next start reads it again.
func isFatal(panicked any) bool {
	_, fatal := panicked.(pipeline.Fatal)
	return fatal
}

// Serve answers the requests of a listener until ctx ends; then it drains: requests in progress may finish within
// drainTimeout, new ones are refused. It returns when no request is in progress. A drained server cannot serve again.
func (s *Server) Serve(ctx context.Context, ln net.Listener, drainTimeout time.Duration) error {
	return s.http.Serve(ctx, ln, drainTimeout)
}

// Drain refuses new requests from now on and makes /readyz fail.
func (s *Server) Drain() { s.http.Drain() }

// Readiness returns why the server is not ready, or nil.
func (s *Server) Readiness() error {
	if err := s.http.Draining(); err != nil {
		return err
	}
	if s.deps.Ready != nil {
		if err := s.deps.Ready(); err != nil {
			r := httpd.Busy("The server is not ready")
			r.Cause = err
			return r
		}
	}
	return nil
}
