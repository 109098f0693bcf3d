package httpd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// Deps are what a server depends on.
type Deps struct {
	Routes []Route
	// NewID makes the id of a request, its X-Request-Id.
	NewID func() string
	// Refusal is the answer to an error of a route's Admit or Handle.
	Refusal func(error) *Refusal
	// Finished is called with each request that was admitted or refused by Admit, before its answer is sent; nil:
	// nothing is.
	Finished func(*Call, Outcome)
	// Fatal reports that a panic of a handler must end the process; nil: none must.
	Fatal   func(panicked any) bool
	Secure  bool                  // clients use TLS, to us or to a proxy
	Log     *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
}

// Outcome is what came of a request.
type Outcome struct {
	Status int
	Took   time.Duration
	Detail string // of a refusal
}

// Server serves the requests of any number of listeners, and starts nothing before Serve.
type Server struct {
	cfg           Config
	deps          Deps
	log           *slog.Logger
	fast          *fasthttp.Server
	router        router
	metrics       *metrics
	uploadPaths   []string  // beginnings of the paths of routes that take a form
	callPool      sync.Pool // of finished calls (BenchmarkHandle in api)
	draining      atomic.Bool
	bodies        sync.WaitGroup  // goroutines that write bodies
	drainCtx      context.Context // ends when the server begins to drain
	stopCtx       context.Context // ends when the drain timeout is over
	beginDraining context.CancelFunc
	stop          context.CancelFunc
}

// New makes a server. An error is one of the metrics.
func New(cfg Config, deps Deps) (*Server, error) {
	s := &Server{cfg: cfg.WithDefaults(), deps: deps, log: deps.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.drainCtx, s.beginDraining = context.WithCancel(context.Background())
	s.stopCtx, s.stop = context.WithCancel(context.Background())
	var err error
	if s.metrics, err = newMetrics(deps.Metrics); err != nil {
		return nil, err
	}
	s.router = newRouter(deps.Routes, s.metrics)
	for _, r := range deps.Routes {
		if r.Body.isStream() {
			path, _, _ := strings.Cut(r.Path, "{")
			s.uploadPaths = append(s.uploadPaths, path)
		}
	}
	// Its own limits of body, connections per address and write time are not used: the first is off for streams, the
	// second does not know trusted proxies, and the third covers a whole download.
	s.fast = &fasthttp.Server{
		NoDefaultServerHeader:        true,
		Handler:                      s.handleFront,
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
	return s, nil
}

// discardLogger drops the log of fasthttp: connection errors are passed to refuseUnreadable.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

// Serve answers the requests of a listener until ctx ends; then it drains: requests in progress may finish within
// drainTimeout, new ones are refused. It returns when no request is in progress. A drained server cannot serve again.
func (s *Server) Serve(ctx context.Context, ln net.Listener, drainTimeout time.Duration) error {
	cl := newConnectionLimiter(ln, s.cfg)
	served := make(chan error, 1)
	go func() { served <- s.fast.Serve(cl) }()
	select {
	case err := <-served:
		return fmt.Errorf("listener %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.Drain()
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	late := s.fast.ShutdownWithContext(soon)
	_ = cl.Close() // ShutdownWithContext does not close it if the server has not begun to accept
	s.stop()
	cl.closeAll()
	err := <-served
	s.bodies.Wait()
	// fasthttp finishes the closed connections: the contexts of their requests have ended
	for s.fast.GetCurrentConcurrency() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if late != nil {
		return fmt.Errorf("listener %s: requests were still under way after %s: %w", ln.Addr(), drainTimeout, late)
	}
	return err
}

// Drain refuses new requests from now on, except those of routes that are served while draining.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.beginDraining()
}

// Draining is nil, or the refusal of a server that drains.
func (s *Server) Draining() error {
	if s.draining.Load() {
		return Busy("The server is shutting down")
	}
	return nil
}

// DrainContext ends when the server begins to drain: for what would keep a request waiting.
func (s *Server) DrainContext() context.Context { return s.drainCtx }

// StopContext ends when the drain timeout is over: for the work of requests.
func (s *Server) StopContext() context.Context { return s.stopCtx }

// Stream runs write, which writes the body of an answer into a pipe, in a goroutine that Serve waits for.
func (s *Server) Stream(write func()) { s.bodies.Go(write) }

// headerReceived gives an upload its own read deadline, which body extends as the upload arrives.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if h.IsPost() || string(h.Method()) == "PATCH" {
		for _, path := range s.uploadPaths {
			if strings.HasPrefix(string(h.RequestURI()), path) {
				return fasthttp.RequestConfig{ReadTimeout: s.cfg.StallTimeout}
			}
		}
	}
	return fasthttp.RequestConfig{}
}
