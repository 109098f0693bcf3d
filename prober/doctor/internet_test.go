package doctor

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/engine"
)

// fakeInternet is a simulated internet in memory: names, resolvers, one mail server, one machine. Tests break it before
// the audit.
type fakeInternet struct {
	t              *testing.T
	zone           map[string][]dns.RR // lower-case names with final dot
	rcode          map[string]int      // names that are answered so
	resolverQuirks map[netip.AddrPort]*quirks

	rcptReply, mailReply, banner string // of the mail server
	dialErr                      error
	mu                           sync.RWMutex // guards zone, rcpts, dialled
	rcpts, dialled               []string
	servers                      sync.WaitGroup

	cfg Config
}

// quirks are what is wrong with one resolver.
type quirks struct {
	silent, noTCP, noEDNS, notRecursive bool
	rewrite                             string // address for names that do not exist
	rcode                               int    // of every answer
	hiddenName                          string // a name that it does not know
}

var (
	resolverA = netip.MustParseAddrPort("25.0.0.53:53")
	resolverB = netip.MustParseAddrPort("25.0.1.53:53")
	source    = netip.MustParseAddr("25.0.0.1")
)

const cleanZone = `
mx.sender.org.            300 IN A    25.0.0.1
1.0.0.25.in-addr.arpa.    300 IN PTR  mx.sender.org.
sender.org.               300 IN SOA  ns.sender.org. hostmaster.sender.org. 1 7200 3600 1209600 3600
sender.org.               300 IN MX   10 in.sender.org.
sender.org.               300 IN TXT  "v=spf1 ip4:25.0.0.1 -all"
in.sender.org.            300 IN A    25.0.0.2
2.0.0.127.list.test.      300 IN A    127.0.0.2
.                         300 IN NS   a.root-servers.net.
`

func newFakeInternet(t *testing.T) *fakeInternet {
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("/data", 0o755))
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 100 << 30, TotalBytes: 200 << 30})
	w := &fakeInternet{t: t, zone: map[string][]dns.RR{}, rcode: map[string]int{},
		resolverQuirks: map[netip.AddrPort]*quirks{},
		banner:         "220 in.sender.org", mailReply: "250 OK", rcptReply: "250 OK"}
	for line := range strings.Lines(cleanZone) {
		w.add(line)
	}
	w.cfg = Config{
		Callbacks:  &Callbacks{Public: netip.MustParseAddr("25.0.0.1")},
		Identities: []Identity{{Local: source, EHLO: "mx.sender.org"}}, MailFrom: "probe@sender.org",
		Servers: []netip.AddrPort{resolverA, resolverB}, Table: respectfulTable(), Exchange: w.exchange, Dial: w.dial,
		DNSBLs: []string{"list.test"}, OpenFiles: func() (uint64, uint64, error) { return 65536, 65536, nil },
		FS: fs, Folder: "/data", Synced: func() (bool, bool) { return true, true },
	}
	return w
}

// add puts a record into the zone.
func (w *fakeInternet) add(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	rr, err := dns.NewRR(line)
	require.NoError(w.t, err, line)
	name := strings.ToLower(rr.Header().Name)
	w.zone[name] = append(w.zone[name], rr)
}

// set replaces the records of one name and type.
func (w *fakeInternet) set(lines ...string) {
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		require.NoError(w.t, err, line)
		w.removeRecords(rr.Header().Name, rr.Header().Rrtype)
	}
	for _, line := range lines {
		w.add(line)
	}
}

func (w *fakeInternet) removeRecords(name string, typ uint16) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []dns.RR
	for _, rr := range w.zone[name] {
		if rr.Header().Rrtype != typ {
			left = append(left, rr)
		}
	}
	w.zone[name] = left
	if left == nil {
		delete(w.zone, name)
	}
}

func (w *fakeInternet) quirk(server netip.AddrPort) *quirks {
	if w.resolverQuirks[server] == nil {
		w.resolverQuirks[server] = &quirks{}
	}
	return w.resolverQuirks[server]
}

// exchange is the network between the audit and the resolvers. It only reads that state, so it may run many times at
// once.
func (w *fakeInternet) exchange(ctx context.Context, network string, m *dns.Msg,
	server netip.AddrPort) (*dns.Msg, error) {
	q := w.resolverQuirks[server]
	if q == nil {
		q = &quirks{}
	}
	if q.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if q.noTCP && network == "tcp" {
		return nil, errors.New("connection refused")
	}
	r := new(dns.Msg)
	r.SetReply(m)
	r.RecursionAvailable = !q.notRecursive
	if !q.noEDNS {
		r.SetEdns0(1232, false)
	}
	w.answer(r, q)
	return r, nil
}

func (w *fakeInternet) answer(r *dns.Msg, q *quirks) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	name, typ := strings.ToLower(r.Question[0].Name), r.Question[0].Qtype
	if code, ok := w.rcode[name]; ok || q.rcode != 0 {
		r.Rcode = max(code, q.rcode)
		return
	}
	for range 8 {
		if rr := w.find(name, dns.TypeCNAME, q); len(rr) > 0 && typ != dns.TypeCNAME {
			r.Answer = append(r.Answer, rr[0])
			name = rr[0].(*dns.CNAME).Target
		}
	}
	r.Answer = append(r.Answer, w.find(name, typ, q)...)
	if len(r.Answer) > 0 || w.exists(name) && q.hiddenName != name {
		return
	}
	if q.rewrite != "" {
		rr, err := dns.NewRR(name + " 60 IN A " + q.rewrite)
		if err == nil {
			r.Answer = append(r.Answer, rr)
		}
		return
	}
	r.Rcode = dns.RcodeNameError
}

func (w *fakeInternet) find(name string, typ uint16, q *quirks) []dns.RR {
	var out []dns.RR
	for _, rr := range w.zone[name] {
		if rr.Header().Rrtype == typ && name != q.hiddenName {
			out = append(out, rr)
		}
	}
	return out
}

// exists reports whether name is a name with records or with names below it (RFC 8020).
func (w *fakeInternet) exists(name string) bool {
	for known := range w.zone {
		if known == name || strings.HasSuffix(known, "."+name) {
			return true
		}
	}
	return false
}

// dial is the network between the audit and the one mail server.
func (w *fakeInternet) dial(_ context.Context, _ netip.Addr, _, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	w.mu.Unlock()
	if w.dialErr != nil {
		return nil, w.dialErr
	}
	client, server := net.Pipe()
	w.servers.Go(func() { w.serve(server) })
	return client, nil
}

func (w *fakeInternet) serve(conn net.Conn) {
	defer conn.Close()
	report := func(line string) { _, _ = conn.Write([]byte(line + "\r\n")) }
	report(w.banner)
	in := bufio.NewScanner(conn)
	for in.Scan() {
		verb, _, _ := strings.Cut(in.Text(), " ")
		switch verb {
		case "MAIL":
			report(w.mailReply)
		case "RCPT":
			w.mu.Lock()
			w.rcpts = append(w.rcpts, in.Text())
			w.mu.Unlock()
			report(w.rcptReply)
		case "QUIT":
			report("221 bye")
			return
		default:
			report("250 in.sender.org")
		}
	}
}

// audit makes one report and waits for the mail server.
func (w *fakeInternet) audit() *Report {
	d, err := New(w.cfg)
	require.NoError(w.t, err)
	r := d.Audit(w.t.Context())
	w.servers.Wait()
	return r
}

// respectfulTable is the shipped table, obeying the terms of receivers.
var respectfulTable = sync.OnceValue(func() *engine.Table {
	table, err := engine.DefaultTable().RespectTerms()
	if err != nil {
		panic(err)
	}
	return table
})
