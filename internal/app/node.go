package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"probity/api/reasons"
	"probity/coordinator"
	"probity/coordinator/callback"
	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/dns"
	"probity/engine/lists"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/spans"
	"probity/prober"
	"probity/prober/doctor"
	"probity/prober/wire/press"
	"probity/store"
	"probity/store/cache"
	"probity/store/deliveries"
	"probity/store/diskroom"
	"probity/store/feedback"
)

// Node is a coordinator and a prober in one process, connected by method calls; or a coordinator and a fleet of remote
// probers.
type Node struct {
	Store       *store.Store
	Cache       *cache.Cache // nil with a fleet
	Resolver    *dns.Resolver
	Prober      *prober.Prober // nil with a fleet
	Coordinator *coordinator.Coordinator
	Feedback    *feedback.Book // of a service
	Warn        *slog.Logger   // for warnings to the user who waits

	version     string
	startedAt   time.Time
	activeTable atomic.Pointer[engine.Table] // that of the flags, or of the last reload
	rowRate     rateMeter
	lists       atomic.Pointer[lists.Set]
	audit       *doctor.Doctor // nil if there is nothing to audit
	fleet       *remoteProbers // nil with a prober
	singleLoad  press.Meter    // of single calls, for all components of this process
}

// NodeConfig configures a node's files and its coordinator.
type NodeConfig struct {
	FS         vfs.FS
	Room       *diskroom.Room // on the disk of Dir; nil if writes may fail
	Dir        string         // state, cache and jobs live below it
	Version    string
	Log        *slog.Logger
	Warn       *slog.Logger // for warnings to the user who waits; nil is Log
	Lists      nodeflags.ListChanges
	ResultForm results.Form
	// makes Dir, once the flags are checked and before anything is in it; nil if there is nothing to make
	MakeDir func() error

	metrics     prometheus.Registerer // nil for none
	retain      RetainFlags
	retainCache Period
	members     *memberFlags // the cluster to coordinate; nil to probe in this process
	service     bool         // with accounts: jobs are settled and called back, and suppressions are kept

	tracer         *spans.Tracer // nil: no spans are recorded
	callbackSource string        // the flag --callback-source of a service
}

// localInFlightRows is how many rows are in flight with the prober of this process. A fleet has more: its rows travel
// longer and use more processors.
const localInFlightRows = 32 << 10

// OpenNode opens the stores and connects the components. It starts nothing.
func OpenNode(f *nodeflags.Probing, cfg NodeConfig) (n *Node, err error) {
	n = &Node{version: cfg.Version, startedAt: time.Now(), Warn: cmp.Or(cfg.Warn, cfg.Log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	table, err := f.Table()
	if err != nil {
		return n, err
	}
	n.activeTable.Store(table)
	known, err := cfg.Lists.LoadLists()
	if err != nil {
		return n, err
	}
	n.lists.Store(known)
	warnOfLists(n.Warn, known)
	n.Resolver, err = f.Resolver(table)
	if err != nil {
		return n, err
	}
	if cfg.MakeDir != nil {
		if err := cfg.MakeDir(); err != nil {
			return n, err
		}
	}
	state, files := cfg.FS, cfg.FS
	if cfg.Room != nil {
		cfg.Room.MakeBallast()
		state, files = cfg.Room.State(), cfg.Room.Files()
	}
	n.Store, err = store.Open(state, filepath.Join(cfg.Dir, "state"))
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return n, fmt.Errorf("another probity is at work in %s: wait for it, stop it, or name another folder: %w",
			cfg.Dir, err)
	case err != nil:
		return n, err
	}
	c := coordinator.Config{Store: n.Store, FS: files, Dir: cfg.Dir, Resolver: n.Resolver, Table: table, Lists: known,
		Log: cfg.Log, Tracer: cfg.tracer, Stored: cfg.ResultForm, SingleLoad: &n.singleLoad,
		RetainResults: time.Duration(cfg.retain.RetainResults), RetainHistory: time.Duration(cfg.retain.RetainHistory)}
	if cfg.members != nil {
		n.fleet, err = cfg.members.newFleet(n, cfg)
		c.Prober = n.fleet
	} else {
		err = n.openProber(f, table, cfg)
		c.Prober = n.Prober
		c.MaxRecentRows = localInFlightRows
	}
	if err != nil {
		return n, err
	}
	if cfg.service {
		n.Feedback, err = feedback.Open(n.Store)
		if err != nil {
			return n, fmt.Errorf("feedback: %w", err)
		}
		c.OnFinish, c.OnExpire, c.OnDelete = jobEndParts, deliveries.JobExpired, deliveries.JobDeleted
		c.TestVerdict = reasons.Simulate
		c.Suppress = n.isSuppressed
		c.Probability = n.Feedback.Probability
	}
	n.Coordinator = coordinator.New(c)
	return n, nil
}

// openProber opens the prober of this process with its cache and, in a service, the audit of its sources.
func (n *Node) openProber(f *nodeflags.Probing, table *engine.Table, cfg NodeConfig) (err error) {
	n.Cache, err = cache.Open(cache.Config{FS: cacheDisk(cfg.FS, cfg.Room), Dir: filepath.Join(cfg.Dir, "cache"),
		Log: cfg.Log, MaxLife: time.Duration(cfg.retainCache)})
	if err != nil {
		return err
	}
	if cfg.service {
		n.audit, err = newSelfAudit(f, table, nodeflags.AuditOptions{Folder: cfg.Dir, Log: cfg.Log,
			Metrics: cfg.metrics, Callbacks: true, CallbackSource: cfg.callbackSource})
		if err != nil {
			return err
		}
	}
	p, err := f.ProberConfig(table, cfg.Log)
	if err != nil {
		return err
	}
	p.Node = console.HostName()
	p.Resolver = n.Resolver
	p.Cache = n.Cache
	p.Log = cfg.Log
	p.Metrics = cfg.metrics
	p.SingleLoad = &n.singleLoad
	p.Suppressed = n.suppressedDomain
	p.SuppressedAddress = n.suppressedAddress
	n.Prober, err = prober.New(p)
	return err
}

// cacheDisk is the file system of a cache: that of the room on its disk, if there is one.
func cacheDisk(disk vfs.FS, room *diskroom.Room) vfs.FS {
	if room == nil {
		return disk
	}
	return room.Cache()
}

// jobEndParts returns the parts that are committed with the end of a job: its settlement, its callback and the delivery
// of its results.
func jobEndParts(j *store.Job) []store.Part {
	return []store.Part{store.SettleJob(j.Account, j.ID, j.Charged, j.FinishedAt), callback.Schedule(j),
		deliveries.JobEnded(j)}
}

// isSuppressed reports addresses and domains on the suppression list. The prober checks MX names.
func (n *Node) isSuppressed(a engine.Address) bool {
	return n.suppressedAddress(a) || n.suppressedDomain(a.Domain(), nil)
}

// suppressedDomain reports whether domain, or one of its hosts, is on the suppression list.
func (n *Node) suppressedDomain(domain string, hosts []string) bool {
	_, is := n.Store.SuppressedDomain(domain, hosts)
	return is
}

// suppressedAddress reports whether a is on the suppression list.
func (n *Node) suppressedAddress(a engine.Address) bool {
	_, is := n.Store.SuppressedAddress(a.Folded())
	return is
}

// Run runs the components until ctx ends or one of them fails: the coordinator ends first, then the prober or the
// fleet, then the resolver.
func (n *Node) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resolverCtx, stopResolver := context.WithCancel(context.WithoutCancel(ctx))
	proberCtx, stopProber := context.WithCancel(context.WithoutCancel(ctx))
	var components sync.WaitGroup
	// start runs a component whose end ends the others.
	start := func(failed *error, run func(context.Context) error, ctx context.Context) {
		components.Go(func() {
			*failed = run(ctx)
			stop()
		})
	}
	var resolver, probers, cluster, audit error // of their ends
	start(&resolver, n.Resolver.Run, resolverCtx)
	components.Go(func() { logResolverHealth(resolverCtx, n.Resolver, n.Warn) })
	if n.audit != nil {
		components.Go(func() { audit = n.audit.Run(resolverCtx) })
	}
	if n.fleet != nil {
		n.fleet.closeSockets = nil // from here on Run closes the sockets
		start(&probers, n.fleet.Run, proberCtx)
		start(&cluster, n.fleet.cluster.Run, proberCtx)
	} else {
		start(&probers, n.Prober.Run, proberCtx)
	}
	jobs := n.Coordinator.Run(ctx)
	stopProber()
	stopResolver()
	components.Wait()
	return errors.Join(resolver, probers, jobs, cluster, audit)
}

// RunWhile runs the node while do runs, then ends it. It returns the errors of both.
func (n *Node) RunWhile(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := n.Run(ctx)
		stop() // so that do does not wait for a node that is gone
		ended <- err
	}()
	err := do(ctx)
	stop()
	failed := <-ended
	if failed != nil && errors.Is(err, context.Canceled) {
		err = nil // the failure caused the cancellation
	}
	return errors.Join(err, failed)
}

// Close closes what OpenNode opened. Run must have returned.
func (n *Node) Close() error {
	var errs []error
	if n.fleet != nil && n.fleet.closeSockets != nil {
		errs = append(errs, n.fleet.closeSockets())
	}
	if n.Cache != nil {
		errs = append(errs, n.Cache.Close())
	}
	if n.Store != nil {
		errs = append(errs, n.Store.Close())
	}
	return errors.Join(errs...)
}
