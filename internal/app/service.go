package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"probity/api"
	"probity/api/activity"
	"probity/api/adminlistener"
	"probity/api/facade"
	"probity/api/feedback"
	"probity/api/httpd"
	"probity/api/record"
	"probity/api/tus"
	"probity/coordinator/bucket"
	"probity/coordinator/callback"
	"probity/coordinator/erase"
	"probity/coordinator/fetch"
	"probity/coordinator/outward"
	"probity/coordinator/results"
	"probity/coordinator/singles"
	"probity/internal/admin"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/internal/memlimit"
	"probity/internal/nodeflags"
	"probity/internal/spans"
	"probity/internal/tlsfront"
	"probity/store"
	"probity/store/diskroom"
	"probity/store/history"
)

// drainTimeout bounds the wait for running requests after SIGTERM, so that the process ends within 25 s.
const drainTimeout = 10 * time.Second

// Service is everything that serve runs.
type Service struct {
	Process
	flags          *ServeFlags
	shown          any          // for /debug/config
	members        *memberFlags // the cluster to coordinate; nil to probe in this process
	room           *diskroom.Room
	node           *Node
	callbacks      *callback.Sender
	late           *singles.Late
	deliveries     *bucket.Sender // nil without --results-to
	uploads        *tus.Store
	history        *history.History
	eraser         *erase.Eraser
	server         *api.Server
	activity       *activity.Recorder
	tracer         *spans.Tracer      // nil: no spans are recorded
	tlsListener    *tlsfront.Listener // nil without TLS
	healthMetrics  *healthMetrics
	publicListener net.Listener
	adminListener  net.Listener
}

// NewService makes a service that probes in this process. It opens nothing.
func NewService(p Process, f *ServeFlags) *Service {
	return &Service{Process: p, flags: f, shown: f, room: diskroom.New(p.Disk, f.Data, p.Log)}
}

// NewCoordinator makes a service for probers on other machines. It opens nothing.
func NewCoordinator(p Process, f *CoordinatorFlags) (*Service, error) {
	if len(f.Egress) > 0 || f.SOCKS5 != "" || f.MailFrom != "" {
		return nil, fmt.Errorf("%w: --egress, --mail-from and --socks5 belong to probity prober; a coordinator asks no mail server", console.ErrUsage)
	}
	if f.RetainCache != 0 {
		return nil, fmt.Errorf("%w: --retain-cache belongs to probity prober; a coordinator has no cache",
			console.ErrUsage)
	}
	if err := f.setDefaults(); err != nil {
		return nil, err
	}
	return &Service{Process: p, flags: &f.ServeFlags, shown: f, members: &f.memberFlags,
		room: diskroom.New(p.Disk, f.Data, p.Log)}, nil
}

// Store is the state store of an open service.
func (s *Service) Store() *store.Store { return s.node.Store }

// Addr is the address of the public listener of an open service.
func (s *Service) Addr() net.Addr { return s.publicListener.Addr() }

// serveMemoryLimit is where the garbage collector begins to work harder, unless the environment sets GOMEMLIMIT. It is
// about twice the live heap of one long job, including the cache's key filter.
const serveMemoryLimit = 272 << 20

// Serve opens everything, and serves until ctx ends. It writes to w where the password of the first admin is.
func (s *Service) Serve(ctx context.Context, w io.Writer) error {
	memlimit.Adjust(ctx, serveMemoryLimit)
	return s.runInRoom(ctx, s.room, func() error {
		err := s.Open()
		if err == nil {
			err = s.createFirstAdmin(ctx, w)
		}
		if err != nil {
			return errors.Join(err, s.Close())
		}
		s.Log.Info("serving", "public", s.publicListener.Addr().String(), "admin", s.adminListener.Addr().String(),
			"data", s.flags.Data)
		return nil
	}, func() error { return s.runToEnd(ctx, s.adminListener, s.Run, s.Close) })
}

// makeDataFolder makes the data folder, or restricts that of an earlier start.
func (s *Service) makeDataFolder() error {
	if err := datafolder.Restrict(s.flags.Data, s.Log); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

// Open opens the stores and the listeners, and connects the components.
func (s *Service) Open() (err error) {
	s.Registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c := s.flags
	if s.tlsListener, err = tlsfront.New(&c.Flags, c.Data, s.Log); err != nil {
		return err
	}
	name := ""
	if s.members != nil {
		name = s.members.Name
	}
	if s.tracer, err = c.TraceFlags.open(s.Process, name); err != nil {
		return err
	}
	s.node, err = OpenNode(&c.Probing, NodeConfig{FS: s.Disk, Room: s.room, Dir: c.Data, Log: s.Log,
		Version: s.Build.Version, Lists: c.ListChanges, metrics: s.Registry, retain: c.RetainFlags,
		retainCache: c.RetainCache, MakeDir: s.makeDataFolder,
		service: true, callbackSource: c.CallbackSource, members: s.members, tracer: s.tracer,
		ResultForm: results.Form{Format: results.CSV, Compress: results.Zstd}})
	if err != nil {
		return err
	}
	s.Registry.MustRegister(s.node.Coordinator, s.node.Resolver, s.node.Store, s.node.Feedback)
	if s.node.Cache != nil { // a coordinator without a prober has none
		s.Registry.MustRegister(s.node.Cache)
	}
	s.healthMetrics = &healthMetrics{build: s.Build, disk: s.Disk, dir: c.Data, diskFloor: c.DiskFloor,
		report: s.node.report, tlsListener: s.tlsListener, backup: s.node.Store.LastBackup}
	if s.members != nil {
		s.healthMetrics.certExpiries = s.members.certExpiries()
	}
	if err := s.Registry.Register(s.healthMetrics); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.scratchDir()), os.MkdirAll(s.scratchDir(), 0o700)); err != nil {
		return err
	}
	if s.publicListener, err = listen("listen", c.Listen); err != nil {
		return err
	}
	if s.adminListener, err = s.listenForAdmins(c.AdminListen); err != nil {
		return err
	}
	source, published, err := nodeflags.ParseSource(c.CallbackSource)
	if err != nil {
		return err
	}
	connections := outward.Config{Dial: nodeflags.DialFrom, Lookup: s.lookup, Source: source,
		Allow: c.AllowPrivateCallbacks}
	outwards := outward.New(connections)
	s.callbacks, err = callback.New(callback.Config{Store: s.node.Store, Results: s.node.Coordinator,
		Record: func(j *store.Job, c store.Callback) ([]byte, error) {
			return record.ForCallback(s.node.Store.DB, s.publicURL(), time.Duration(s.flags.RetainResults), j, c)
		},
		Single:    func(request string) (*callback.SingleEvent, error) { return singles.Event(s.node.Store, request) },
		PublicURL: s.publicURL(), Dialer: outwards, Log: s.Log, Metrics: s.Registry, Tracer: s.tracer})
	if err != nil {
		return err
	}
	if len(c.ResultsTo) > 0 {
		if s.deliveries, err = c.DeliveryFlags.open(s, c.DeliveryFlags.dialer(connections)); err != nil {
			return err
		}
	}
	s.history, err = history.Open(history.Config{FS: s.room.Cache(), Dir: filepath.Join(c.Data, history.Folder),
		Log:     s.Log,
		Metrics: s.Registry})
	if err != nil {
		return err
	}
	s.late, err = singles.Open(singles.Config{Store: s.node.Store, Coordinator: s.node.Coordinator,
		Notify: s.callbacks.Notify, History: s.history, Log: s.Log})
	if err != nil {
		return err
	}
	var caches erase.Caches = s.node.fleet // those of the coordinator's nodes, or that of this process
	if s.node.fleet == nil {
		caches = admin.LocalCache{Cache: s.node.Cache}
	}
	s.eraser = admin.NewEraser(s.node.Store, s.node.Coordinator, s.node.Feedback, admin.EraseCalls(s.history, s.late),
		caches, s.Log)
	s.uploads, err = tus.Open(tus.Config{FS: s.room.Files(), Dir: filepath.Join(c.Data, "uploads")})
	if err != nil {
		return err
	}
	s.warnAtStart()
	s.activity = activity.New(activity.Config{Metrics: s.Registry, Views: s.node.nodeViews(), Jobs: s.node.Store,
		Log: s.Log})
	facades, err := facade.New(c.Facades)
	if err != nil {
		return err
	}
	s.server, err = api.New(api.Config{PublicURL: c.PublicURL, CORSOrigins: c.CORSOrigin, CallbackFrom: published,
		HideDocs: !c.PublishDocs, PublicPerDay: c.PublicPerDay, DiskFloor: c.DiskFloor,
		Config: httpd.Config{TrustedProxies: c.TrustedProxy, TLS: s.tlsListener.Config(),
			Front: facades, Tracer: s.tracer}},
		api.Deps{Store: s.node.Store, Coordinator: s.node.Coordinator, Callbacks: s.callbacks, FS: s.room.Files(),
			Operator: api.Operator{Table: s.node.activeTable.Load, Cluster: s.node.report, Views: s.node.nodeViews(),
				Findings: findings(s.node.audit), Activity: s.activity},
			Fetcher: fetch.New(fetch.Config{Dialer: outwards}), Uploads: s.uploads, Deliveries: s.deliveries,
			Scratch: s.scratchDir(), Build: s.Build, Log: s.Log, Metrics: s.Registry, Eraser: s.eraser,
			History: s.history, Late: s.late, Feedback: s.node.Feedback})
	return err
}

// warnAtStart warns at the start about settings that would surprise later.
func (s *Service) warnAtStart() {
	c := s.flags
	if s.node.Prober != nil && c.Anonymous() {
		s.Log.Warn(nodeflags.AnonymousWarning)
	}
	if at := s.publicListener.Addr().(*net.TCPAddr); c.PublicURL == "" && at.IP.IsUnspecified() {
		s.Log.Warn("links in callbacks lead nowhere without --public-url: --listen names no address of this machine",
			"listen", c.Listen)
	}
	if s.tlsListener.Contradicts(c.PublicURL) {
		s.Log.Warn("--public-url begins with http, but --listen speaks TLS: links in callbacks will not work",
			"public-url", c.PublicURL)
	}
	if c.CallbackSource == "" {
		s.Log.Warn("receivers cannot check where callbacks come from, as GET /v1/callback-origins is empty: " +
			"name the address with --callback-source")
	}
}

// publicURL is the server's URL for receivers of callbacks: --public-url, else the listener's own address.
func (s *Service) publicURL() string {
	if s.flags.PublicURL != "" {
		return s.flags.PublicURL
	}
	return s.tlsListener.Scheme() + "://" + s.publicListener.Addr().String()
}

// scratchDir holds uploads until their last part is read. Files left there by a crash belong to no upload.
func (s *Service) scratchDir() string { return filepath.Join(s.flags.Data, "scratch") }

// Run runs everything until ctx ends or a part fails. Requests end first, then callbacks, then the node.
func (s *Service) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	components, stopComponents := context.WithCancel(context.WithoutCancel(ctx))
	defer stopComponents()
	endTraces := runTracer(s.tracer)
	defer endTraces()
	var backend, frontend sync.WaitGroup
	var errs [10]error
	backend.Go(func() { s.reloadOnHangup(components, s.healthMetrics.recordingFailure(s.reload)) })
	backend.Go(func() { errs[0] = s.node.Run(components); stop() })
	backend.Go(func() { errs[1] = s.callbacks.Run(components); stop() })
	backend.Go(func() { errs[4] = s.eraser.Run(components); stop() })
	backend.Go(func() { errs[6] = s.late.Run(components); stop() })
	backend.Go(func() { errs[5] = s.history.Run(components); stop() })
	matcher := feedback.Matcher{Book: s.node.Feedback, Jobs: s.node.Coordinator, History: s.history, Log: s.Log}
	backend.Go(func() { errs[7] = matcher.Run(components); stop() })
	backend.Go(func() { errs[8] = s.activity.Run(components); stop() })
	if s.deliveries != nil {
		backend.Go(func() { errs[9] = s.deliveries.Run(components); stop() })
	}
	frontend.Go(func() { errs[2] = s.server.Serve(ctx, s.publicListener, drainTimeout); stop() })
	frontend.Go(func() { errs[3] = serveAdminHTTP(ctx, s.adminListener, s.adminHandler()); stop() })
	backend.Go(func() { s.maintainStore(components) })
	backend.Go(func() { s.room.Run(components) })
	frontend.Wait()
	stopComponents()
	backend.Wait()
	return errors.Join(errs[:]...)
}

// adminHandler serves the operator's own listener.
func (s *Service) adminHandler() http.Handler {
	listener := adminlistener.Listener{Log: s.Log, Metrics: s.Registry, Config: func() any { return s.shown },
		Ready: s.server.Readiness, Build: s.Build}
	if s.node.Prober != nil {
		listener.Probes = s.node.Prober.Recent()
	}
	mux := http.NewServeMux()
	mux.Handle("/", listener.Handler())
	mux.HandleFunc("GET /debug/cluster", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, s.node.reportWithQuarantines(r.Context()))
	})
	coverageRoutes(mux)
	mux.HandleFunc("GET /debug/route", s.showRoute)
	return mux
}

// maintainStore flushes lazy writes each minute, and deletes expired entries each hour.
func (s *Service) maintainStore(ctx context.Context) {
	minute, hour := time.NewTicker(time.Minute), time.NewTicker(time.Hour)
	defer minute.Stop()
	defer hour.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			if err = s.node.Store.WriteLastUsed(); err != nil {
				s.Log.Error("last use of keys not written", "error", err)
			}
			return
		case <-minute.C:
			err = s.node.Store.WriteLastUsed()
		case now := <-hour.C: // expired windows, stored answers, sessions, lock-outs and receipts
			state := s.node.Store
			for _, sweep := range []func(time.Time) (int, error){
				state.SweepWindows, state.SweepAnswers, state.SweepSessions, state.SweepLockouts, state.SweepErasures,
				s.node.Feedback.Sweep, s.uploads.Sweep,
			} {
				_, failed := sweep(now)
				err = errors.Join(err, failed)
			}
		}
		if err != nil {
			s.Log.Error("housekeeping of the store", "error", err)
		}
	}
}

// Close closes what Open opened. Run must have returned.
func (s *Service) Close() error {
	errs := []error{closeListeners(s.publicListener, s.adminListener), s.history.Close()}
	if s.node != nil {
		errs = append(errs, s.node.Close())
	}
	return errors.Join(errs...)
}

// showRoute answers where the mail of the domain or address in the query parameter "of" goes, and which node probes
// there.
func (s *Service) showRoute(w http.ResponseWriter, r *http.Request) {
	whyNot := ""
	if s.node.Prober != nil && s.flags.Anonymous() {
		whyNot = nodeflags.WhyNotAnonymous
	}
	route, err := s.node.explainRoute(r.Context(), r.URL.Query().Get("of"), whyNot)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]string{"detail": err.Error()})
		return
	}
	writeJSON(w, route)
}
