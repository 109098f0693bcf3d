package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"

	"probity/coordinator/cluster"
	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/stream"
	"probity/prober/wire/timing"
)

// ErrNoProber is returned for a single call that needs SMTP while no prober is available.
var ErrNoProber = errors.New("no prober is connected")

// RuleSuppressed is the rule of a verdict on an address that is not probed because it is on the suppression list.
const RuleSuppressed = "coordinator/suppressed"

const (
	absentWait = 5 * time.Second // before rows whose owner is not usable are sent again
	// pause of a narrow route when its owner changes: the former one closes its connections meanwhile
	handover = timing.Handover
	// pause of narrow routes after a start: their former owner may not be attached yet
	startDelay    = timing.StartDelay
	retryInterval = 250 * time.Millisecond
)

// Config configures a Fleet. Cluster, Coordinator, Table, Dial and Credentials are required.
type Config struct {
	Cluster     *cluster.Cluster
	Coordinator wire.Coordinator // how we introduce ourselves to the nodes
	Version     string
	Table       func() *engine.Table
	Dial        func(ctx context.Context, address string) (net.Conn, error)
	Credentials func(node string) credentials.TransportCredentials
	// Suppressed reports that a domain or one of its MX hosts is on the suppression list. Default: none is.
	Suppressed func(domain string, hosts []string) bool
	// SuppressedAddress reports the same of one address. Default: none is.
	SuppressedAddress func(engine.Address) bool
	// Disk and Dir say where the nodes that have a share are stored. Default: nowhere.
	Disk    vfs.FS
	Dir     string
	Log     *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
}

// Fleet presents the nodes of a cluster as one prober. Each row goes to the identity that owns its key: a narrow route
// has one, a wide provider is spread over all, and so are the domains of a provider with tenants. A row whose owner
// cannot take it now is returned.
type Fleet struct {
	cfg        Config
	membership atomic.Pointer[membership]
	remembered []rememberedNode // as on disk; owned by Run
	usage      clusterUsage

	mu            sync.Mutex // guards what follows
	members       map[string]*member
	started       time.Time // when Run started; zero before
	startDelayEnd time.Time // until then narrow routes wait
	loggedAbsent  []string  // absent nodes, as last logged
	// in flight: bounded by the scheduler's dispatched chunks and the identities
	parts map[*part]context.CancelFunc
}

// member is a node and our stream to it.
type member struct {
	name     string
	listen   atomic.Pointer[string]
	client   *stream.Client
	lastWork atomic.Int64 // when rows were last sent to it or results received from it, in nanoseconds since 1970
	used     atomic.Bool  // this process has sent it a row or a single call
	fresh    atomic.Bool  // it had contacted no receiver when it was last attached
	stop     context.CancelFunc
}

var _ wire.Prober = (*Fleet)(nil)

// New makes a Fleet. It starts nothing.
func New(cfg Config) (*Fleet, error) {
	if cfg.Cluster == nil || cfg.Coordinator.ID == "" || cfg.Table == nil || cfg.Dial == nil || cfg.Credentials == nil {
		return nil, errors.New("fleet: Cluster, Coordinator, Table, Dial and Credentials are needed")
	}
	if cfg.Suppressed == nil {
		cfg.Suppressed = func(string, []string) bool { return false }
	}
	if cfg.SuppressedAddress == nil {
		cfg.SuppressedAddress = func(engine.Address) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{cfg: cfg, members: map[string]*member{}, parts: map[*part]context.CancelFunc{},
		usage: clusterUsage{routes: routeUsage{}}}
	f.membership.Store(newMembership(&cluster.View{}, nil, nil, time.Time{}))
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(newFleetMetrics(f)); err != nil {
			return nil, fmt.Errorf("fleet metrics: %w", err)
		}
	}
	return f, nil
}

// Run follows the cluster and keeps a stream to each of its nodes until ctx ends. The caller runs the Cluster itself.
func (f *Fleet) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var streams sync.WaitGroup
	defer streams.Wait()
	defer stop()
	streams.Go(func() { f.followStatuses(ctx) })
	remembered := f.restoreNodes(time.Now())
	f.mu.Lock()
	f.started = time.Now()
	if remembered {
		f.startDelayEnd = f.started.Add(startDelay)
	}
	f.mu.Unlock()
	for {
		view, changed := f.cfg.Cluster.Changed()
		if err := f.updateMembers(ctx, view, &streams); err != nil {
			return err
		}
		// Before any work is sent: a process that finds no remembered nodes makes no route wait.
		if nodes := nodesWithShare(view); f.cfg.Disk != nil &&
			!slices.EqualFunc(nodes, f.remembered, rememberedNode.equal) {
			if err := writeNodes(f.cfg.Disk, f.cfg.Dir, nodes); err != nil {
				f.cfg.Log.Error("membership not saved; next attempt at the next change", "error", err)
			} else {
				f.remembered = nodes
			}
		}
		f.publish(view, time.Now())
		var join <-chan time.Time
		if at := f.membership.Load().joinsAt; !at.IsZero() {
			join = time.After(time.Until(at))
		}
		select {
		case <-changed:
		case <-join:
		case <-ctx.Done():
			return nil
		}
	}
}

// updateMembers starts streams to new nodes, and ends those to nodes that are forgotten.
func (f *Fleet) updateMembers(ctx context.Context, view *cluster.View, streams *sync.WaitGroup) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range view.Nodes {
		n := &view.Nodes[i]
		at := streamAddress(n)
		if at == "" {
			continue
		}
		if m := f.members[n.Name]; m != nil {
			m.listen.Store(&at)
			continue
		}
		m := &member{name: n.Name}
		m.listen.Store(&at)
		if slices.ContainsFunc(f.remembered, func(r rememberedNode) bool { return r.Name == n.Name }) {
			m.lastWork.Store(time.Now().UnixNano()) // it may have worked until now for the process before this one
		}
		var err error
		m.client, err = stream.NewClient(stream.ClientConfig{Node: n.Name, Version: f.cfg.Version,
			Coordinator: f.cfg.Coordinator, Table: f.cfg.Table,
			Dial:        func(ctx context.Context) (net.Conn, error) { return f.cfg.Dial(ctx, *m.listen.Load()) },
			Credentials: f.cfg.Credentials(n.Name), Log: f.cfg.Log,
			Changed: func(s stream.State) {
				m.fresh.Store(s.Hello.Fresh)
				next := cluster.Stream{Live: s.Live, Usable: s.Usable, Draining: s.Draining, Version: s.Hello.Version,
					Problem: s.Problem}
				for _, id := range s.Hello.Identities {
					next.Identities = append(next.Identities, cluster.Identity(id))
				}
				f.cfg.Cluster.Stream(m.name, next)
			}})
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		ctx, stop := context.WithCancel(ctx)
		m.stop, f.members[n.Name] = stop, m
		streams.Go(func() {
			if err := m.client.Run(ctx); err != nil {
				f.cfg.Log.Error("a node has no stream any more", "node", m.name, "error", err)
			}
		})
	}
	for name, m := range f.members {
		if _, found := view.Node(name); !found {
			m.stop()
			delete(f.members, name)
		}
	}
	return nil
}

// streamAddress returns where a node accepts its stream. A node that listens on all its addresses is reached at that of
// its gossip.
func streamAddress(n *cluster.Node) string {
	at, err := netip.ParseAddrPort(n.Listen)
	if err != nil || !at.Addr().IsUnspecified() {
		return n.Listen
	}
	host, _, err := net.SplitHostPort(n.Gossip)
	if err != nil {
		return "" // it is not in the gossip now: the address known before stays
	}
	return net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
}

// TableChanged announces that Table returns another one now: each node takes it between two batches.
func (f *Fleet) TableChanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.client.TableChanged()
	}
}

// publish makes the membership of a view the current one, and cancels parts whose keys have another owner now.
func (f *Fleet) publish(view *cluster.View, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.membership.Load()
	next := newMembership(view, f.members, old, now)
	next.delayNarrow(f.startDelayEnd)
	f.membership.Store(next)
	close(old.replaced)
	// Jobs may stand still for a minute for a good reason: the log tells it once.
	nodes, until := next.absentOwners()
	if !slices.Equal(nodes, f.loggedAbsent) {
		f.loggedAbsent = nodes
		if len(nodes) > 0 {
			f.cfg.Log.Info("jobs wait for absent nodes", "nodes", nodes, "until", until)
		} else {
			f.cfg.Log.Info("jobs no longer wait for absent nodes")
		}
	}
	if n := len(next.formerSets); n > 0 && next.formerSets[n-1].set == old.set {
		former := &next.formerSets[n-1]
		until := former.closedAt
		if slices.Contains(slices.Collect(maps.Values(former.recentlyUsed)), true) {
			until = until.Add(time.Minute - handover) // then other sources may take every route of the set
		}
		f.cfg.Log.Info("routes with a new owner paused", "until", until)
	}
	if slices.Equal(old.set.All(), next.set.All()) {
		return
	}
	f.cfg.Log.Info("the cluster's identities changed", "identities", next.set.Len(), "usable", len(next.usable.All()))
	for p, cancel := range f.parts {
		if p.ownerChanged(next) {
			cancel()
		}
	}
	// a node may have more of a key than its batches: decoys for rows that it has returned
	for _, m := range f.members {
		m.client.KeysMoved()
	}
}
