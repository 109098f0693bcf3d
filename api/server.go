package api

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	lru "github.com/hashicorp/golang-lru"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"probity/coordinator"
	"probity/coordinator/callback"
	"probity/store"
)

// Deps are what the server depends on.
type Deps struct {
	Store       *store.Store
	Coordinator *coordinator.Coordinator
	Callbacks   *callback.Sender // nil if none are sent
	// FS and Scratch are where a copy of an upload is kept while later parts can still change how the file is read.
	FS      vfs.FS
	Scratch string
	// Eraser erases addresses. Its owner calls Run.
	Eraser *coordinator.Eraser
	// Operator is what the dashboard shows to operators.
	Operator Operator
	// Ready returns why the server is not ready; a nil func is always ready.
	Ready   func() error
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
	httpServer       *fasthttp.Server
	routeTable       []*route
	staticRoutes     map[string][]*route // routes without a parameter, by path
	metrics          *httpMetrics
	docsPage         page
	descriptionPage  page
	widgetPage       page
	reasonsBody      []byte
	dashboard        dashboardState
	callPool         sync.Pool // of finished calls (BenchmarkHandle)
	secure           bool      // clients use TLS, to us or to a proxy
	draining         atomic.Bool
	streams          sync.WaitGroup // goroutines that write bodies
	auditedDownloads *lru.Cache     // from a download that was recorded (job and note, a string) to when (a time.Time)
	backupRunning    atomic.Bool    // a backup is in progress: one at a time
	// drainCtx ends when the server begins to drain, stopCtx when the drain timeout is over.
	drainCtx, stopCtx       context.Context
	cancelDrain, cancelStop context.CancelFunc
}

// New makes a server from its dependencies. An error says what is wrong with the configuration.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, now: deps.Now, staticRoutes: make(map[string][]*route)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.secure = s.overTLS()
	s.drainCtx, s.cancelDrain = context.WithCancel(context.Background())
	s.stopCtx, s.cancelStop = context.WithCancel(context.Background())
	var err error
	if s.metrics, err = newHTTPMetrics(deps.Metrics); err != nil {
		return nil, err
	}
	if s.auditedDownloads, err = lru.New(maxAuditedDownloads); err != nil {
		return nil, err
	}
	s.widgetPage, s.reasonsBody = newPage(widgetScript, "text/javascript; charset=utf-8"), reasonsJSON()
	if s.docsPage, s.descriptionPage, err = buildDocs(); err != nil {
		return nil, err
	}
	s.dashboard.searchSlots, s.dashboard.started = make(chan struct{}, maxSearches), s.now()
	if s.dashboard.webApp, err = newWebApp(); err != nil {
		return nil, err
	}
	s.routeTable = s.routes()
	for _, r := range s.routeTable {
		if !strings.Contains(r.name, "{") {
			s.staticRoutes[r.name] = append(s.staticRoutes[r.name], r)
		}
	}
	s.httpServer = s.newHTTPServer()
	return s, nil
}

// clock is the time of limits and ledgers at now of the machine's clock.
func (s *Server) clock(now time.Time) time.Time {
	if s.deps.Now == nil {
		return now
	}
	return s.deps.Now()
}

// newHTTPServer configures fasthttp. Its own limits of body, connections per address and write time are not used: the
// first is off for streams, the second does not know trusted proxies, and the third covers a whole download.
func (s *Server) newHTTPServer() *fasthttp.Server {
	return &fasthttp.Server{
		NoDefaultServerHeader:        true,
		Handler:                      s.handle,
		ErrorHandler:                 s.refuseUnreadable,
		HeaderReceived:               s.headerReceived,
		ExpectHandler:                s.handleExpectContinue,
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		MaxRequestBodySize:           1 << 62,
		ReadBufferSize:               s.cfg.MaxHeader,
		ReadTimeout:                  s.cfg.HeaderTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		Concurrency:                  s.cfg.MaxConns + 1,
		CloseOnShutdown:              true,
		NoDefaultContentType:         true,
		NoDefaultDate:                s.cfg.NoDate,
		LazyRequestTime:              !s.cfg.NoDate, // it needs the clock of the Date header
		SecureErrorLogMessage:        true,
		Logger:                       discardLogger{},
	}
}

// discardLogger drops the log of fasthttp: connection errors are passed to refuseUnreadable.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

// Serve answers the requests of a listener until ctx ends; then it drains: requests in progress may finish within
// drainTimeout, new ones are refused. It returns when no request is in progress. A drained server cannot serve again.
func (s *Server) Serve(ctx context.Context, ln net.Listener, drainTimeout time.Duration) error {
	d := newConnectionLimiter(ln, s.cfg)
	served := make(chan error, 1)
	go func() { served <- s.httpServer.Serve(d) }()
	select {
	case err := <-served:
		return fmt.Errorf("listener %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.Drain()
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	late := s.httpServer.ShutdownWithContext(soon)
	_ = d.Close() // ShutdownWithContext does not close it if the server has not begun to accept
	s.cancelStop()
	d.closeAll()
	err := <-served
	s.streams.Wait()
	s.waitForConnections()
	if late != nil {
		return fmt.Errorf("listener %s: requests were still under way after %s: %w", ln.Addr(), drainTimeout, late)
	}
	return err
}

// waitForConnections waits until fasthttp has finished the closed connections. The contexts of their requests have ended.
func (s *Server) waitForConnections() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.httpServer.GetCurrentConcurrency() > 0 {
		<-tick.C
	}
}

// Drain refuses new requests from now on and makes /readyz fail.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.cancelDrain()
}

// readiness is why the server is not ready, or nil.
func (s *Server) readiness() error {
	if s.draining.Load() {
		return busy("The server is shutting down")
	}
	if s.deps.Ready != nil {
		if err := s.deps.Ready(); err != nil {
			r := busy("The server is not ready")
			r.cause = err
			return r
		}
	}
	return nil
}

// headerReceived gives an upload its own read deadline, which body extends as the upload arrives.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if h.IsPost() && strings.HasPrefix(string(h.RequestURI()), "/v1/verify/bulk") {
		return fasthttp.RequestConfig{ReadTimeout: s.cfg.StallTimeout}
	}
	return fasthttp.RequestConfig{}
}
