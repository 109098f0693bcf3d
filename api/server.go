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
	"probity/store"
)

// Rooms is what the interface stands on.
type Rooms struct {
	Store       *store.Store
	Coordinator *coordinator.Coordinator
	Callbacks   *coordinator.Callbacks // nil where none are sent
	// FS and Scratch are where an upload is kept until its last part is read, if that can change how the file is read.
	FS      vfs.FS
	Scratch string
	// Eraser forgets addresses. Its Run is its owner's.
	Eraser *coordinator.Eraser
	// Operator is what the dashboard shows to operators.
	Operator Operator
	// Ready tells why no request should come; nil is always ready.
	Ready   func() error
	Log     *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
	// Now is the clock of limits and ledgers; default time.Now.
	Now func() time.Time
}

// Server is the interface. It serves any number of listeners, and starts nothing before Serve.
type Server struct {
	cfg      Config
	rooms    Rooms
	log      *slog.Logger
	now      func() time.Time
	web      *fasthttp.Server
	table    []*route
	fixed    map[string][]*route // routes without a parameter, by path
	meters   *meters
	docs     page
	json     page
	widget   page
	reasons  []byte
	dash     dashboard
	spare    sync.Pool // of exchanges that are over (BenchmarkHandle)
	secure   bool      // clients reach us with TLS, here or at a proxy
	draining atomic.Bool
	streams  sync.WaitGroup // goroutines that write bodies
	recorded *lru.Cache     // downloads that auditDownload recorded (job and note, a string) to when, a time.Time
	backing  atomic.Bool    // a backup is under way: there is one at a time
	// leaving ends when the server begins to drain, ending when its patience is over.
	leaving, ending context.Context
	leave, end      context.CancelFunc
}

// New makes a server of its rooms. An error tells what is wrong with the configuration.
func New(cfg Config, rooms Rooms) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, rooms: rooms, log: rooms.Log, now: rooms.Now, fixed: make(map[string][]*route)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.secure = s.overTLS()
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.ending, s.end = context.WithCancel(context.Background())
	var err error
	if s.meters, err = newMeters(rooms.Metrics); err != nil {
		return nil, err
	}
	if s.recorded, err = lru.New(maxDownloads); err != nil {
		return nil, err
	}
	s.widget, s.reasons = newPage(widgetScript, "text/javascript; charset=utf-8"), reasonsJSON()
	if s.docs, s.json, err = describe(); err != nil {
		return nil, err
	}
	s.dash.searching, s.dash.started = make(chan struct{}, searchers), s.now()
	if s.dash.site, err = newSite(); err != nil {
		return nil, err
	}
	s.table = s.routes()
	for _, r := range s.table {
		if !strings.Contains(r.name, "{") {
			s.fixed[r.name] = append(s.fixed[r.name], r)
		}
	}
	s.web = s.newWeb()
	return s, nil
}

// clock is the time of limits and ledgers, that is now by the machine's clock.
func (s *Server) clock(now time.Time) time.Time {
	if s.rooms.Now == nil {
		return now
	}
	return s.rooms.Now()
}

// newWeb sets the HTTP server up. Its own limits of body, connections per address and write time are not used: the
// first is off while it streams, the second knows no trusted proxy, and the third spans a whole download.
func (s *Server) newWeb() *fasthttp.Server {
	return &fasthttp.Server{
		NoDefaultServerHeader:        true,
		Handler:                      s.handle,
		ErrorHandler:                 s.refuseUnread,
		HeaderReceived:               s.headerReceived,
		ExpectHandler:                s.expect,
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
		LazyRequestTime:              !s.cfg.NoDate, // it needs what keeps the date
		SecureErrorLogMessage:        true,
		Logger:                       quiet{},
	}
}

// quiet drops what the HTTP library would print: errors of connections come to refuseUnread.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Serve answers requests that come by a listener until ctx ends; then it drains: requests under way are finished for up
// to patience, new ones are refused. It returns when no request is under way. A server that has drained serves no more.
func (s *Server) Serve(ctx context.Context, ln net.Listener, patience time.Duration) error {
	d := newDoor(ln, s.cfg)
	served := make(chan error, 1)
	go func() { served <- s.web.Serve(d) }()
	select {
	case err := <-served:
		return fmt.Errorf("listener %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.Drain()
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	late := s.web.ShutdownWithContext(soon)
	_ = d.Close() // a server that has not begun to accept knows no listener to close; else it is closed already
	s.end()
	d.throwOut()
	err := <-served
	s.streams.Wait()
	s.awaitLast()
	if late != nil {
		return fmt.Errorf("listener %s: requests were still under way after %s: %w", ln.Addr(), patience, late)
	}
	return err
}

// awaitLast waits until the connections that were thrown out have been let go of. What their requests wait for has ended.
func (s *Server) awaitLast() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.web.GetCurrentConcurrency() > 0 {
		<-tick.C
	}
}

// Drain refuses new requests from now on, and tells so at /readyz.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.leave()
}

// readiness is why no request should come, or nil.
func (s *Server) readiness() error {
	if s.draining.Load() {
		return busy("The server is shutting down")
	}
	if s.rooms.Ready != nil {
		if err := s.rooms.Ready(); err != nil {
			r := busy("The server is not ready")
			r.cause = err
			return r
		}
	}
	return nil
}

// headerReceived gives an upload a deadline of its own, which its body moves as it arrives.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if h.IsPost() && strings.HasPrefix(string(h.RequestURI()), "/v1/verify/bulk") {
		return fasthttp.RequestConfig{ReadTimeout: s.cfg.StallTimeout}
	}
	return fasthttp.RequestConfig{}
}
