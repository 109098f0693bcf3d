package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"probity/prober/wire/timing"
)

// ErrNoProber is returned for a single that must be asked while no prober is there to ask it.
var ErrNoProber = errors.New("no prober is there to ask")

// RuleSuppressed is the rule of a verdict on an address that is not asked because its owner wants so.
const RuleSuppressed = "coordinator/suppressed"

// The times of a fleet.
const (
	absentWait    = 5 * time.Second   // before rows whose owner cannot be used go out again
	handover      = timing.Handover   // a narrow route rests so long when its owner changes: the former one closes its connections meanwhile
	startDelay    = timing.StartDelay // after a start: the former owner of a narrow route may not be attached to yet
	retryInterval = 250 * time.Millisecond
)

// Config is what a Fleet is made of. All but Suppressed, SuppressedAddress, Log and Metrics are needed.
type Config struct {
	Cluster     *cluster.Cluster
	Coordinator wire.Coordinator // what we are to the nodes
	Version     string
	Table       func() *engine.Table
	Dial        func(ctx context.Context, address string) (net.Conn, error)
	Credentials func(node string) credentials.TransportCredentials
	// Suppressed reports a domain or one of its MX hosts whose owner asked never to be probed. Default: no owner did.
	Suppressed func(domain string, hosts []string) bool
	// SuppressedAddress is the same of one address. Default: no owner did.
	SuppressedAddress func(engine.Address) bool
	// Disk and Dir say where the list of nodes that have a share is kept. Default: nowhere.
	Disk    vfs.FS
	Dir     string
	Log     *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
}

// Fleet is the nodes of a cluster as one prober. Each row goes to the identity that owns its key: a narrow route has one, a
// wide provider is spread over all, and so are the domains of a provider with tenants. A row that cannot be sent to its owner now is
// Later.
//
//  1. The rows of a narrow key, a route or a domain of a provider with tenants, are at one node at a time. When its owner
//     changes, what is under way is returned, and the key waits until its former owner has closed its connections, and the
//     minute is over of which that may have used the budget.
//  2. The owner of a key is read from one immutable membership; nothing is asked under a lock.
//  3. A source that a wide provider wants no more of has no share of it until its node says otherwise (quarantines.go).
//  4. A narrow route's hour moves with it: its owner is told what others have used (usage.go).
//  5. All nodes are told to forget an address; the Eraser keeps those that were not reached, and asks again (forget.go).
//  6. The nodes with a share are on disk: a coordinator that starts again waits for each of them as for any node that is missing.
//  7. A node that goes gives its rows back at once; each row of a batch has exactly one result.
type Fleet struct {
	cfg        Config
	membership atomic.Pointer[membership]
	remembered []rememberedNode // as on disk: Run's own
	usage      clusterUsage

	mu            sync.Mutex // guards what follows
	members       map[string]*member
	started       time.Time                    // when Run did; zero before
	startDelayEnd time.Time                    // until then narrow routes wait
	loggedAbsent  []string                     // the nodes that the log says are waited for
	parts         map[*part]context.CancelFunc // under way: bounded by the flights of the desk and the identities
}

// member is a node and our stream to it.
type member struct {
	name     string
	listen   atomic.Pointer[string]
	client   *wire.Client
	lastWork atomic.Int64 // when it was last sent rows or heard of them, in nanoseconds since 1970
	used     atomic.Bool  // it was given a row or a single to ask, by this process
	fresh    atomic.Bool  // it had asked no receiver when it was last attached
	stop     context.CancelFunc
}

// neverAsked reports a node that has asked no receiver, for this process or another.
func (m *member) neverAsked() bool { return m.fresh.Load() && !m.used.Load() }

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
	f := &Fleet{cfg: cfg, members: map[string]*member{}, parts: map[*part]context.CancelFunc{}}
	f.membership.Store(newMembership(&cluster.View{}, nil, nil, time.Time{}))
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(newFleetMetrics(f)); err != nil {
			return nil, fmt.Errorf("fleet metrics: %w", err)
		}
	}
	return f, nil
}

// Run follows the cluster and keeps a stream to each of its nodes until ctx ends. The cluster's own Run is its owner's.
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
		f.saveNodes(view) // before any work is given: a process that finds no nodes remembered makes no route wait
		f.publish(view, time.Now())
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// updateMembers begins streams to nodes that came, and ends those to nodes that are forgotten.
func (f *Fleet) updateMembers(ctx context.Context, view *cluster.View, streams *sync.WaitGroup) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range view.Nodes {
		n := &view.Nodes[i]
		m := f.members[n.Name]
		at := streamAddress(n)
		switch {
		case at == "":
		case m != nil:
			m.listen.Store(&at)
		default:
			if err := f.addMember(ctx, n, at, streams); err != nil {
				return err
			}
		}
	}
	for name, m := range f.members {
		if _, found := view.Node(name); !found {
			m.stop()
			delete(f.members, name)
		}
	}
	return nil
}

// addMember begins the stream to a node. The mutex is held.
func (f *Fleet) addMember(ctx context.Context, n *cluster.Node, at string, streams *sync.WaitGroup) (err error) {
	m := &member{name: n.Name}
	m.listen.Store(&at)
	if f.isRemembered(n.Name) {
		m.lastWork.Store(time.Now().UnixNano()) // until now, for the process before this one
	}
	m.client, err = wire.NewClient(wire.ClientConfig{Node: n.Name, Version: f.cfg.Version, Coordinator: f.cfg.Coordinator, Table: f.cfg.Table,
		Dial:        func(ctx context.Context) (net.Conn, error) { return f.cfg.Dial(ctx, *m.listen.Load()) },
		Credentials: f.cfg.Credentials(n.Name), Log: f.cfg.Log,
		Changed: func(s wire.State) {
			m.fresh.Store(s.Hello.Fresh)
			f.cfg.Cluster.Stream(m.name, streamState(s))
		}})
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	ctx, m.stop = context.WithCancel(ctx)
	f.members[n.Name] = m
	streams.Go(func() {
		if err := m.client.Run(ctx); err != nil {
			f.cfg.Log.Error("a node has no stream any more", "node", m.name, "error", err)
		}
	})
	return nil
}

// streamAddress is where a node's stream is taken. A node that listens on all its addresses is reached where its gossip is.
func streamAddress(n *cluster.Node) string {
	at, err := netip.ParseAddrPort(n.Listen)
	if err != nil || !at.Addr().IsUnspecified() {
		return n.Listen
	}
	host, _, err := net.SplitHostPort(n.Gossip)
	if err != nil {
		return "" // it is not in the gossip now: what is known of it holds
	}
	return net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
}

// streamState tells the cluster what a stream says.
func streamState(s wire.State) cluster.Stream {
	out := cluster.Stream{Live: s.Live, Usable: s.Usable, Draining: s.Draining, Version: s.Hello.Version, Problem: s.Problem}
	for _, id := range s.Hello.Identities {
		out.Identities = append(out.Identities, cluster.Identity{Name: id.Name, Local: id.Local, Public: id.Public, EHLO: id.EHLO})
	}
	return out
}

// TableChanged tells that Table gives another one now: each node takes it between two batches.
func (f *Fleet) TableChanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.client.TableChanged()
	}
}

// publish makes the membership of a view the present one, and takes back what has another owner now.
func (f *Fleet) publish(view *cluster.View, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.membership.Load()
	next := newMembership(view, f.members, old, now)
	next.startDelayEnd = f.startDelayEnd
	f.membership.Store(next)
	close(old.replaced)
	f.logWaits(old, next, now)
	if slices.Equal(old.set.All(), next.set.All()) {
		return
	}
	f.cfg.Log.Info("the cluster's identities changed", "identities", next.set.Len(), "usable", len(next.usable.All()))
	for p, cancel := range f.parts {
		if p.ownerChanged(next) {
			cancel()
		}
	}
}
