package main

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

	"probity/api"
	"probity/coordinator"
	"probity/coordinator/callback"
	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/dns"
	"probity/engine/lists"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/prober"
	"probity/prober/doctor"
	"probity/prober/wire"
	"probity/prober/wire/press"
	"probity/store"
	"probity/store/cache"
)

// node is a coordinator and a prober in one process, connected by method calls; or a coordinator and a fleet of remote probers.
type node struct {
	startedAt   time.Time
	log         *slog.Logger
	warn        *slog.Logger
	activeTable atomic.Pointer[engine.Table] // table, or the one of the last reload
	rowRate     rateMeter
	table       *engine.Table
	lists       atomic.Pointer[lists.Set]
	store       *store.Store
	cache       *cache.Cache
	resolver    *dns.Resolver
	prober      *prober.Prober // nil with a fleet
	audit       *doctor.Doctor // nil if there is nothing to audit
	fleet       *remoteProbers // nil with a prober
	coordinator *coordinator.Coordinator
	singleLoad  press.Meter // of single calls, for all components of this process
}

// nodeConfig configures a node's files and its coordinator.
type nodeConfig struct {
	fs          vfs.FS
	dir         string // state, cache and jobs live below it
	log         *slog.Logger
	warn        *slog.Logger          // for warnings to the user who waits; nil is log
	metrics     prometheus.Registerer // nil for none
	lists       nodeflags.ListChanges
	resultForm  results.Form
	retain      retainFlags
	retainCache period
	members     *memberFlags // the cluster to coordinate; nil to probe in this process
	service     bool         // with accounts: jobs are settled and called back, and suppressions are kept
}

// localInFlightRows is how many rows are in flight with the prober of this process. A fleet has more: its rows travel longer and use more
// processors.
const localInFlightRows = 32 << 10

// openNode opens the stores and connects the components. It starts nothing.
func openNode(f *nodeflags.Probing, cfg nodeConfig) (n *node, err error) {
	n = &node{startedAt: time.Now(), log: cfg.log, warn: cmp.Or(cfg.warn, cfg.log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	if n.table, err = f.Table(); err != nil {
		return n, err
	}
	n.activeTable.Store(n.table)
	known, err := cfg.lists.LoadLists()
	if err != nil {
		return n, err
	}
	n.lists.Store(known)
	if n.store, err = store.Open(cfg.fs, filepath.Join(cfg.dir, "state")); err != nil {
		if errors.Is(err, syscall.EAGAIN) {
			err = fmt.Errorf("another probity is at work in %s: wait for it, stop it, or name another folder: %w", cfg.dir, err)
		}
		return n, err
	}
	if n.resolver, err = f.Resolver(n.table); err != nil {
		return n, err
	}
	asked, err := n.openProber(f, cfg)
	if err != nil {
		return n, err
	}
	c := coordinator.Config{Store: n.store, FS: cfg.fs, Dir: cfg.dir, Resolver: n.resolver, Prober: asked,
		Table: n.table, Lists: known, Log: cfg.log, Stored: cfg.resultForm, SingleLoad: &n.singleLoad,
		RetainResults: time.Duration(cfg.retain.RetainResults), RetainHistory: time.Duration(cfg.retain.RetainHistory)}
	if n.prober != nil {
		c.MaxRecentRows = localInFlightRows
	}
	if cfg.service {
		c.OnFinish, c.TestVerdict, c.Suppress = jobEndParts, api.SimulateVerdict, n.isSuppressed
	}
	n.coordinator = coordinator.New(c)
	return n, nil
}

// openProber opens a prober with its cache in this process, or a fleet of remote ones.
func (n *node) openProber(f *nodeflags.Probing, cfg nodeConfig) (asked wire.Prober, err error) {
	if cfg.members != nil {
		n.fleet, err = cfg.members.newFleet(n, cfg)
		return n.fleet, err
	}
	c := cache.Config{FS: cfg.fs, Dir: filepath.Join(cfg.dir, "cache"), Log: cfg.log, MaxLife: time.Duration(cfg.retainCache)}
	if n.cache, err = cache.Open(c); err != nil {
		return nil, err
	}
	if cfg.service {
		if n.audit, err = newSelfAudit(f, n.table, cfg.dir, cfg.log, cfg.metrics); err != nil {
			return nil, err
		}
	}
	p, err := f.ProberConfig(n.table, cfg.log)
	if err != nil {
		return nil, err
	}
	p.Node, p.Resolver, p.Cache, p.Log, p.Metrics, p.SingleLoad = console.HostName(), n.resolver, n.cache, cfg.log, cfg.metrics, &n.singleLoad
	p.Suppressed, p.SuppressedAddress = n.suppressedDomain, n.suppressedAddress
	n.prober, err = prober.New(p)
	return n.prober, err
}

// jobEndParts returns the parts that are committed with the end of a job: its settlement and its callback.
func jobEndParts(j *store.Job) []store.Part {
	return []store.Part{store.SettleJob(j.Account, j.ID, j.Charged, j.FinishedAt), callback.Schedule(j)}
}

// isSuppressed reports addresses and domains on the suppression list. The prober checks MX names.
func (n *node) isSuppressed(a engine.Address) bool {
	return n.suppressedAddress(a) || n.suppressedDomain(a.Domain(), nil)
}

// suppressedDomain reports a domain, or the hosts of one, on the suppression list.
func (n *node) suppressedDomain(domain string, hosts []string) bool {
	_, is := n.store.SuppressedDomain(domain, hosts)
	return is
}

// suppressedAddress reports an address on the suppression list.
func (n *node) suppressedAddress(a engine.Address) bool {
	_, is := n.store.SuppressedAddress(a.Folded())
	return is
}

// Run runs the components until ctx ends or one of them fails: the coordinator ends first, then the prober or the fleet, then the
// resolver.
func (n *node) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resolverCtx, stopResolver := context.WithCancel(context.WithoutCancel(ctx))
	proberCtx, stopProber := context.WithCancel(context.WithoutCancel(ctx))
	var components sync.WaitGroup
	var errs [5]error
	if n.audit != nil {
		components.Go(func() { errs[4] = n.audit.Run(resolverCtx) })
	}
	components.Go(func() { errs[0] = n.resolver.Run(resolverCtx); stop() })
	components.Go(func() { logResolverHealth(resolverCtx, n.resolver, n.warn) })
	if n.fleet != nil {
		n.fleet.closeSockets = nil // from here on Run closes the sockets
		components.Go(func() { errs[1] = n.fleet.Run(proberCtx); stop() })
		components.Go(func() { errs[3] = n.fleet.cluster.Run(proberCtx); stop() })
	} else {
		components.Go(func() { errs[1] = n.prober.Run(proberCtx); stop() })
	}
	errs[2] = n.coordinator.Run(ctx)
	stopProber()
	stopResolver()
	components.Wait()
	return errors.Join(errs[:]...)
}

// Close closes what openNode opened. Run must have returned.
func (n *node) Close() error {
	var errs []error
	if n.fleet != nil && n.fleet.closeSockets != nil {
		errs = append(errs, n.fleet.closeSockets())
	}
	if n.cache != nil {
		errs = append(errs, n.cache.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}
