package dns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"probity/engine"
)

// handler answers a query in wire form; nil is silence.
type handler func(q *dns.Msg, tcp bool) []byte

// fakeNetwork is a set of name servers in memory.
type fakeNetwork struct {
	servers map[netip.AddrPort]handler
	delay   time.Duration // from query to answer

	mu      sync.Mutex // guards the rest
	asked   []string   // "server name TYPE", in order
	pending int
	peak    int // most queries waiting at one time
}

var (
	first  = netip.MustParseAddrPort("192.0.2.1:53")
	second = netip.MustParseAddrPort("192.0.2.2:53")
)

func (n *fakeNetwork) recordQuery(server netip.AddrPort, q *dns.Msg, tcp bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	which := map[netip.AddrPort]string{first: "1", second: "2"}[server]
	if tcp {
		which += "t"
	}
	n.asked = append(n.asked, which+" "+q.Question[0].Name+" "+dns.TypeToString[q.Question[0].Qtype])
	n.pending++
	n.peak = max(n.peak, n.pending)
}

// log returns the queries since the last log.
func (n *fakeNetwork) log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := strings.Join(n.asked, ", ")
	n.asked = nil
	return s
}

func (n *fakeNetwork) answer(server netip.AddrPort, wire []byte, tcp bool) []byte {
	q := new(dns.Msg)
	if err := q.Unpack(wire); err != nil {
		panic(err)
	}
	n.recordQuery(server, q, tcp)
	h := n.servers[server]
	if h == nil {
		return nil
	}
	return h(q, tcp)
}

func (n *fakeNetwork) done() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending--
}

type packet struct {
	data []byte
	from netip.AddrPort
}

// packetConn is a UDP socket in memory.
type packetConn struct {
	net    *fakeNetwork
	inbox  chan packet
	closed chan struct{}
	once   sync.Once
}

func (n *fakeNetwork) listen(context.Context, string, string) (net.PacketConn, error) {
	return &packetConn{net: n, inbox: make(chan packet, 4096), closed: make(chan struct{})}, nil
}

func (c *packetConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	to := addr.(*net.UDPAddr).AddrPort()
	reply := c.net.answer(to, b, false)
	deliver := func() {
		c.net.done()
		if reply != nil {
			c.inbox <- packet{reply, to}
		}
	}
	if c.net.delay > 0 {
		time.AfterFunc(c.net.delay, deliver)
	} else {
		deliver()
	}
	return len(b), nil
}

func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-c.inbox:
		return copy(b, p.data), net.UDPAddrFromAddrPort(p.from), nil
	case <-c.closed:
		return 0, nil, net.ErrClosed
	}
}

func (c *packetConn) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *packetConn) LocalAddr() net.Addr              { return &net.UDPAddr{} }
func (c *packetConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *packetConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *packetConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// dial serves one query of a TCP connection.
func (n *fakeNetwork) dial(_ context.Context, _, addr string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		var size [2]byte
		if _, err := io.ReadFull(server, size[:]); err != nil {
			return
		}
		wire := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(server, wire); err != nil {
			return
		}
		reply := n.answer(netip.MustParseAddrPort(addr), wire, true)
		n.done()
		if reply == nil {
			_, _ = io.ReadFull(server, size[:]) // no answer until the client closes
			return
		}
		_, _ = server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	}()
	return client, nil
}

// start makes a resolver over the internet and runs it until the test ends.
func (n *fakeNetwork) start(t *testing.T, change func(*Config)) *Resolver {
	t.Helper()
	cfg := Config{Dial: n.dial, ListenPacket: n.listen}
	for _, s := range []netip.AddrPort{first, second} {
		if _, ok := n.servers[s]; ok {
			cfg.Servers = append(cfg.Servers, s)
		}
	}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg, testTable())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// testTable has no provider: the tests do not check the provider of a route.
func testTable() *engine.Table { return &engine.Table{Unknown: &engine.Provider{ID: "unknown"}} }

// zone answers with records, or as a word says: SERVFAIL, REFUSED, SILENT, LAME.
type zone struct {
	records map[string][]dns.RR // by name
	words   map[string]string   // by name, or "name TYPE"
	noChase bool                // a CNAME is sent without its target's records
	noSOA   bool
	noRoot  bool // denies the root, like a resolver without an upstream
}

// parseZone reads "name TTL TYPE data" or "name [TYPE] WORD" a line.
func parseZone(text string) *zone {
	z := &zone{records: map[string][]dns.RR{}, words: map[string]string{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2:
			z.words[f[0]] = f[1]
		case len(f) == 3:
			z.words[f[0]+" "+f[1]] = f[2]
		case len(f) > 3:
			rr, err := dns.NewRR(line)
			if err != nil {
				panic(err)
			}
			name := strings.ToLower(rr.Header().Name)
			z.records[name] = append(z.records[name], rr)
		}
	}
	return z
}

func (z *zone) word(q dns.Question) string {
	if w, ok := z.words[q.Name+" "+dns.TypeToString[q.Qtype]]; ok {
		return w
	}
	return z.words[q.Name]
}

func (z *zone) handle(q *dns.Msg, tcp bool) []byte {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	m.Compress = true
	switch z.word(q.Question[0]) {
	case "SILENT":
		return nil
	case "SERVFAIL":
		m.Rcode = dns.RcodeServerFailure
		return pack(m)
	case "REFUSED":
		m.Rcode = dns.RcodeRefused
		return pack(m)
	case "LAME":
		m.RecursionAvailable = false
		m.Ns = []dns.RR{rr(". 3600 NS a.root-servers.net.")}
		return pack(m)
	}
	z.fill(m, q.Question[0])
	out := pack(m)
	if !tcp && len(out) > udpSize {
		m.Answer, m.Truncated = m.Answer[:1], true
		out = pack(m)
	}
	return out
}

func (z *zone) fill(m *dns.Msg, q dns.Question) {
	name := q.Name
	for hop := 0; hop < 12; hop++ {
		records, ok := z.records[name]
		next := ""
		for _, r := range records {
			if r.Header().Rrtype == q.Qtype {
				m.Answer = append(m.Answer, r)
			}
			if c, ok := r.(*dns.CNAME); ok {
				m.Answer = append(m.Answer, r)
				next = strings.ToLower(c.Target)
			}
		}
		if next != "" && z.noChase {
			return
		}
		if next != "" {
			name = next
			continue
		}
		if !ok && (name != "." || z.noRoot) {
			m.Rcode = dns.RcodeNameError
		}
		break
	}
	if !z.noSOA && (len(m.Answer) == 0 || m.Answer[len(m.Answer)-1].Header().Rrtype != q.Qtype) {
		m.Ns = []dns.RR{rr("example. 900 SOA ns.example. hostmaster.example. 1 3600 600 86400 300")}
	}
}

func rr(text string) dns.RR {
	r, err := dns.NewRR(text)
	if err != nil {
		panic(err)
	}
	return r
}

func pack(m *dns.Msg) []byte {
	out, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return out
}
