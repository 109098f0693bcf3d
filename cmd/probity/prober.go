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
	"probity/internal/nodeflags"
	"probity/prober"
	"probity/prober/doctor"
	"probity/prober/wire"
	"probity/store/cache"
)

// proberCmd is a prober alone, which probes for a remote coordinator.
type proberCmd struct {
	nodeflags.Probing
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
	errs := []error{c.Probing.Validate(), c.memberFlags.Validate(), c.retainCacheFlag.check(), checkListen("node-listen", c.NodeListen), checkListen("admin-listen", c.AdminListen)}
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
func (c *proberCmd) Run(ctx context.Context, con *console.IO) error {
	if err := c.setDefaults(); err != nil {
		return err
	}
	pp := &proberProcess{cmd: c, startedAt: time.Now(), log: serverLog(con, c.LogFormat), disk: con.Files(), registry: prometheus.NewRegistry()}
	if err := datafolder.Restrict(c.Data, pp.log); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	if err := pp.open(); err != nil {
		return errors.Join(err, pp.close())
	}
	pp.log.Info("ready for a coordinator", "node", c.Name, "streams", pp.streamListener.Addr().String(), "gossip", c.ClusterListen, "identities", len(pp.prober.ActiveSources()))
	return errors.Join(pp.run(ctx), pp.close())
}

// open opens the cache and the sockets, and connects the components.
func (pp *proberProcess) open() (err error) {
	c := pp.cmd
	pp.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	table, err := c.Table()
	if err != nil {
		return err
	}
	pp.ownTable.Store(table)
	pp.table.Store(table)
	if pp.resolver, err = c.Resolver(table); err != nil {
		return err
	}
	if pp.cache, err = cache.Open(cache.Config{FS: pp.disk, Dir: filepath.Join(c.Data, "cache"), Log: pp.log, MaxLife: time.Duration(c.RetainCache)}); err != nil {
		return err
	}
	cfg, err := c.ProberConfig(table, pp.log)
	if err != nil {
		return err
	}
	cfg.Node, cfg.Resolver, cfg.Cache, cfg.Log, cfg.Metrics = c.Name, pp.resolver, pp.cache, pp.log, pp.registry
	if pp.prober, err = prober.New(cfg); err != nil {
		return err
	}
	if pp.audit, err = newSelfAudit(&c.Probing, table, c.Data, pp.log, pp.registry); err != nil {
		return err
	}
	if pp.streamListener, err = net.Listen("tcp", c.NodeListen); err != nil {
		return fmt.Errorf("--node-listen: %w", err)
	}
	if pp.adminListener, err = net.Listen("tcp", c.AdminListen); err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	if err := pp.joinCluster(); err != nil {
		return err
	}
	pp.healthMetrics = &healthMetrics{disk: pp.disk, dir: c.Data, report: pp.report, certExpiries: c.certExpiries()}
	pp.registry.MustRegister(pp.healthMetrics, pp.resolver, pp.cache)
	return nil
}

// joinCluster makes this node's stream server and its membership of the cluster.
func (pp *proberProcess) joinCluster() error {
	c := pp.cmd
	own, authority, err := c.loadTLS(x509.ExtKeyUsageServerAuth, "prober node")
	if err != nil {
		return err
	}
	pp.server, err = wire.NewServer(wire.ServerConfig{Node: c.Name, Version: version, Identities: identitiesOf(pp.prober), Table: pp.ownTable.Load, UseTable: pp.useTable,
		Prober: pp.prober, Credentials: wire.ServerTLS(own, authority, pp.log), Window: pp.prober.Window, Fresh: pp.prober.Fresh, SetIsolated: pp.prober.SetIsolated,
		Status: pp.status, Views: pp.prober, Forget: pp.prober.Forget, Log: pp.log})
	if err != nil {
		return err
	}
	gossip, transport, err := c.newGossip(cluster.RoleProber, c.streamAddress(pp.streamListener), pp.log)
	if err != nil {
		return err
	}
	pp.cluster, pp.closeSockets = gossip, transport.Shutdown
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
func (pp *proberProcess) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resolverCtx, stopResolver := context.WithCancel(context.WithoutCancel(ctx))
	proberCtx, stopProber := context.WithCancel(context.WithoutCancel(ctx))
	defer stopResolver()
	defer stopProber()
	late := context.AfterFunc(ctx, func() { time.AfterFunc(probingGrace, stopProber) })
	defer late()
	pp.closeSockets = nil // from here on Run closes the sockets
	var frontend, backend sync.WaitGroup
	var errs [6]error
	frontend.Go(onHangup(ctx, pp.log, pp.healthMetrics.recordingFailure(pp.reload)))
	if pp.audit != nil {
		backend.Go(func() { errs[5] = pp.audit.Run(resolverCtx) })
	}
	backend.Go(func() { errs[0] = pp.resolver.Run(resolverCtx); stop() })
	backend.Go(func() { logResolverHealth(resolverCtx, pp.resolver, pp.log) })
	proberDone := make(chan struct{})
	backend.Go(func() { defer close(proberDone); errs[1] = pp.prober.Run(proberCtx); stop() })
	frontend.Go(func() { errs[2] = pp.server.Run(ctx, pp.streamListener); stop() })
	frontend.Go(func() { errs[3] = pp.cluster.Run(ctx); stop() })
	frontend.Go(func() { errs[4] = serveAdminHTTP(ctx, pp.adminListener, pp.adminHandler()); stop() })
	frontend.Wait()
	stopProber()
	<-proberDone
	stopResolver()
	backend.Wait()
	return errors.Join(errs[:]...)
}

// status is the state of this node.
func (pp *proberProcess) status() wire.Status { return audited(pp.prober.Status(), pp.audit) }

func (pp *proberProcess) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api.AdminListener{Log: pp.log, Metrics: pp.registry, Config: func() any { return pp.cmd }, Probes: pp.prober.Recent()}.Handler())
	mux.HandleFunc("GET /debug/cluster", func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, pp.report()) })
	return mux
}

// useTable puts a table into force: the coordinator's, or our own if the coordinator cannot send one.
func (pp *proberProcess) useTable(t *engine.Table) error {
	if pp.cmd.RespectTerms && !t.RespectsTerms() {
		return errors.New("it asks receivers whose terms forbid to verify addresses, and this prober has --respect-terms; give the coordinator --respect-terms too")
	}
	logTable(pp.log, pp.table.Load(), t)
	pp.table.Store(t)
	pp.resolver.SetTable(t)
	pp.prober.SetTable(t)
	return nil
}

// reload reads the provider table and the gossip keys again, and uses them if they are valid. Our own table is used only without
// a coordinator, which sends its own.
func (pp *proberProcess) reload() error {
	table, err := pp.cmd.Table()
	if err != nil {
		return err
	}
	if err := pp.cmd.reloadKeys(pp.cluster); err != nil {
		return err
	}
	pp.ownTable.Store(table)
	if !pp.server.TableChanged() {
		pp.log.Info("the coordinator's provider table stays in force; give the file to the coordinator to change that", "table", tableName(pp.table.Load()), "ours", tableName(table))
	}
	return nil
}

// report is what probity cluster shows of a prober: this node, and what it knows from gossip.
func (pp *proberProcess) report() fleet.ClusterReport {
	self, view := selfReport(pp.status(), pp.prober, &pp.rowRate), pp.cluster.View()
	self.Name, self.Address, self.Since = pp.cmd.Name, pp.streamListener.Addr().String(), pp.startedAt
	return fleet.ClusterReport{Coordinator: strings.Join(view.Rivals, ", "), Problem: view.Problem, Nodes: []fleet.NodeReport{self}}
}

func (pp *proberProcess) close() error {
	errs := []error{closeListeners(pp.streamListener, pp.adminListener)}
	if pp.closeSockets != nil {
		errs = append(errs, pp.closeSockets())
	}
	if pp.cache != nil {
		errs = append(errs, pp.cache.Close())
	}
	return errors.Join(errs...)
}
