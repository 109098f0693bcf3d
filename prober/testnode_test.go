package prober

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	mdns "github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/dns"
	"probity/internal/memnet"
	"probity/prober/source"
	"probity/prober/wire"
	"probity/store/cache"
)

// testNode is a prober and the mail hosts that a test scripts, in one bubble.
type testNode struct {
	t          testing.TB
	net        *memnet.Network
	table      *engine.Table
	cache      *cache.Cache
	prober     *Prober
	hosts      map[string]*fakeServer
	resolve    func(name string) []netip.Addr // where a host is said to be this time; nil: where it is
	stopProber func()                         // ends the prober and waits for it
	stop       func()                         // ends everything and waits for it

	lastRow   atomic.Uint32
	dnsFails  atomic.Bool  // names are answered with SERVFAIL
	dnsSilent atomic.Bool  // no name is answered
	dnsDelay  atomic.Int64 // how long each name takes
	shortTTL  atomic.Bool  // addresses are good for 20 seconds, not for 300
}

// fakeServer is a scripted mail host.
type fakeServer struct {
	addr         netip.Addr
	banner       string                            // default 220
	mailReply    string                            // reply to MAIL; default 250
	rcpt         func(local string) string         // default 250; "" closes the connection; "-" says nothing ever
	rcptByDomain func(local, domain string) string // the same, where the domain matters
	connection   func() rcptScript                 // makes the script of a connection, where that matters
	down         bool                              // nothing listens
	otherReply   string
	noPipelining bool
	extra        extraReply
	// what becomes of commands that arrive before the last one is answered: "dropped", "closed" for the connection;
	// default answered
	ahead        string
	terse        bool          // its replies do not quote their recipients: only QUIT confirms a dialogue
	replyDelay   time.Duration // before each batch of replies
	maxAnswered  int           // recipients of a connection that are answered; 0 for all
	lastReply    string        // what the next one gets before the connection is closed
	maxMails     int           // transactions of a connection that are begun; 0 for all
	maxConns     int           // connections at one time; others are closed; 0 for all
	tooManyReply string        // what those others get first
	neverReplies bool          // connections are taken, and nothing is ever said
	ignoresQuit  bool          // QUIT has no reply; the connection stays until the client has closed it

	mu sync.Mutex // guards records
	records
}

// extraReply is a reply too many: behind the answer to a command, some time later.
type extraReply struct {
	to    string // the first four letters of the command; "220" for the banner
	reply string
	after time.Duration
}

// rcptScript is a host's reply to a recipient.
type rcptScript func(local, domain string) string

// records are what a host has seen.
type records struct {
	log                []string // "RCPT a@b" and so on, in order; those of several connections are mixed
	largestTransaction int      // the most recipients of one transaction
	open               int
	peak               int
	pipelined          []string // recipients whose RCPT came before the command before it was answered
	dialTimes          []time.Time
	rcptTimes          []time.Time
	refusalTimes       []time.Time
}

// snapshot is a copy of what the host has seen so far.
func (h *fakeServer) snapshot() records {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records
}

const testTable = `
retry_schedule = ["1m", "5m"]
[defaults.limits]
connections = 2
connections_per_minute = 0
recipients_per_minute = 0
recipients_per_transaction = 0
recipients_per_connection = 0
transactions_per_connection = 0
refusals_per_connection = 0
refusals_per_hour = 0
[[provider]]
id = "big"
name = "Big"
mx = [".big.example"]
`

// withTestNode runs f with a test node inside a bubble. extra is appended to the provider table.
func withTestNode(t *testing.T, table string, change func(*Config), hosts map[string]*fakeServer, f func(*testNode)) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestNode(t, table, hosts)
		b.start(change)
		defer func() {
			b.stop()
			require.NoError(t, b.cache.Close())
		}()
		f(b)
	})
}

// tables are the tables that tests have used, by what they add to the shipped one. A table never changes.
var tables struct {
	mu      sync.Mutex
	shipped *engine.Table
	byText  map[string]*engine.Table
}

// tableOf is the shipped table with a file over it, built once: the race detector makes that take a third of a second.
func tableOf(text string) (*engine.Table, error) {
	tables.mu.Lock()
	defer tables.mu.Unlock()
	if tables.shipped == nil {
		tables.shipped, tables.byText = engine.DefaultTable(), map[string]*engine.Table{}
	}
	if t := tables.byText[text]; t != nil {
		return t, nil
	}
	t, err := tables.shipped.Override([]byte(text))
	if err == nil {
		tables.byText[text] = t
	}
	return t, err
}

func newTestNode(t testing.TB, table string, hosts map[string]*fakeServer) *testNode {
	b := &testNode{t: t, net: memnet.New(), hosts: hosts}
	var err error
	if b.table, err = tableOf(table); err != nil {
		t.Fatal(err)
	}
	b.openCache(vfs.NewMem())
	return b
}

func (b *testNode) openCache(disk vfs.FS) {
	var err error
	b.cache, err = cache.Open(cache.Config{FS: disk, Dir: "cache", FilterBytes: 1 << 16})
	require.NoError(b.t, err)
}

// start runs DNS, hosts and prober until stop.
func (b *testNode) start(change func(*Config)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	b.serveDNS(ctx, &wg)
	n := byte(1)
	for _, h := range b.hosts {
		n++
		if !h.addr.IsValid() {
			h.addr = netip.AddrFrom4([4]byte{10, 1, 1, n})
		}
		if !h.down {
			b.listen(ctx, &wg, h)
		}
	}
	resolver, err := dns.New(dns.Config{Servers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.53:53")},
		Dial: b.net.Dial,
		ListenPacket: func(context.Context, string, string) (net.PacketConn, error) {
			return b.net.ListenPacket(netip.MustParseAddrPort("127.0.0.1:0"))
		}}, b.table)
	require.NoError(b.t, err)
	wg.Go(func() { _ = resolver.Run(ctx) })
	cfg := Config{Node: "n1", Table: b.table, Resolver: resolver, Cache: b.cache, MailFrom: "probe@us.example",
		AllowPrivate: true,
		Sources:      []source.Identity{{EHLO: "mail.us.example"}},
		Dial: func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
			return b.net.DialFrom(local)(ctx, network, address)
		}}
	if change != nil {
		change(&cfg)
	}
	b.prober, err = New(cfg)
	require.NoError(b.t, err)
	pctx, pcancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- b.prober.Run(pctx) }()
	<-b.prober.started
	b.stopProber = sync.OnceFunc(func() {
		pcancel()
		require.NoError(b.t, <-ran)
	})
	b.stop = func() {
		b.stopProber()
		cancel()
		wg.Wait()
	}
}

func (b *testNode) serveDNS(ctx context.Context, wg *sync.WaitGroup) {
	pc, err := b.net.ListenPacket(netip.MustParseAddrPort("127.0.0.53:53"))
	require.NoError(b.t, err)
	context.AfterFunc(ctx, func() { _ = pc.Close() })
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q, m := new(mdns.Msg), new(mdns.Msg)
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			m.SetReply(q)
			h := b.hosts[strings.ToLower(strings.TrimSuffix(q.Question[0].Name, "."))]
			switch {
			case b.dnsFails.Load():
				m.Rcode = mdns.RcodeServerFailure
			case h == nil && q.Question[0].Name != ".":
				m.Rcode = mdns.RcodeNameError
			case q.Question[0].Qtype == mdns.TypeA:
				at := []netip.Addr{h.addr}
				if b.resolve != nil {
					at = b.resolve(q.Question[0].Name)
				}
				ttl := 300
				if b.shortTTL.Load() {
					ttl = 20
				}
				for _, a := range at {
					rr, _ := mdns.NewRR(fmt.Sprintf("%s %d IN A %s", q.Question[0].Name, ttl, a))
					m.Answer = append(m.Answer, rr)
				}
			}
			out, _ := m.Pack()
			switch delay := time.Duration(b.dnsDelay.Load()); {
			case b.dnsSilent.Load():
			case delay > 0:
				time.AfterFunc(delay, func() { _, _ = pc.WriteTo(out, from) })
			default:
				_, _ = pc.WriteTo(out, from)
			}
		}
	})
}

func (b *testNode) listen(ctx context.Context, wg *sync.WaitGroup, h *fakeServer) {
	ln, err := b.net.Listen(netip.AddrPortFrom(h.addr, 25))
	require.NoError(b.t, err)
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			wg.Go(func() { defer stop(); h.serve(c) })
		}
	})
}

func (h *fakeServer) withLock(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// serve speaks SMTP as the script says.
func (h *fakeServer) serve(c net.Conn) {
	defer c.Close()
	h.withLock(func() { h.open++; h.peak = max(h.peak, h.open); h.dialTimes = append(h.dialTimes, time.Now()) })
	defer h.withLock(func() { h.open-- })
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	if h.neverReplies {
		_, _ = in.ReadString(0)
		return
	}
	if h.maxConns > 0 && h.snapshot().open > h.maxConns {
		if h.tooManyReply != "" {
			fmt.Fprintf(c, "%s\r\n", h.tooManyReply)
		}
		return
	}
	say := func(line string) bool {
		fmt.Fprintf(out, "%s\r\n", line)
		if in.Buffered() == 0 {
			time.Sleep(h.replyDelay)
			return out.Flush() == nil
		}
		return true
	}
	sayExtra := func(to string) {
		if h.extra.to == to {
			_ = out.Flush()
			time.Sleep(h.extra.after)
			say(h.extra.reply)
		}
	}
	say(orDefault(h.banner, "220 hello"))
	sayExtra("220")
	script := rcptScript(h.rcptByDomain)
	if h.connection != nil {
		script = h.connection()
	}
	for answered, begun, together := 0, 0, 0; ; {
		ahead := in.Buffered() > 0
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		if in.Buffered() > 0 && h.ahead == "closed" {
			return
		}
		if h.ahead == "dropped" {
			_, _ = in.Discard(in.Buffered())
		}
		verb := strings.ToUpper(line[:min(4, len(line))])
		switch verb {
		case "EHLO":
			if h.noPipelining {
				say("250 host")
			} else {
				say("250-host\r\n250 PIPELINING")
			}
		case "MAIL":
			together = 0
			h.withLock(func() { h.log = append(h.log, "MAIL") })
			begun++
			if h.maxMails > 0 && begun > h.maxMails {
				say("421 4.7.0 enough for one connection")
				out.Flush()
				return
			}
			say(orDefault(h.mailReply, "250 sender ok"))
		case "RCPT":
			addr := line[strings.IndexByte(line, '<')+1 : strings.LastIndexByte(line, '>')]
			reply := "250 2.1.5 ok"
			if h.rcpt != nil {
				reply = h.rcpt(addr[:strings.IndexByte(addr, '@')])
			}
			if local, domain, _ := strings.Cut(addr, "@"); script != nil {
				reply = script(local, domain)
			}
			answered++
			if h.maxAnswered > 0 && answered > h.maxAnswered {
				if h.lastReply != "" {
					say(h.lastReply)
				}
				out.Flush()
				return
			}
			together++
			h.withLock(func() {
				h.log = append(h.log, "RCPT "+addr)
				if ahead {
					h.pipelined = append(h.pipelined, addr)
				}
				h.largestTransaction = max(h.largestTransaction, together)
				h.rcptTimes = append(h.rcptTimes, time.Now())
				if strings.HasPrefix(reply, "5") {
					h.refusalTimes = append(h.refusalTimes, time.Now())
				}
			})
			if reply == "-" {
				out.Flush()
				_, _ = in.ReadString(0)
				return
			}
			if reply != "" && !h.terse && !strings.Contains(reply, "@") {
				reply += " <" + addr + ">"
			}
			if reply == "" || !say(reply) || strings.HasPrefix(reply, "421") {
				out.Flush()
				return
			}
		case "QUIT":
			if h.ignoresQuit {
				_, _ = in.ReadString(0)
				return
			}
			say("221 bye")
			return
		default:
			say(orDefault(h.otherReply, "250 ok"))
		}
		sayExtra(verb)
	}
}

var aliasAddr = netip.MustParseAddr("10.9.9.9")

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (h *fakeServer) count(prefix string) (n int) {
	h.withLock(func() {
		for _, l := range h.log {
			if strings.HasPrefix(l, prefix) {
				n++
			}
		}
	})
	return n
}

// acceptsOnly is an rcpt script of a host that has the named mailboxes only.
func acceptsOnly(locals ...string) func(string) string {
	return func(local string) string {
		for _, l := range locals {
			if l == local {
				return "250 2.1.5 ok"
			}
		}
		return "550 5.1.1 User unknown"
	}
}

func (b *testNode) rows(mx []string, addrs ...string) []wire.Row {
	routes := map[string]*engine.Route{}
	var rows []wire.Row
	for _, s := range addrs {
		a, err := engine.Parse(s)
		require.NoError(b.t, err)
		r := routes[a.Domain()]
		if r == nil {
			r = b.route(mx...)
			routes[a.Domain()] = r
		}
		rows = append(rows, wire.Row{Number: b.lastRow.Add(1), Address: a, Route: r})
	}
	return rows
}

func (b *testNode) route(mx ...string) *engine.Route {
	var recs []engine.MX
	for i, h := range mx {
		recs = append(recs, engine.MX{Preference: uint16(i), Host: h})
	}
	r := b.table.NewRoute(recs)
	return &r
}

// verify runs a batch and returns its results by row number; each row must have exactly one.
func (b *testNode) verify(hold time.Duration, rows ...wire.Row) map[uint32]wire.Result {
	got, done := map[uint32]wire.Result{}, false
	err := b.prober.Verify(context.Background(), &wire.Batch{Job: "j", Rows: rows, MaxAge: time.Hour,
		Started: time.Now()}, hold, func(r wire.Results) {
		require.False(b.t, done)
		require.LessOrEqual(b.t, len(r.Rows), 512)
		for _, x := range r.Rows {
			_, twice := got[x.Row]
			require.False(b.t, twice)
			x.Verdict.MX = nil
			got[x.Row] = x
		}
		done = r.Done
	})
	require.NoError(b.t, err)
	require.True(b.t, done)
	require.Len(b.t, got, len(rows))
	return got
}

func (b *testNode) single(timeout time.Duration, mx []string, addr string) engine.Verdict {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	row := b.rows(mx, addr)[0]
	a, err := b.prober.Single(ctx, wire.SingleRequest{Address: row.Address, Route: row.Route, MaxAge: time.Hour})
	require.NoError(b.t, err)
	return a.Verdict
}

func verdictText(v engine.Verdict) string {
	return strings.TrimSpace(v.Status.String() + " " + v.Reason.String())
}

// mostInSpan is the greatest number of events in any span of the given length, borders included.
func mostInSpan(events []time.Time, span time.Duration) int {
	most, from := 0, 0
	for i := range events {
		for events[i].Sub(events[from]) > span {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// blocklistReports is how many routes must refuse a source as blocklisted for it to be quarantined everywhere.
const blocklistReports = 3
