package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"probity/api"
	"probity/api/httpd"
	"probity/api/record"
	"probity/coordinator"
	"probity/coordinator/callback"
	"probity/coordinator/results"
	"probity/internal/admin"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/internal/loglimit"
	"probity/internal/memlimit"
	"probity/internal/nodeflags"
	"probity/internal/tlsfront"
	"probity/store"
)

type serveCmd struct {
	nodeflags.Probing
	nodeflags.ListChanges
	tlsfront.Flags
	retainFlags
	retainCacheFlag
	Data                  string         `help:"Where state, cache and jobs live." default:"./probity-data" type:"path"`
	Listen                string         `help:"The public listener." default:"127.0.0.1:8080"`
	AdminListen           string         `help:"The admin listener: metrics, pprof, debug. Keep it private." default:"127.0.0.1:9090"`
	PublicURL             string         `name:"public-url" help:"How clients reach the server, for links." placeholder:"URL"`
	TrustedProxy          []netip.Prefix `help:"Whose X-Forwarded-For is believed; repeatable." placeholder:"CIDR"`
	CORSOrigin            []string       `name:"cors-origin" help:"A page that may use the public endpoint; repeatable." placeholder:"ORIGIN"`
	CallbackSource        string         `help:"The address that callbacks leave from, and the one that receivers see: LOCAL[/PUBLIC]." placeholder:"LOCAL[/PUBLIC]"`
	AllowPrivateCallbacks []netip.Prefix `help:"Private networks that callbacks may go to; repeatable." placeholder:"CIDR"`
	InitialCredits        int64          `help:"Credits of the admin that an empty store is given." default:"1000000"`
	AdminEmail            string         `help:"E-mail of that admin." default:"admin@localhost.localdomain"`
	PublishDocs           bool           `help:"Serve /docs and /openapi.json." default:"true" negatable:""`
	PublicPerDay          int            `help:"Anonymous verifications a day, of all clients together." default:"1000"`
	DiskFloor             int64          `help:"Free bytes below which uploads are refused." default:"1073741824"`
	LogFormat             string         `help:"text or json." enum:"text,json" default:"text"`
}

// Validate is called by the parser. It refuses a zero that would be taken for the default.
func (c *serveCmd) Validate() error {
	switch {
	case c.InitialCredits < 0:
		return fmt.Errorf("--initial-credits %d: give a number from 0", c.InitialCredits)
	case c.PublicPerDay < 1:
		return fmt.Errorf("--public-per-day %d: give a number from 1", c.PublicPerDay)
	case c.DiskFloor < 1:
		return fmt.Errorf("--disk-floor %d: give a number of bytes from 1", c.DiskFloor)
	}
	return errors.Join(c.checkAddresses(), c.Probing.Validate(), c.retainFlags.check(), c.retainCacheFlag.check())
}

// checkAddresses checks the flags that are network addresses or URLs.
func (c *serveCmd) checkAddresses() error {
	errs := []error{checkListen("listen", c.Listen), checkListen("admin-listen", c.AdminListen)}
	if c.PublicURL != "" {
		errs = append(errs, checkURL("public-url", c.PublicURL, "https", "http"))
	}
	for _, origin := range c.CORSOrigin {
		errs = append(errs, checkOrigin(origin))
	}
	for _, name := range c.ACMEDomain {
		errs = append(errs, checkName("acme-domain", name))
	}
	if c.ACMEDirectory != "" {
		errs = append(errs, checkURL("acme-directory", c.ACMEDirectory, "https"))
	}
	return errors.Join(errs...)
}

// drainTimeout bounds the wait for running requests after SIGTERM, so that the process ends within 25 s.
const drainTimeout = 10 * time.Second

// service is everything that serve runs.
type service struct {
	cmd            *serveCmd
	flags          any          // for /debug/config; nil for those of cmd
	members        *memberFlags // the cluster to coordinate; nil to probe in this process
	log            *slog.Logger
	disk           vfs.FS
	registry       metricsRegistry
	node           *node
	callbacks      *callback.Sender
	eraser         *coordinator.Eraser
	server         *api.Server
	tlsListener    *tlsfront.Listener // nil without TLS
	healthMetrics  *healthMetrics
	publicListener net.Listener
	adminListener  net.Listener
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, con *console.IO) (err error) {
	s := &service{cmd: c, log: serverLog(con, c.LogFormat), disk: con.Files(), registry: prometheus.NewRegistry()}
	return s.serve(ctx, con)
}

// serveMemoryLimit is where the garbage collector begins to work harder, unless the environment sets GOMEMLIMIT. It is about twice
// the live heap of one long job, including the cache's key filter.
const serveMemoryLimit = 272 << 20

// serve opens everything, and serves until ctx ends.
func (s *service) serve(ctx context.Context, con *console.IO) error {
	memlimit.Adjust(ctx, serveMemoryLimit)
	if err := datafolder.Restrict(s.cmd.Data, s.log); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	if err := s.open(); err != nil {
		return errors.Join(err, s.close())
	}
	if err := s.createFirstAdmin(ctx, con); err != nil {
		return errors.Join(err, s.close())
	}
	s.log.Info("serving", "public", s.publicListener.Addr().String(), "admin", s.adminListener.Addr().String(), "data", s.cmd.Data)
	return errors.Join(s.run(ctx), s.close())
}

// serverLog logs at info level, or everything with --verbose. Repeated warnings and errors are limited to a few lines a second.
func serverLog(con *console.IO, format string) *slog.Logger {
	options := &slog.HandlerOptions{}
	if con.Verbose {
		options.Level = slog.LevelDebug
	}
	if format == "json" {
		return slog.New(loglimit.New(slog.NewJSONHandler(con.Err, options)))
	}
	return slog.New(loglimit.New(slog.NewTextHandler(con.Err, options)))
}

// open opens the stores and the listeners, and connects the components.
func (s *service) open() (err error) {
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c := s.cmd
	if s.tlsListener, err = tlsfront.New(&c.Flags, c.Data); err != nil {
		return err
	}
	s.node, err = openNode(&c.Probing, nodeConfig{fs: s.disk, dir: c.Data, log: s.log, metrics: s.registry, lists: c.ListChanges, retain: c.retainFlags, retainCache: c.RetainCache, service: true, members: s.members,
		resultForm: results.Form{Format: results.CSV, Compress: results.Zstd}})
	if err != nil {
		return err
	}
	s.registry.MustRegister(s.node.coordinator, s.node.resolver, s.node.store)
	if s.node.cache != nil { // a coordinator without a prober has none
		s.registry.MustRegister(s.node.cache)
	}
	if err := s.registerHealthMetrics(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.scratchDir()), os.MkdirAll(s.scratchDir(), 0o700)); err != nil {
		return err
	}
	if s.publicListener, err = net.Listen("tcp", c.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if s.adminListener, err = net.Listen("tcp", c.AdminListen); err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	if s.callbacks, err = s.newCallbacks(); err != nil {
		return err
	}
	if err = coordinator.AdoptErasures(s.node.store, s.disk, c.Data, time.Now()); err != nil {
		return fmt.Errorf("erasures of an earlier version: %w", err)
	}
	s.eraser = s.node.newEraser()
	s.warnAtStart()
	s.server, err = s.newServer()
	return err
}

// registerHealthMetrics registers the metrics that belong to no component.
func (s *service) registerHealthMetrics() error {
	s.healthMetrics = &healthMetrics{disk: s.disk, dir: s.cmd.Data, diskFloor: s.cmd.DiskFloor, report: s.node.report, tlsListener: s.tlsListener, backup: s.node.store.LastBackup}
	if s.members != nil {
		s.healthMetrics.certExpiries = s.members.certExpiries()
	}
	return s.registry.Register(s.healthMetrics)
}

// warnAtStart warns at the start about settings that would surprise later.
func (s *service) warnAtStart() {
	c := s.cmd
	if s.node.prober != nil && !c.AllowPrivateTargets && (c.MailFrom == "" || len(c.Egress) == 0) {
		s.log.Warn("no public mail server is asked without --mail-from and --egress: what only it can tell stays UNKNOWN (smtp_not_checked)")
	}
	if at := s.publicListener.Addr().(*net.TCPAddr); c.PublicURL == "" && at.IP.IsUnspecified() {
		s.log.Warn("links in callbacks lead nowhere without --public-url: --listen names no address of this machine", "listen", c.Listen)
	}
	if s.tlsListener.Contradicts(c.PublicURL) {
		s.log.Warn("--public-url begins with http, but --listen speaks TLS: links in callbacks will not work", "public-url", c.PublicURL)
	}
	if c.CallbackSource == "" {
		s.log.Info("receivers of callbacks cannot check where they come from without --callback-source")
	}
}

// createFirstAdmin creates the admin of an empty store. The password is written to the disk, for the folder's owner only, before the
// account: if the start ends between the two, the next one writes the file again. The password is never in the log.
func (s *service) createFirstAdmin(ctx context.Context, con *console.IO) error {
	if len(s.node.store.Users()) > 0 {
		return nil
	}
	path, password := filepath.Join(s.cmd.Data, datafolder.FirstPasswordFile), store.RandomPassword()
	if err := writeSecret(s.disk, path, password+"\n"); err != nil {
		return fmt.Errorf("password of the first admin: %w", err)
	}
	user, _, err := s.node.store.FirstAdmin(ctx, s.cmd.AdminEmail, password, s.cmd.InitialCredits, time.Now())
	if errors.Is(err, store.ErrBadEmail) {
		return errors.Join(fmt.Errorf("%w: --admin-email %q: %v", console.ErrUsage, s.cmd.AdminEmail, err), os.Remove(path))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(con.Err, "This store is new. Its admin is %s, with %s; the password is in %s: read it, sign in, change it and delete the file.\nMake a key: probity key create --data %s --user %s --name first (with the server stopped)\n",
		user.Email, console.Counted(s.cmd.InitialCredits, "credit"), path, s.cmd.Data, user.Email)
	return err
}

// writeSecret writes a durable file that only its owner can read. It replaces an existing file.
func writeSecret(disk vfs.FS, path, text string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	folder, err := disk.OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (s *service) newCallbacks() (*callback.Sender, error) {
	source, _, err := nodeflags.ParseSource(s.cmd.CallbackSource)
	if err != nil {
		return nil, err
	}
	return callback.New(callback.Config{Store: s.node.store, Results: s.node.coordinator,
		Record: func(j *store.Job, c store.Callback) ([]byte, error) {
			return record.ForCallback(s.publicURL(), time.Duration(s.cmd.RetainResults), j, c)
		},
		PublicURL: s.publicURL(), Dial: nodeflags.DialFrom, Lookup: s.lookup, Source: source, Allow: s.cmd.AllowPrivateCallbacks, Log: s.log, Metrics: s.registry})
}

// recentProbes shows recent probes; nil for a coordinator without a prober.
func (s *service) recentProbes() http.Handler {
	if s.node.prober == nil {
		return nil
	}
	return s.node.prober.Recent()
}

// publicURL is the server's URL for receivers of callbacks: --public-url, else the listener's own address.
func (s *service) publicURL() string {
	if s.cmd.PublicURL != "" {
		return s.cmd.PublicURL
	}
	return s.tlsListener.Scheme() + "://" + s.publicListener.Addr().String()
}

// scratchDir holds uploads until their last part is read. Files left there by a crash belong to no upload.
func (s *service) scratchDir() string { return filepath.Join(s.cmd.Data, "scratch") }

func (s *service) newServer() (*api.Server, error) {
	c := s.cmd
	_, published, err := nodeflags.ParseSource(c.CallbackSource)
	if err != nil {
		return nil, err
	}
	return api.New(api.Config{PublicURL: c.PublicURL, CORSOrigins: c.CORSOrigin, CallbackFrom: published,
		HideDocs: !c.PublishDocs, PublicPerDay: c.PublicPerDay, DiskFloor: c.DiskFloor, Config: httpd.Config{TrustedProxies: c.TrustedProxy, TLS: s.tlsListener.Config()}},
		api.Deps{Store: s.node.store, Coordinator: s.node.coordinator, Callbacks: s.callbacks, FS: s.disk,
			Operator: api.Operator{Table: s.node.activeTable.Load, Cluster: func() any { return s.node.report() }, Views: s.node.nodeViews(), Findings: findings(s.node.audit)},
			Scratch:  s.scratchDir(), Log: s.log, Metrics: s.registry, Eraser: s.eraser})
}

// run runs everything until ctx ends or a part fails. Requests end first, then callbacks, then the node.
func (s *service) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	components, stopComponents := context.WithCancel(context.WithoutCancel(ctx))
	defer stopComponents()
	var backend, frontend sync.WaitGroup
	var errs [5]error
	backend.Go(onHangup(components, s.log, s.healthMetrics.recordingFailure(s.reload)))
	backend.Go(func() { errs[0] = s.node.Run(components); stop() })
	backend.Go(func() { errs[1] = s.callbacks.Run(components); stop() })
	backend.Go(func() { errs[4] = s.eraser.Run(components); stop() })
	frontend.Go(func() { errs[2] = s.server.Serve(ctx, s.publicListener, drainTimeout); stop() })
	frontend.Go(func() { errs[3] = s.serveAdmin(ctx); stop() })
	backend.Go(func() { s.maintainStore(components) })
	frontend.Wait()
	stopComponents()
	backend.Wait()
	return errors.Join(errs[:]...)
}

// serveAdmin serves the operator's own listener.
func (s *service) serveAdmin(ctx context.Context) error {
	return serveAdminHTTP(ctx, s.adminListener, s.adminHandler())
}

// adminHandler serves the operator's own listener.
func (s *service) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api.AdminListener{Log: s.log, Metrics: s.registry, Config: s.shownConfig, Server: s.server, Probes: s.recentProbes()}.Handler())
	mux.HandleFunc("GET /debug/cluster", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.node.report()) })
	coverageRoutes(mux)
	mux.HandleFunc("GET /debug/owner", s.showOwner)
	return mux
}

// serveAdminHTTP serves an operator's listener until ctx ends. On loopback it refuses requests for other host names.
func serveAdminHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	if a, ok := listener.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		handler = httpd.RefuseForeignHosts(handler)
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err := web.Close()
	<-served
	return err
}

// shownConfig is the configuration for /debug/config. It holds no secret: keys and passwords are in the store.
func (s *service) shownConfig() any {
	if s.flags != nil {
		return s.flags
	}
	return s.cmd
}

// maintainStore flushes lazy writes each minute, and deletes expired entries each hour.
func (s *service) maintainStore(ctx context.Context) {
	minute, hour := time.NewTicker(time.Minute), time.NewTicker(time.Hour)
	defer minute.Stop()
	defer hour.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			if err = s.node.store.WriteLastUsed(); err != nil {
				s.log.Error("last use of keys not written", "error", err)
			}
			return
		case <-minute.C:
			err = s.node.store.WriteLastUsed()
		case now := <-hour.C:
			err = s.sweepExpired(now)
		}
		if err != nil {
			s.log.Error("housekeeping of the store", "error", err)
		}
	}
}

// sweepExpired deletes expired windows, stored answers, sessions and receipts.
func (s *service) sweepExpired(now time.Time) error {
	var errs []error
	for _, sweep := range []func(time.Time) (int, error){s.node.store.SweepWindows, s.node.store.SweepAnswers, s.node.store.SweepSessions, s.node.store.SweepErasures} {
		_, err := sweep(now)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// closeListeners closes the listeners that are open; those that served are closed already.
func closeListeners(listeners ...net.Listener) error {
	var errs []error
	for _, l := range listeners {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *service) close() error {
	errs := []error{closeListeners(s.publicListener, s.adminListener)}
	if s.node != nil {
		errs = append(errs, s.node.Close())
	}
	return errors.Join(errs...)
}

// newEraser makes the eraser of a node. It erases from the cache of this process, or from those of the coordinator's nodes.
func (n *node) newEraser() *coordinator.Eraser {
	if n.fleet != nil {
		return admin.NewEraser(n.store, n.coordinator, n.fleet, n.log)
	}
	return admin.NewEraser(n.store, n.coordinator, admin.LocalCache{Cache: n.cache}, n.log)
}
