package main

import (
	"bytes"
	"context"
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
	"probity/coordinator"
	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/engine/dns"
	"probity/engine/lists"
	"probity/internal/memnet"
	"probity/prober"
	"probity/prober/wire"
	"probity/store"
	"probity/store/cache"
)

// fleetLab is a coordinator, probers and the pretend internet in one bubble: everything takes part but sockets, files and
// the clock.
type fleetLab struct {
	t        *testing.T
	network  *memnet.Network
	lan      *lan
	internet *sim.Server
	table    *engine.Table
	hub      *hub
	log      *labLog
}

// labLog keeps what is logged from warnings on.
type labLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *labLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *labLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *labLog) logger(who string) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn})).With("at", who)
}

const fleetSeed = 12

func newFleetLab(t *testing.T, ctx context.Context, speedup float64, latency string) *fleetLab {
	f := &fleetLab{t: t, network: memnet.New(), log: &labLog{}}
	f.lan = newLAN(f.network)
	var err error
	f.internet, err = sim.Start(ctx, sim.Config{Seed: fleetSeed, Speedup: speedup, Latency: latency, SMTPPort: 25, DNS: netip.MustParseAddrPort("127.0.0.1:53")}, f.network)
	require.NoError(t, err)
	var overrides bytes.Buffer
	require.NoError(t, sim.WriteProviders(&overrides, speedup))
	f.table, err = engine.DefaultTable().Override(overrides.Bytes())
	require.NoError(t, err)
	return f
}

func (f *fleetLab) resolver(table *engine.Table) *dns.Resolver {
	r, err := dns.New(dns.Config{Servers: []netip.AddrPort{f.internet.DNS}, Dial: f.network.Dial,
		ListenPacket: func(context.Context, string, string) (net.PacketConn, error) {
			return f.network.ListenPacket(netip.MustParseAddrPort("127.0.0.1:0"))
		}}, table)
	require.NoError(f.t, err)
	return r
}

// hub is the coordinator.
type hub struct {
	disk        vfs.FS
	term        uint64
	store       *store.Store
	coordinator *coordinator.Coordinator
	fleet       *fleet.Fleet
	resolver    *dns.Resolver
	table       atomic.Pointer[engine.Table]
	eraser      *coordinator.Eraser
	stop        func()
}

// setTable is a reload of the coordinator.
func (h *hub) setTable(t *engine.Table) {
	h.table.Store(t)
	h.resolver.SetTable(t)
	h.coordinator.SetTable(t)
	h.fleet.TableChanged()
}

const hubIP = "10.9.0.1"

// startHub runs a coordinator at an address; everybody's seed is the first.
func (f *fleetLab) startHub(ip, id string) *hub { return f.resumeHub(ip, id, &hub{disk: vfs.NewMem()}) }

// resumeHub runs the next life of a coordinator, on the disk of the one before.
func (f *fleetLab) resumeHub(ip, id string, was *hub) *hub {
	h := &hub{disk: was.disk, term: was.term + 1}
	fs := h.disk
	h.table.Store(f.table)
	known, err := lists.Default()
	require.NoError(f.t, err)
	h.store, err = store.Open(fs, "hub/state")
	require.NoError(f.t, err)
	gossip := f.gossip(cluster.RoleCoordinator, "hub-"+ip, ip, "")
	h.fleet, err = fleet.New(fleet.Config{Cluster: gossip, Coordinator: wire.Coordinator{ID: id, Term: h.term}, Version: "1",
		Table: h.table.Load, Dial: f.lan.dial, Log: f.log.logger("hub"), Disk: fs, Dir: "hub",
		Credentials: func(string) credentials.TransportCredentials { return insecure.NewCredentials() }})
	require.NoError(f.t, err)
	h.resolver = f.resolver(f.table)
	h.coordinator = coordinator.New(coordinator.Config{Store: h.store, FS: fs, Dir: "hub", Resolver: h.resolver, Prober: h.fleet, Table: f.table, Lists: known,
		Log: f.log.logger("hub")})
	h.eraser = coordinator.NewEraser(coordinator.EraserConfig{Store: h.store, Jobs: h.coordinator, Caches: h.fleet, Answers: keptAnswers(h.store), Log: f.log.logger("hub")})
	run := newRunning(f.t)
	run.last("gossip", gossip.Run)
	run.last("fleet", h.fleet.Run)
	run.last("resolver", h.resolver.Run)
	run.first("coordinator", h.coordinator.Run)
	run.first("eraser", h.eraser.Run)
	h.stop = func() {
		run.stop()
		require.NoError(f.t, h.store.Close())
	}
	return h
}

func (f *fleetLab) gossip(role cluster.Role, name, ip, listen string) *cluster.Cluster {
	c, err := cluster.New(cluster.Config{Name: name, Role: role, Listen: listen, Version: "1", Transport: f.lan.host(ip), Label: "lab",
		Keys: [][]byte{[]byte("0123456789abcdef")}, Seeds: []string{fmt.Sprintf("%s:%d", hubIP, gossipPort)}, Log: f.log.logger(name)})
	require.NoError(f.t, err)
	return c
}

// spoke is a prober node.
type spoke struct {
	f     *fleetLab
	name  string
	ip    string
	ids   []prober.Identity
	own   *engine.Table // what it works by until the coordinator sends its own
	cache *cache.Cache
	disk  vfs.FS
	stop  func()

	mu     sync.Mutex         // guards what follows
	probed time.Time          // when it last dialled or named a recipient
	dials  map[netip.Addr]int // connections to mail servers, by source
	used   *engine.Table      // what the coordinator sent last; nil for nothing
}

func (f *fleetLab) newSpoke(n, identities int) *spoke {
	s := &spoke{f: f, name: fmt.Sprintf("p%d", n), ip: fmt.Sprintf("10.9.0.%d", 10+n), disk: vfs.NewMem(), own: f.table}
	for i := range identities {
		s.ids = append(s.ids, prober.Identity{Local: netip.AddrFrom4([4]byte{10, 8, byte(n), byte(i + 1)}), EHLO: fmt.Sprintf("mx%d-%d.prober.example", n, i)})
	}
	return s
}

// start runs the node until stop. What its disk has outlasts that.
func (s *spoke) start() {
	f := s.f
	var err error
	s.cache, err = cache.Open(cache.Config{FS: s.disk, Dir: "cache", Sieve: 1 << 16})
	require.NoError(f.t, err)
	resolver, own := f.resolver(s.own), s.own
	p, err := prober.New(prober.Config{Node: s.name, Table: own, Resolver: resolver, Cache: s.cache, AllowPrivate: true, MailFrom: "probe@prober.example",
		Identities: s.ids, Dial: s.dial, Log: f.log.logger(s.name)})
	require.NoError(f.t, err)
	server, err := wire.NewServer(wire.ServerConfig{Node: s.name, Version: "1", Identities: identitiesOf(p), Table: func() *engine.Table { return own },
		Use: func(t *engine.Table) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.used = t
			resolver.SetTable(t)
			p.SetTable(t)
			return nil
		}, Prober: p, Credentials: insecure.NewCredentials(), Window: p.Window, Fresh: p.Fresh, Alone: p.SetAlone, Status: p.Status, Forget: p.Forget, Log: f.log.logger(s.name)})
	require.NoError(f.t, err)
	at := s.ip + ":7947"
	listener, err := f.network.Listen(netip.MustParseAddrPort(at))
	require.NoError(f.t, err)
	run := newRunning(f.t)
	run.last("prober", p.Run)
	run.last("resolver", resolver.Run)
	run.first("server", func(ctx context.Context) error { return server.Run(ctx, listener) })
	run.first("gossip", f.gossip(cluster.RoleProber, s.name, s.ip, at).Run)
	s.stop = func() {
		run.stop()
		require.NoError(f.t, s.cache.Close())
	}
}

// usedLast is the table that the coordinator sent last.
func (s *spoke) usedLast() *engine.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// dial is the node's way to mail servers; it notes when something is asked.
func (s *spoke) dial(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	s.note()
	s.mu.Lock()
	if s.dials == nil {
		s.dials = map[netip.Addr]int{}
	}
	s.dials[local]++
	s.mu.Unlock()
	conn, err := s.f.network.DialFrom(local)(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &notedConn{conn, s}, nil
}

func (s *spoke) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probed = time.Now()
}

func (s *spoke) lastProbe() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probed
}

// notedConn notes recipients.
type notedConn struct {
	net.Conn
	s *spoke
}

func (c *notedConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("RCPT TO:")) {
		c.s.note()
	}
	return c.Conn.Write(b)
}

// running is parts at work: those of the front end before those behind them.
type running struct {
	t             *testing.T
	front, behind parts
}

type parts struct {
	ctx  context.Context
	end  context.CancelFunc
	work sync.WaitGroup
}

func newRunning(t *testing.T) *running {
	r := &running{t: t}
	r.front.ctx, r.front.end = context.WithCancel(context.Background())
	r.behind.ctx, r.behind.end = context.WithCancel(context.Background())
	return r
}

func (r *running) first(name string, run func(context.Context) error) { r.begin(&r.front, name, run) }
func (r *running) last(name string, run func(context.Context) error)  { r.begin(&r.behind, name, run) }

func (r *running) begin(p *parts, name string, run func(context.Context) error) {
	p.work.Go(func() {
		if err := run(p.ctx); err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
	})
}

func (r *running) stop() {
	r.front.end()
	r.front.work.Wait()
	r.behind.end()
	r.behind.work.Wait()
}

// list is a list of that internet.
func (f *fleetLab) list(rows int, keep func(email string) bool) []byte {
	var out bytes.Buffer
	require.NoError(f.t, sim.WriteList(&out, f.internet.World, rows, fleetSeed))
	if keep == nil {
		return out.Bytes()
	}
	return keepRows(f.t, out.Bytes(), keep)
}

// accept begins a job.
func (h *hub) accept(t *testing.T, ctx context.Context, list []byte) string {
	job, err := h.coordinator.Accept(ctx, coordinator.Upload{Body: bytes.NewReader(list), Options: coordinator.Options{MaxHours: maxHours}})
	require.NoError(t, err)
	return job.ID
}

// finish waits for the end of a job and gives it with its result.
func (h *hub) finish(t *testing.T, ctx context.Context, id string) (*store.Job, []byte) {
	job, err := h.coordinator.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, store.JobCompleted, job.State, job.Error)
	var result bytes.Buffer
	require.NoError(t, h.coordinator.Results(ctx, id, coordinator.Filter{}, &result))
	return job, result.Bytes()
}

// sourcesOf lists who asked each provider, from what the referee has measured.
func sourcesOf(r sim.Report) map[string]map[string]bool {
	by := map[string]map[string]bool{}
	for _, e := range r.Peaks {
		if by[e.Persona] == nil {
			by[e.Persona] = map[string]bool{}
		}
		by[e.Persona][e.Source] = true
	}
	return by
}

// requireOwners demands that every wide provider was asked from every identity, and every narrow one from one.
func (f *fleetLab) requireOwners(identities int, wide ...string) {
	f.t.Helper()
	for persona, sources := range sourcesOf(f.internet.Referee.Report()) {
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
