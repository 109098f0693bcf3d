package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/coordinator"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/dns"
	"probity/engine/lists"
	"probity/engine/smtp"
	"probity/internal/app"
	"probity/internal/memnet"
	"probity/prober"
	"probity/prober/source"
	"probity/store"
	"probity/store/cache"
	"probity/tests/harness"
)

// The list of the bubble: ordinary rows, and rows of slow receivers, drawn from a longer list.
const (
	bubbleSeed     = 11
	bubbleRows     = 5000
	bubbleOrdinary = 4000
	bubbleDrawn    = 500_000
	bubbleBudget   = 10 * time.Second // of the processors
)

// maxHours is the longest that a job may take: lists of tests get all of it, as those of the command line do.
const maxHours = ingest.MaxHours

// progressFolder is appended to the name of a result file: the folder holds the progress until the result is complete.
const progressFolder = ".progress"

// slowPersonas are the personas that delay a prober: by greylisting, rates, few connections, or few refusals.
var slowPersonas = []string{"greylist-triple", "greylist-address", "strict", "too-many-connections", "hard-error-limit", "few-recipients",
	"slow-banner", "early-talker", "busy-primary", "unknown-450", "temporary"}

// TestSystemInVirtualTime verifies a list with the shipped limits and retry schedule, against receivers that run in real time:
// hours for them, seconds for us. Everything is real but sockets, files and the clock.
func TestSystemInVirtualTime(t *testing.T) {
	began, spent := time.Now(), harness.CPUTime()
	synctest.Test(t, func(t *testing.T) { // returns only when no goroutine of the bubble is left
		verifyInVirtualTime(t)
	})
	spent = harness.CPUTime() - spent
	t.Logf("%s of real time, %s of the processors", time.Since(began).Round(time.Millisecond), spent.Round(time.Millisecond))
	if !harness.RaceEnabled {
		require.Less(t, spent, bubbleBudget)
	}
}

func verifyInVirtualTime(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	network := memnet.New()
	server, err := sim.Start(ctx, world.Config{Seed: bubbleSeed, Speedup: 1, SMTPPort: 25, DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
	require.NoError(t, err)
	list := slowReceiverList(t, server.World)
	n := memNode(t, network, server.DNS)
	began := time.Now()
	var job *store.Job
	var result bytes.Buffer
	require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
		var err error
		if job, err = n.Coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list), Options: ingest.Options{MaxHours: maxHours}}); err != nil {
			return err
		}
		if job, err = n.Coordinator.Wait(ctx, job.ID); err != nil {
			return err
		}
		return n.Coordinator.Results(ctx, job.ID, results.Filter{}, &result)
	}))
	t.Logf("%d rows, %s of virtual time: %v %v", job.Rows, time.Since(began).Round(time.Minute), job.Counts, job.Reasons)
	require.NoError(t, n.Close())
	require.NoError(t, server.Close())

	require.Equal(t, store.JobCompleted, job.State)
	require.Less(t, time.Since(began), maxHours*time.Hour, "rows that are settled by the clock are not verified")
	require.Greater(t, time.Since(began), time.Hour, "the limits held nothing up")
	harness.RequireCorrect(t, server.World, list, result.Bytes())
	harness.RequireWithinLimits(t, server.Referee.Report())
	require.Zero(t, job.Reasons["greylisted"], "the schedule outlasts every greylisting")
	require.EqualValues(t, bubbleRows-job.Blank, job.Counts["VALID"]+job.Counts["RISKY"]+job.Counts["INVALID"]+job.Counts["UNKNOWN"])
}

// slowReceiverList is a list with a fifth of its rows at slow receivers.
func slowReceiverList(t *testing.T, w *world.World) []byte {
	var out bytes.Buffer
	keep := csv.NewWriter(&out)
	rows, column := 0, -1
	eachRow(t, w, bubbleDrawn, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
			require.NoError(t, keep.Write(cells))
			return true
		}
		if rows < bubbleOrdinary || slices.Contains(slowPersonas, personaOf(w, cells[column])) {
			require.NoError(t, keep.Write(cells))
			rows++
		}
		return rows < bubbleRows
	})
	require.Equal(t, bubbleRows, rows, "the drawn list is too short")
	keep.Flush()
	return out.Bytes()
}

// eachRow calls f with the cells of a drawn list, the header first, until it has enough.
func eachRow(t *testing.T, w *world.World, rows int, f func(cells []string) bool) {
	pipe, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		written <- writer.CloseWithError(world.WriteList(writer, w, rows, bubbleSeed))
	}()
	r := csv.NewReader(pipe)
	r.ReuseRecord = true
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if !f(cells) {
			break
		}
	}
	require.NoError(t, pipe.Close())
	<-written
}

func personaOf(w *world.World, email string) string {
	d, ok := w.Domain(email[strings.LastIndexByte(email, '@')+1:])
	if !ok {
		return ""
	}
	return d.Persona.Name
}

// memNode is a node as app.OpenNode makes it, with network, disk and clock in memory.
func memNode(t *testing.T, network *memnet.Network, server netip.AddrPort) *app.Node {
	return memNodeOf(t, network, server, bothIdentities())
}

// bothIdentities are two sources, one of each address family.
func bothIdentities() []source.Identity {
	return []source.Identity{{EHLO: "mx.prober.example"}, {Local: netip.IPv6Loopback(), EHLO: "mx6.prober.example"}}
}

func memNodeOf(t *testing.T, network *memnet.Network, server netip.AddrPort, ids []source.Identity) *app.Node {
	return memNodeParts{table: engine.DefaultTable(), fs: vfs.NewMem(), network: network, servers: []netip.AddrPort{server}, ids: ids,
		dial: func(ctx context.Context, local netip.Addr, kind, address string) (net.Conn, error) {
			return network.DialFrom(local)(ctx, kind, address)
		}}.node(t)
}

// memNodeParts are the parts of a node in memory.
type memNodeParts struct {
	table       *engine.Table
	fs          vfs.FS
	network     *memnet.Network
	servers     []netip.AddrPort
	ids         []source.Identity
	dial        smtp.DialFunc
	jobEndParts func(*store.Job) []store.Part // nil for none
}

func (m memNodeParts) node(t *testing.T) *app.Node {
	n := &app.Node{Warn: slog.New(slog.DiscardHandler)}
	known, err := lists.Default()
	require.NoError(t, err)
	n.Store, err = store.Open(m.fs, filepath.Join("node", "state"))
	require.NoError(t, err)
	n.Cache, err = cache.Open(cache.Config{FS: m.fs, Dir: filepath.Join("node", "cache"), FilterBytes: 1 << 16})
	require.NoError(t, err)
	n.Resolver, err = dns.New(dns.Config{Servers: m.servers, Dial: m.network.Dial,
		ListenPacket: func(context.Context, string, string) (net.PacketConn, error) {
			return m.network.ListenPacket(netip.MustParseAddrPort("127.0.0.1:0"))
		}}, m.table)
	require.NoError(t, err)
	n.Prober, err = prober.New(prober.Config{Node: "bubble", Table: m.table, Resolver: n.Resolver, Cache: n.Cache, AllowPrivate: true,
		MailFrom: "probe@prober.example", Sources: m.ids, Dial: m.dial})
	require.NoError(t, err)
	n.Coordinator = coordinator.New(coordinator.Config{Store: n.Store, FS: m.fs, Dir: "node", Resolver: n.Resolver, Prober: n.Prober, Table: m.table, Lists: known,
		OnFinish: m.jobEndParts})
	return n
}
