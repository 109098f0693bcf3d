package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"probity/api"
	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/engine/dns"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/prober"
	"probity/prober/doctor"
	"probity/prober/wire"
	"probity/store/cache"
)

// proberCmd is a prober alone, which probes for a remote coordinator.
type proberCmd struct {
	probingFlags
	memberFlags
	retainCacheFlag
	Data        string `help:"Where the cache and the budgets live: they outlast a restart." default:"./probity-data" type:"path"`
	NodeListen  string `help:"Listen address of the coordinator's stream." default:"0.0.0.0:7947"`
	NodeReach   string `name:"node-advertise" help:"Advertised stream address; default: the gossip address." placeholder:"HOST:PORT"`
	AdminListen string `help:"The admin listener: metrics, pprof, debug. Keep it private." default:"127.0.0.1:9090"`
	LogFormat   string `help:"text or json." enum:"text,json" default:"text"`
}

// Validate is called by the parser.
func (c *proberCmd) Validate() error {
	errs := []error{c.probingFlags.Validate(), c.memberFlags.Validate(), c.retainCacheFlag.check(), checkListen("node-listen", c.NodeListen), checkListen("admin-listen", c.AdminListen)}
	if c.NodeReach != "" {
		errs = append(errs, checkHostPort("node-advertise", c.NodeReach))
	}
	return errors.Join(errs...)
}

// probingGrace is how long after SIGTERM sessions continue for rows that are still on their way back to the coordinator. With the time
// to close its sessions, the prober ends within 25 s.
const probingGrace = 6 * time.Second

// proberProcess is everything that a prober runs.
type proberProcess struct {
	cmd            *proberCmd
	log            *slog.Logger
	disk           vfs.FS
	registry       metricsRegistry
	startedAt      time.Time
	rowRate        rateMeter
	ownTable       atomic.Pointer[engine.Table] // of our flags
	table          atomic.Pointer[engine.Table] // current one: our own, or a coordinator's
	cache          *cache.Cache
	resolver       *dns.Resolver
	prober         *prober.Prober
	audit          *doctor.Doctor // nil if there is nothing to audit
	server         *wire.Server
	healthMetrics  *healthMetrics
	cluster        *cluster.Cluster
	closeSockets   func() error // closes the sockets of a cluster that never ran
	streamListener net.Listener
	adminListener  net.Listener
}

// Run probes for a coordinator until ctx ends.
func (c *proberCmd) Run(ctx context.Context, con *console.IO, root *cli) error {
	if err := c.setDefaults(); err != nil {
		return err
	}
	w := &proberProcess{cmd: c, startedAt: time.Now(), log: serverLog(con, c.LogFormat, root.Verbose), disk: con.Files(), registry: prometheus.NewRegistry()}
	if err := datafolder.Restrict(c.Data, w.log); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	if err := w.open(); err != nil {
		return errors.Join(err, w.close())
	}
	w.log.Info("ready for a coordinator", "node", c.Name, "streams", w.streamListener.Addr().String(), "gossip", c.ClusterListen, "identities", len(w.prober.ActiveSources()))
	return errors.Join(w.run(ctx), w.close())
}

// open opens the cache and the sockets, and connects the components.
func (w *proberProcess) open() (err error) {
	c := w.cmd
	w.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	table, err := c.table()
	if err != nil {
		return err
	}
	w.ownTable.Store(table)
	w.table.Store(table)
	if w.resolver, err = c.resolver(table); err != nil {
		return err
	}
	if w.cache, err = cache.Open(cache.Config{FS: w.disk, Dir: filepath.Join(c.Data, "cache"), Log: w.log, MaxLife: time.Duration(c.RetainCache)}); err != nil {
		return err
	}
	cfg, err := c.proberConfig(table, w.log)
	if err != nil {
		return err
	}
	cfg.Node, cfg.Resolver, cfg.Cache, cfg.Log, cfg.Metrics = c.Name, w.resolver, w.cache, w.log, w.registry
	if w.prober, err = prober.New(cfg); err != nil {
		return err
	}
	if w.audit, err = c.newSelfAudit(table, c.Data, w.log, w.registry); err != nil {
		return err
	}
	if w.streamListener, err = net.Listen("tcp", c.NodeListen); err != nil {
		return fmt.Errorf("--node-listen: %w", err)
	}
	if w.adminListener, err = net.Listen("tcp", c.AdminListen); err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	if err := w.joinCluster(); err != nil {
		return err
	}
	w.healthMetrics = &healthMetrics{disk: w.disk, dir: c.Data, report: w.report, certExpiries: c.certExpiries()}
	w.registry.MustRegister(w.healthMetrics, w.resolver, w.cache)
	return nil
}

// joinCluster makes this node's stream server and its membership of the cluster.
func (w *proberProcess) joinCluster() error {
	c := w.cmd
	own, authority, err := c.loadTLS(x509.ExtKeyUsageServerAuth, "prober node")
	if err != nil {
		return err
	}
	w.server, err = wire.NewServer(wire.ServerConfig{Node: c.Name, Version: version, Identities: identitiesOf(w.prober), Table: w.ownTable.Load, UseTable: w.useTable,
		Prober: w.prober, Credentials: wire.ServerTLS(own, authority, w.log), Window: w.prober.Window, Fresh: w.prober.Fresh, SetIsolated: w.prober.SetIsolated,
		Status: w.status, Views: w.prober, Forget: w.prober.Forget, Log: w.log})
	if err != nil {
		return err
	}
	gossip, transport, err := c.newGossip(cluster.RoleProber, c.streamAddress(w.streamListener), w.log)
	if err != nil {
		return err
	}
	w.cluster, w.closeSockets = gossip, transport.Shutdown
	return nil
}

// streamAddress is the advertised stream address. The coordinator replaces an unspecified address.
func (c *proberCmd) streamAddress(streams net.Listener) string {
	if c.NodeReach != "" {
		return c.NodeReach
	}
	return streams.Addr().String()
}

// run runs everything until ctx ends or a part fails. The rows are returned first, then the sessions close (QUIT).
func (w *proberProcess) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resolverCtx, stopResolver := context.WithCancel(context.WithoutCancel(ctx))
	proberCtx, stopProber := context.WithCancel(context.WithoutCancel(ctx))
	defer stopResolver()
	defer stopProber()
	late := context.AfterFunc(ctx, func() { time.AfterFunc(probingGrace, stopProber) })
	defer late()
	w.closeSockets = nil // from here on Run closes the sockets
	var frontend, backend sync.WaitGroup
	var errs [6]error
	frontend.Go(onHangup(ctx, w.log, w.healthMetrics.recordingFailure(w.reload)))
	if w.audit != nil {
		backend.Go(func() { errs[5] = w.audit.Run(resolverCtx) })
	}
	backend.Go(func() { errs[0] = w.resolver.Run(resolverCtx); stop() })
	backend.Go(func() { logResolverHealth(resolverCtx, w.resolver, w.log) })
	proberDone := make(chan struct{})
	backend.Go(func() { defer close(proberDone); errs[1] = w.prober.Run(proberCtx); stop() })
	frontend.Go(func() { errs[2] = w.server.Run(ctx, w.streamListener); stop() })
	frontend.Go(func() { errs[3] = w.cluster.Run(ctx); stop() })
	frontend.Go(func() { errs[4] = serveAdminHTTP(ctx, w.adminListener, w.adminHandler()); stop() })
	frontend.Wait()
	stopProber()
	<-proberDone
	stopResolver()
	backend.Wait()
	return errors.Join(errs[:]...)
}

// status is the state of this node.
func (w *proberProcess) status() wire.Status { return audited(w.prober.Status(), w.audit) }

func (w *proberProcess) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api.AdminListener{Log: w.log, Metrics: w.registry, Config: func() any { return w.cmd }, Probes: w.prober.Recent()}.Handler())
	mux.HandleFunc("GET /debug/cluster", func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, w.report()) })
	return mux
}

// useTable puts a table into force: the coordinator's, or our own if the coordinator cannot send one.
func (w *proberProcess) useTable(t *engine.Table) error {
	if w.cmd.RespectTerms && !t.RespectsTerms() {
		return errors.New("it asks receivers whose terms forbid to verify addresses, and this prober has --respect-terms; give the coordinator --respect-terms too")
	}
	logTable(w.log, w.table.Load(), t)
	w.table.Store(t)
	w.resolver.SetTable(t)
	w.prober.SetTable(t)
	return nil
}

// reload reads the provider table and the gossip keys again, and uses them if they are valid. Our own table is used only without
// a coordinator, which sends its own.
func (w *proberProcess) reload() error {
	table, err := w.cmd.table()
	if err != nil {
		return err
	}
	if err := w.cmd.reloadKeys(w.cluster); err != nil {
		return err
	}
	w.ownTable.Store(table)
	if !w.server.TableChanged() {
		w.log.Info("the coordinator's provider table stays in force; give the file to the coordinator to change that", "table", tableName(w.table.Load()), "ours", tableName(table))
	}
	return nil
}

// report is what probity cluster shows of a prober: this node, and what it knows from gossip.
func (w *proberProcess) report() fleet.ClusterReport {
	self, view := selfReport(w.status(), w.prober, &w.rowRate), w.cluster.View()
	self.Name, self.Address, self.Since = w.cmd.Name, w.streamListener.Addr().String(), w.startedAt
	return fleet.ClusterReport{Coordinator: strings.Join(view.Rivals, ", "), Problem: view.Problem, Nodes: []fleet.NodeReport{self}}
}

func (w *proberProcess) close() error {
	errs := []error{closeListeners(w.streamListener, w.adminListener)}
	if w.closeSockets != nil {
		errs = append(errs, w.closeSockets())
	}
	if w.cache != nil {
		errs = append(errs, w.cache.Close())
	}
	return errors.Join(errs...)
}

// proberConfig is the configuration that the flags give a prober on the sockets of this machine.
func (f *probingFlags) proberConfig(table *engine.Table, log *slog.Logger) (prober.Config, error) {
	ids, err := f.identities()
	if err != nil {
		return prober.Config{}, err
	}
	proxy, err := f.proxy()
	if err != nil {
		return prober.Config{}, err
	}
	sessions, err := f.sessions()
	return prober.Config{Table: table, Dial: f.dial(proxy, ids, log), Sources: ids, MailFrom: f.MailFrom, SOCKS5: proxy, Port: f.SMTPPort,
		AllowPrivate: f.AllowPrivateTargets, SkipWarmUp: f.Warm, MaxSessions: sessions}, err
}
