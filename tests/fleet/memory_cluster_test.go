package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/coordinator"
	"probity/coordinator/cluster"
	"probity/coordinator/erase"
	"probity/coordinator/fleet"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/dns"
	"probity/engine/lists"
	"probity/internal/admin"
	"probity/internal/app"
	"probity/internal/memnet"
	"probity/internal/spans"
	"probity/prober"
	"probity/prober/source"
	"probity/prober/wire"
	"probity/prober/wire/stream"
	"probity/store"
	"probity/store/cache"
	"probity/tests/harness"
)

// memCluster is a coordinator, probers and the simulated internet in one bubble: everything is real but sockets, files
// and the clock.
type memCluster struct {
	t        *testing.T
	network  *memnet.Network
	lan      *lan
	internet *sim.Server
	table    *engine.Table
	coord    *memCoordinator
	log      *logBuffer

	newTracer func(node string) *spans.Tracer // nil: no spans are recorded
}

// tracer is the tracer of a node, which runs with r; nil if none records spans.
func (f *memCluster) tracer(r *runGroup, node string) *spans.Tracer {
	if f.newTracer == nil {
		return nil
	}
	t := f.newTracer(node)
	r.runBackend("tracer", func(ctx context.Context) error { t.Run(ctx); return nil })
	return t
}

// logBuffer keeps warnings and errors of the log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger(who string) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn})).With("at", who)
}

const fleetSeed = 12

func newMemCluster(ctx context.Context, t *testing.T, speedup float64, latency string) *memCluster {
	f := &memCluster{t: t, network: memnet.New(), log: &logBuffer{}}
	f.lan = newLAN(f.network)
	var err error
	f.internet, err = sim.Start(ctx, world.Config{Seed: fleetSeed, Speedup: speedup, Latency: latency, SMTPPort: 25,
		DNS: netip.MustParseAddrPort("127.0.0.1:53")}, f.network)
	require.NoError(t, err)
	var overrides bytes.Buffer
	require.NoError(t, sim.WriteProviders(&overrides, speedup))
	f.table, err = engine.DefaultTable().Override(overrides.Bytes())
	require.NoError(t, err)
	return f
}

func (f *memCluster) resolver(table *engine.Table) *dns.Resolver {
	r, err := dns.New(dns.Config{Servers: []netip.AddrPort{f.internet.DNS}, Dial: f.network.Dial,
		ListenPacket: func(context.Context, string, string) (net.PacketConn, error) {
			return f.network.ListenPacket(netip.MustParseAddrPort("127.0.0.1:0"))
		}}, table)
	require.NoError(f.t, err)
	return r
}

// memCoordinator is the coordinator.
type memCoordinator struct {
	disk        vfs.FS
	term        uint64
	store       *store.Store
	coordinator *coordinator.Coordinator
	fleet       *fleet.Fleet
	resolver    *dns.Resolver
	table       atomic.Pointer[engine.Table]
	tracer      *spans.Tracer
	eraser      *erase.Eraser
	stop        func()
}

// reloadTable is a reload of the coordinator.
func (h *memCoordinator) reloadTable(t *engine.Table) {
	h.table.Store(t)
	h.resolver.SetTable(t)
	h.coordinator.SetTable(t)
	h.fleet.TableChanged()
}

const coordinatorIP = "10.9.0.1"

// startCoordinator runs a coordinator at an address; all members join the first one.
func (f *memCluster) startCoordinator(ip, id string) *memCoordinator {
	return f.restartCoordinator(ip, id, &memCoordinator{disk: vfs.NewMem()})
}

// restartCoordinator restarts a coordinator on the same disk.
func (f *memCluster) restartCoordinator(ip, id string, was *memCoordinator) *memCoordinator {
	run := newRunGroup(f.t)
	h := &memCoordinator{disk: was.disk, term: was.term + 1, tracer: f.tracer(run, "hub")}
	fs := h.disk
	h.table.Store(f.table)
	known, err := lists.Default()
	require.NoError(f.t, err)
	h.store, err = store.Open(fs, "hub/state")
	require.NoError(f.t, err)
	gossip := f.gossip(cluster.RoleCoordinator, "hub-"+ip, ip, "")
	h.fleet, err = fleet.New(fleet.Config{Cluster: gossip, Coordinator: wire.Coordinator{ID: id, Term: h.term},
		Version: "1",
		Table:   h.table.Load, Dial: f.lan.dial, Log: f.log.logger("hub"), Disk: fs, Dir: "hub",
		Credentials: func(string) credentials.TransportCredentials { return insecure.NewCredentials() }})
	require.NoError(f.t, err)
	h.resolver = f.resolver(f.table)
	h.coordinator = coordinator.New(coordinator.Config{Store: h.store, FS: fs, Dir: "hub", Resolver: h.resolver,
		Prober: h.fleet, Table: f.table, Lists: known,
		Log: f.log.logger("hub"), Tracer: h.tracer})
	h.eraser = admin.NewEraser(h.store, h.coordinator, nil, nil, h.fleet, f.log.logger("hub"))
	run.runBackend("gossip", gossip.Run)
	run.runBackend("fleet", h.fleet.Run)
	run.runBackend("resolver", h.resolver.Run)
	run.runFrontend("coordinator", h.coordinator.Run)
	run.runFrontend("eraser", h.eraser.Run)
	h.stop = func() {
		run.stop()
		require.NoError(f.t, h.store.Close())
	}
	return h
}

func (f *memCluster) gossip(role cluster.Role, name, ip, listen string) *cluster.Cluster {
	c, err := cluster.New(cluster.Config{Name: name, Role: role, Listen: listen, Version: "1",
		Transport: f.lan.host(ip), Label: "lab",
		Keys: [][]byte{[]byte("0123456789abcdef")}, Seeds: []string{fmt.Sprintf("%s:%d", coordinatorIP, gossipPort)},
		Log: f.log.logger(name)})
	require.NoError(f.t, err)
	return c
}

// memProber is a prober node.
type memProber struct {
	cluster  *memCluster
	name     string
	ip       string
	ids      []source.Identity
	ownTable *engine.Table // used until the coordinator sends its own
	cache    *cache.Cache
	disk     vfs.FS
	stop     func()

	mu          sync.Mutex         // guards what follows
	lastProbeAt time.Time          // when it last dialled or sent a recipient
	dials       map[netip.Addr]int // connections to mail servers, by source
	sentTable   *engine.Table      // sent last by the coordinator; nil for none
}

func (f *memCluster) newProber(n, identities int) *memProber {
	s := &memProber{cluster: f, name: fmt.Sprintf("p%d", n), ip: fmt.Sprintf("10.9.0.%d", 10+n), disk: vfs.NewMem(),
		ownTable: f.table}
	for i := range identities {
		s.ids = append(s.ids, source.Identity{Local: netip.AddrFrom4([4]byte{10, 8, byte(n), byte(i + 1)}),
			EHLO: fmt.Sprintf("mx%d-%d.prober.example", n, i)})
	}
	return s
}

// start runs the node until stop. Its disk stays.
func (s *memProber) start() {
	f := s.cluster
	var err error
	s.cache, err = cache.Open(cache.Config{FS: s.disk, Dir: "cache", FilterBytes: 1 << 16})
	require.NoError(f.t, err)
	resolver, own := f.resolver(s.ownTable), s.ownTable
	p, err := prober.New(prober.Config{Node: s.name, Table: own, Resolver: resolver, Cache: s.cache, AllowPrivate: true,
		MailFrom: "probe@prober.example",
		Sources:  s.ids, Dial: s.dial, Log: f.log.logger(s.name)})
	require.NoError(f.t, err)
	run := newRunGroup(f.t)
	server, err := stream.NewServer(stream.ServerConfig{Node: s.name, Version: "1", Identities: app.IdentitiesOf(p),
		Table: own, Tracer: f.tracer(run, s.name),
		UseTable: func(t *engine.Table) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sentTable = t
			resolver.SetTable(t)
			p.SetTable(t)
			return nil
		}, Prober: p, Credentials: insecure.NewCredentials(), Window: p.Window, Fresh: p.Fresh,
		SetIsolated: p.SetIsolated,
		KeysMoved:   p.KeysMoved, Status: p.Status, Forget: p.Forget, Log: f.log.logger(s.name)})
	require.NoError(f.t, err)
	at := s.ip + ":7947"
	listener, err := f.network.Listen(netip.MustParseAddrPort(at))
	require.NoError(f.t, err)
	run.runBackend("prober", p.Run)
	run.runBackend("resolver", resolver.Run)
	run.runFrontend("server", func(ctx context.Context) error { return server.Run(ctx, listener) })
	run.runFrontend("gossip", f.gossip(cluster.RoleProber, s.name, s.ip, at).Run)
	s.stop = func() {
		run.stop()
		require.NoError(f.t, s.cache.Close())
	}
}

// lastTable is the table that the coordinator sent last.
func (s *memProber) lastTable() *engine.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sentTable
}

// dial connects to mail servers, and records the time of probes.
func (s *memProber) dial(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	s.recordProbe()
	s.mu.Lock()
	if s.dials == nil {
		s.dials = map[netip.Addr]int{}
	}
	s.dials[local]++
	s.mu.Unlock()
	conn, err := s.cluster.network.DialFrom(local)(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &probeRecordingConn{conn, s}, nil
}

func (s *memProber) recordProbe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastProbeAt = time.Now()
}

func (s *memProber) lastProbe() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastProbeAt
}

// probeRecordingConn records the time of recipients.
type probeRecordingConn struct {
	net.Conn
	prober *memProber
}

func (c *probeRecordingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("RCPT TO:")) {
		c.prober.recordProbe()
	}
	return c.Conn.Write(b)
}

// runGroup runs components: the front end stops before the back end.
type runGroup struct {
	t                 *testing.T
	frontend, backend taskGroup
}

type taskGroup struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

func newRunGroup(t *testing.T) *runGroup {
	r := &runGroup{t: t}
	r.frontend.ctx, r.frontend.cancel = context.WithCancel(context.Background())
	r.backend.ctx, r.backend.cancel = context.WithCancel(context.Background())
	return r
}

func (r *runGroup) runFrontend(name string, run func(context.Context) error) {
	r.run(&r.frontend, name, run)
}
func (r *runGroup) runBackend(name string, run func(context.Context) error) {
	r.run(&r.backend, name, run)
}

func (r *runGroup) run(p *taskGroup, name string, run func(context.Context) error) {
	p.tasks.Go(func() {
		if err := run(p.ctx); err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
	})
}

func (r *runGroup) stop() {
	r.frontend.cancel()
	r.frontend.tasks.Wait()
	r.backend.cancel()
	r.backend.tasks.Wait()
}

// list makes a list of the simulated internet.
func (f *memCluster) list(rows int, keep func(email string) bool) []byte {
	var out bytes.Buffer
	require.NoError(f.t, world.WriteList(&out, f.internet.World, rows, fleetSeed))
	if keep == nil {
		return out.Bytes()
	}
	return keepRows(f.t, out.Bytes(), keep)
}

// accept starts a job.
func (h *memCoordinator) accept(ctx context.Context, t *testing.T, list []byte) string {
	job, err := h.coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list),
		Options: ingest.Options{MaxHours: ingest.MaxHours}})
	require.NoError(t, err)
	return job.ID
}

// waitResult waits for the end of a job, at most a day, and returns it with its result.
func (h *memCoordinator) waitResult(ctx context.Context, t *testing.T, id string) (*store.Job, []byte) {
	t.Helper()
	within, cancel := context.WithTimeout(ctx, 24*time.Hour)
	defer cancel()
	job, err := h.coordinator.Wait(within, id)
	if errors.Is(err, context.DeadlineExceeded) {
		why, whyErr := h.coordinator.Why(ctx, id)
		require.NoError(t, whyErr)
		require.Fail(t, "the job does not end", "%+v\n%+v", why, h.fleet.Report())
	}
	require.NoError(t, err)
	require.Equal(t, store.JobCompleted, job.State, job.Error)
	var result bytes.Buffer
	require.NoError(t, h.coordinator.Results(ctx, id, results.Filter{}, &result))
	return job, result.Bytes()
}

// requireOwners requires that every wide provider was probed from every source, and every narrow one from one.
func (f *memCluster) requireOwners(identities int, wide ...string) {
	f.t.Helper()
	for persona, sources := range harness.SourcesOf(f.internet.Referee.Report()) {
		p := f.table.Provider(persona)
		switch {
		case p == nil:
		case p.Kind == engine.KindWide && contains(wide, persona):
			require.Len(f.t, sources, identities, persona)
		case !p.Shared():
			require.Len(f.t, sources, 1, "a narrow route has one source: %s", persona)
		}
	}
}

func contains(all []string, s string) bool {
	return strings.Contains(" "+strings.Join(all, " ")+" ", " "+s+" ")
}
