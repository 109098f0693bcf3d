package harness

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator"
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
)

// NodeOfTwo is a node with two sources, one of each address family.
func NodeOfTwo(t *testing.T, network *memnet.Network, server netip.AddrPort) *app.Node {
	return NodeOf(t, network, server, TwoIdentities())
}

// TwoIdentities are two sources, one of each address family.
func TwoIdentities() []source.Identity {
	return []source.Identity{{EHLO: "mx.prober.example"}, {Local: netip.IPv6Loopback(), EHLO: "mx6.prober.example"}}
}

// NodeOf is a node with the shipped table, that queries this server.
func NodeOf(t *testing.T, network *memnet.Network, server netip.AddrPort, ids []source.Identity) *app.Node {
	return NodeParts{Table: engine.DefaultTable(), FS: vfs.NewMem(), Network: network,
		Servers: []netip.AddrPort{server}, Sources: ids,
		Dial: func(ctx context.Context, local netip.Addr, kind, address string) (net.Conn, error) {
			return network.DialFrom(local)(ctx, kind, address)
		}}.Node(t)
}

// NodeParts are the parts of a node as app.OpenNode makes it, with network and disk in memory.
type NodeParts struct {
	Table       *engine.Table
	FS          vfs.FS
	Network     *memnet.Network
	Servers     []netip.AddrPort
	Sources     []source.Identity
	Dial        smtp.DialFunc
	JobEndParts func(*store.Job) []store.Part // nil for none
}

// Node is a node of these parts.
func (p NodeParts) Node(t *testing.T) *app.Node {
	n := &app.Node{Warn: slog.New(slog.DiscardHandler)}
	known, err := lists.Default()
	require.NoError(t, err)
	n.Store, err = store.Open(p.FS, filepath.Join("node", "state"))
	require.NoError(t, err)
	n.Cache, err = cache.Open(cache.Config{FS: p.FS, Dir: filepath.Join("node", "cache"), FilterBytes: 1 << 16})
	require.NoError(t, err)
	n.Resolver, err = dns.New(dns.Config{Servers: p.Servers, Dial: p.Network.Dial,
		ListenPacket: func(context.Context, string, string) (net.PacketConn, error) {
			return p.Network.ListenPacket(netip.MustParseAddrPort("127.0.0.1:0"))
		}}, p.Table)
	require.NoError(t, err)
	n.Prober, err = prober.New(prober.Config{Node: "bubble", Table: p.Table, Resolver: n.Resolver, Cache: n.Cache,
		AllowPrivate: true,
		MailFrom:     "probe@prober.example", Sources: p.Sources, Dial: p.Dial})
	require.NoError(t, err)
	n.Coordinator = coordinator.New(coordinator.Config{Store: n.Store, FS: p.FS, Dir: "node", Resolver: n.Resolver,
		Prober: n.Prober, Table: p.Table, Lists: known,
		OnFinish: p.JobEndParts})
	return n
}

// ManyIdentities are n sources of IPv4, and one of IPv6.
func ManyIdentities(n int) (ids []source.Identity) {
	for i := range n {
		ids = append(ids, source.Identity{Local: netip.AddrFrom4([4]byte{10, 8, 0, byte(i + 1)}),
			EHLO: fmt.Sprintf("mx%d.prober.example", i)})
	}
	return append(ids, source.Identity{Local: netip.IPv6Loopback(), EHLO: "mx6.prober.example"})
}
