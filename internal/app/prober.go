package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"probity/api/adminlistener"
	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/engine/dns"
	"probity/internal/datafolder"
	"probity/internal/nodeflags"
	"probity/internal/spans"
	"probity/prober"
	"probity/prober/doctor"
	"probity/prober/wire"
	"probity/prober/wire/stream"
	"probity/store/cache"
	"probity/store/diskroom"
)

// ProberFlags are the flags of a prober alone, which probes for a remote coordinator.
type ProberFlags struct {
	nodeflags.Probing
	memberFlags
	RetainCacheFlag
	TraceFlags
	Data        string `help:"Where the cache and the budgets live: they outlast a restart." default:"./probity-data" type:"path"`
	NodeListen  string `help:"Listen address of the coordinator's stream." default:"0.0.0.0:7947"`
	NodeReach   string `name:"node-advertise" help:"Advertised stream address; default: the gossip address." placeholder:"HOST:PORT"`
	AdminListen string `help:"The admin listener: metrics, pprof, debug. Keep it private." default:"127.0.0.1:9090"`
	LogFormat   string `help:"text or json." enum:"text,json" default:"text"`
}

// Validate is called by the parser.
func (p *ProberFlags) Validate() error {
	streams, admins, gossip := listenFlag{"node-listen", p.NodeListen}, listenFlag{"admin-listen", p.AdminListen},
		p.gossipListener()
	errs := []error{p.Probing.Validate(), p.memberFlags.Validate(), p.RetainCacheFlag.check(), p.TraceFlags.check(),
		streams.check(), admins.check(),
		streams.checkApart(admins, gossip), admins.checkApart(gossip)}
	if p.NodeReach != "" {
		errs = append(errs, checkHostPort("node-advertise", p.NodeReach))
	}
	return errors.Join(errs...)
}

// probingGrace is how long after SIGTERM sessions continue for rows that are still on their way back to the
// coordinator. With the time to close its sessions, the prober ends within 25 s.
const probingGrace = 6 * time.Second

// Prober is everything that a prober runs.
type Prober struct {
	Process
	flags          *ProberFlags
	startedAt      time.Time
	rowRate        rateMeter
	table          atomic.Pointer[engine.Table] // current one: our own until a coordinator sends its table
	room           *diskroom.Room
	cache          *cache.Cache
	resolver       *dns.Resolver
	prober         *prober.Prober
	audit          *doctor.Doctor // nil if there is nothing to audit
	server         *stream.Server
	tracer         *spans.Tracer // nil: no spans are recorded
	healthMetrics  *healthMetrics
	cluster        *cluster.Cluster
	closeSockets   func() error // closes the sockets of a cluster that never ran
	streamListener net.Listener
	adminListener  net.Listener
}

// NewProber makes a prober for coordinators on other machines. It opens nothing.
func NewProber(p Process, f *ProberFlags) (*Prober, error) {
	if err := f.setDefaults(); err != nil {
		return nil, err
	}
	return &Prober{Process: p, flags: f, startedAt: time.Now(), room: diskroom.New(p.Disk, f.Data, p.Log)}, nil
}

// Serve opens everything, and probes for a coordinator until ctx ends.
func (p *Prober) Serve(ctx context.Context) error {
	return p.runInRoom(ctx, p.room, func() error {
		if err := p.Open(); err != nil {
			return errors.Join(err, p.Close())
		}
		p.Log.Info("ready for a coordinator", "node", p.flags.Name, "streams", p.streamListener.Addr().String(),
			"gossip", p.flags.ClusterListen, "identities", len(p.prober.ActiveSources()))
		return nil
	}, func() error { return p.runToEnd(ctx, p.adminListener, p.Run, p.Close) })
}

// Open opens the cache and the sockets, and connects the components.
func (p *Prober) Open() (err error) {
	c := p.flags
	p.Registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	table, err := c.Table()
	if err != nil {
		return err
	}
	p.table.Store(table)
	if p.resolver, err = c.Resolver(table); err != nil {
		return err
	}
	if err := datafolder.Restrict(c.Data, p.Log); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	p.room.MakeBallast()
	if p.cache, err = cache.Open(cache.Config{FS: p.room.Cache(), Dir: filepath.Join(c.Data, "cache"), Log: p.Log,
		MaxLife: time.Duration(c.RetainCache)}); err != nil {
		return err
	}
	cfg, err := c.ProberConfig(table, p.Log)
	if err != nil {
		return err
	}
	cfg.Node = c.Name
	cfg.Resolver = p.resolver
	cfg.Cache = p.cache
	cfg.Log = p.Log
	cfg.Metrics = p.Registry
	if p.prober, err = prober.New(cfg); err != nil {
		return err
	}
	if p.audit, err = newSelfAudit(&c.Probing, table,
		nodeflags.AuditOptions{Folder: c.Data, Log: p.Log, Metrics: p.Registry}); err != nil {
		return err
	}
	if c.Anonymous() {
		p.Log.Warn(nodeflags.AnonymousWarning)
	}
	if p.streamListener, err = listen("node-listen", c.NodeListen); err != nil {
		return err
	}
	if p.adminListener, err = p.listenForAdmins(c.AdminListen); err != nil {
		return err
	}
	if p.tracer, err = c.TraceFlags.open(p.Process, c.Name); err != nil {
		return err
	}
	own, authority, err := c.loadTLS(x509.ExtKeyUsageServerAuth, "prober node")
	if err != nil {
		return err
	}
	p.server, err = stream.NewServer(stream.ServerConfig{Node: c.Name, Version: p.Build.Version,
		Identities: IdentitiesOf(p.prober), Table: table, UseTable: p.useTable,
		Prober: p.prober, Credentials: stream.ServerTLS(own, authority, p.Log), Window: p.prober.Window,
		Fresh: p.prober.Fresh, SetIsolated: p.prober.SetIsolated,
		KeysMoved: p.prober.KeysMoved, Status: p.status, Views: p.prober, Forget: p.prober.Forget, Log: p.Log,
		Tracer: p.tracer})
	if err != nil {
		return err
	}
	streams := p.streamListener.Addr().String() // a coordinator replaces an unspecified address
	if c.NodeReach != "" {
		streams = c.NodeReach
	}
	gossip, transport, err := c.newGossip(cluster.RoleProber, streams, p.Build.Version, p.Log)
	if err != nil {
		return err
	}
	p.cluster, p.closeSockets = gossip, transport.Shutdown
	p.healthMetrics = &healthMetrics{build: p.Build, disk: p.Disk, dir: c.Data, report: p.report,
		certExpiries: c.certExpiries()}
	p.Registry.MustRegister(p.healthMetrics, p.resolver, p.cache)
	return nil
}

// Run runs everything until ctx ends or a part fails. The rows are returned first, then the sessions close (QUIT).
func (p *Prober) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resolverCtx, stopResolver := context.WithCancel(context.WithoutCancel(ctx))
	proberCtx, stopProber := context.WithCancel(context.WithoutCancel(ctx))
	defer stopResolver()
	defer stopProber()
	late := context.AfterFunc(ctx, func() { time.AfterFunc(probingGrace, stopProber) })
	defer late()
	endTraces := runTracer(p.tracer)
	defer endTraces()
	mux := http.NewServeMux()
	mux.Handle("/", adminlistener.Listener{Log: p.Log, Build: p.Build, Metrics: p.Registry,
		Config: func() any { return p.flags }, Probes: p.prober.Recent()}.Handler())
	mux.HandleFunc("GET /debug/cluster", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, p.report()) })
	p.closeSockets = nil // from here on Run closes the sockets
	var frontend, backend sync.WaitGroup
	var errs [6]error
	frontend.Go(func() { p.reloadOnHangup(ctx, p.healthMetrics.recordingFailure(p.reload)) })
	if p.audit != nil {
		backend.Go(func() { errs[5] = p.audit.Run(resolverCtx) })
	}
	backend.Go(func() { errs[0] = p.resolver.Run(resolverCtx); stop() })
	backend.Go(func() { logResolverHealth(resolverCtx, p.resolver, p.Log) })
	proberDone := make(chan struct{})
	backend.Go(func() { defer close(proberDone); errs[1] = p.prober.Run(proberCtx); stop() })
	frontend.Go(func() { errs[2] = p.server.Run(ctx, p.streamListener); stop() })
	frontend.Go(func() { errs[3] = p.cluster.Run(ctx); stop() })
	frontend.Go(func() { errs[4] = serveAdminHTTP(ctx, p.adminListener, mux); stop() })
	backend.Go(func() { p.room.Run(resolverCtx) })
	frontend.Wait()
	stopProber()
	<-proberDone
	stopResolver()
	backend.Wait()
	return errors.Join(errs[:]...)
}

// status is the state of this node.
func (p *Prober) status() wire.Status { return audited(p.prober.Status(), p.audit) }

// useTable puts the coordinator's table into force.
func (p *Prober) useTable(t *engine.Table) error {
	if p.flags.RespectTerms && !t.RespectsTerms() {
		return errors.New("it asks receivers whose terms forbid to verify addresses, and this prober has --respect-terms; give the coordinator --respect-terms too")
	}
	logTable(p.Log, p.table.Load(), t)
	p.table.Store(t)
	p.resolver.SetTable(t)
	p.prober.SetTable(t)
	return nil
}

// reload reads the gossip keys again, and uses them if they are valid. The provider table is the coordinator's.
func (p *Prober) reload() error {
	table, err := p.flags.Table()
	if err != nil {
		return err
	}
	if err := p.flags.reloadKeys(p.cluster); err != nil {
		return err
	}
	if table.Hash() != p.table.Load().Hash() {
		p.Log.Info("the coordinator's provider table stays in force; give the file to the coordinator to change that",
			"table", tableName(p.table.Load()), "ours", tableName(table))
	}
	return nil
}

// report returns what probity cluster shows of a prober: this node, and what it knows from gossip.
func (p *Prober) report() fleet.ClusterReport {
	self, view := selfReport(p.Build.Version, p.status(), p.prober, &p.rowRate), p.cluster.View()
	self.Name, self.Address, self.Since = p.flags.Name, p.streamListener.Addr().String(), p.startedAt
	return fleet.ClusterReport{Coordinator: strings.Join(view.Rivals, ", "), Problem: view.Problem,
		Nodes: []fleet.NodeReport{self}}
}

// Close closes what Open opened. Run must have returned.
func (p *Prober) Close() error {
	errs := []error{closeListeners(p.streamListener, p.adminListener)}
	if p.closeSockets != nil {
		errs = append(errs, p.closeSockets())
	}
	if p.cache != nil {
		errs = append(errs, p.cache.Close())
	}
	return errors.Join(errs...)
}
