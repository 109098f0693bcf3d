package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"probity/engine"
)

// listenLoopback opens a socket on loopback.
func listenLoopback(t *testing.T) *net.UDPConn {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// oneByOne is a socket whose datagrams are sent one at a time, as on every system except Linux.
type oneByOne struct{ net.PacketConn }

// A query that cannot be sent is reported, and those after it in the send queue are still sent.
func TestSendQueueSkipsUnsendableQueries(t *testing.T) {
	t.Run("many at a time", func(t *testing.T) { requireOthersSent(t, newPackets(listenLoopback(t))) })
	t.Run("one by one", func(t *testing.T) { requireOthersSent(t, newPackets(oneByOne{listenLoopback(t)})) })
}

func requireOthersSent(t *testing.T, sender *packets) {
	receiver := listenLoopback(t)
	good := newServer(receiver.LocalAddr().(*net.UDPAddr).AddrPort())
	bad := newServer(netip.MustParseAddrPort("127.0.0.1:0"))
	var out sendQueue
	packer := newQueryPacker()
	for i := range 3*batchSize + 1 {
		p := &pending{question: question{fmt.Sprintf("d%d.example", i), typeMX}, server: good, id: uint16(i)}
		if i%5 == 2 {
			p.server = bad
		}
		p.edns = true
		out.add(p, packer)
	}
	failed := map[uint16]bool{}
	sender.send(&out, func(g *queuedQuery) { failed[g.id] = true })
	_ = receiver.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 512)
	for i := range 3*batchSize + 1 {
		if failed[uint16(i)] != (i%5 == 2) {
			t.Fatalf("query %d failed: %v", i, failed[uint16(i)])
		}
		if i%5 == 2 {
			continue
		}
		n, err := receiver.Read(buf)
		var m dns.Msg
		if err != nil || m.Unpack(buf[:n]) != nil || int(m.Id) != i ||
			m.Question[0].Name != fmt.Sprintf("d%d.example.", i) {
			t.Fatalf("query %d came as %v: %v", i, m.Question, err)
		}
	}
}

// Over real sockets, with datagrams in batches or one by one, each domain gets its own answer.
func TestDomainsGetTheirAnswersOverRealSockets(t *testing.T) {
	var lc net.ListenConfig
	t.Run("many at a time", func(t *testing.T) { routeMany(t, lc.ListenPacket) })
	t.Run("one by one", func(t *testing.T) {
		routeMany(t, func(ctx context.Context, network, addr string) (net.PacketConn, error) {
			conn, err := lc.ListenPacket(ctx, network, addr)
			return oneByOne{conn}, err
		})
	})
}

func routeMany(t *testing.T, listen func(ctx context.Context, network, addr string) (net.PacketConn, error)) {
	server := listenLoopback(t)
	go echoNames(server)
	var d net.Dialer
	r, err := New(Config{Servers: []netip.AddrPort{server.LocalAddr().(*net.UDPAddr).AddrPort()}, Dial: d.DialContext,
		ListenPacket: listen}, testTable())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg, running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	for i := range 200 { // as many as fit into the default buffer of a socket
		wg.Go(func() {
			name := fmt.Sprintf("d%d.example", i)
			if route := r.Route(ctx, name); route.Fact != engine.FactMX || route.Hosts[0] != "mx."+name {
				t.Errorf("%s: %s %v", name, route.Fact, route.Hosts)
			}
		})
	}
	wg.Wait()
	cancel()
	running.Wait()
}

// echoNames answers every MX query with the host mx. under the name.
func echoNames(conn *net.UDPConn) {
	buf := make([]byte, 512)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		end := n - 11 // OPT
		msg := append(buf[:end:end], 0xc0, 12, 0, byte(dns.TypeMX), 0, 1, 0, 0, 2, 88, 0, 7, 0, 10, 2, 'm', 'x', 0xc0,
			12)
		msg[2] = 0x81
		msg[3] = 0x80
		msg[7] = 1
		msg[11] = 0
		_, _ = conn.WriteToUDPAddrPort(msg, from)
	}
}
