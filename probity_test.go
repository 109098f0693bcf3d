package probity_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity"
	"probity/bench/sim"
	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

const (
	simSeed    = 1
	simSpeedup = 36000 // of a simulated internet: a day of it passes in 2.4 s
)

// internet is the simulated internet of this process, with a file of budgets that suits its speed.
var internet = sync.OnceValues(startInternet)

type simulation struct {
	server    *sim.Server
	budgets   string
	addresses map[string]string
}

func startInternet() (*simulation, error) {
	server, err := sim.Start(context.Background(), world.Config{Seed: simSeed, Speedup: simSpeedup,
		SMTPPort: world.AnyPort, DNS: netip.MustParseAddrPort("127.0.0.1:0")}, sim.Loopback{})
	if err != nil {
		return nil, err
	}
	budgets, err := os.CreateTemp("", "probity-*.toml")
	if err != nil {
		return nil, err
	}
	s := &simulation{server: server, budgets: budgets.Name(), addresses: map[string]string{}}
	if err := errors.Join(sim.WriteProviders(budgets, simSpeedup), budgets.Close()); err != nil {
		return nil, err
	}
	return s, s.pickAddresses()
}

// pickAddresses finds an address of each kind in a list whose truth is known.
func (s *simulation) pickAddresses() error {
	want := map[persona.Outcome]string{
		{Status: "VALID"}: "a mailbox",
		{Status: "INVALID", Reason: "mailbox_not_found"}: "a mailbox that does not exist",
		{Status: "RISKY", Reason: "catch_all"}:           "a mailbox of a catch-all domain",
	}
	list, writer := io.Pipe()
	go func() { writer.CloseWithError(world.WriteList(writer, s.server.World, 5000, simSeed)) }()
	defer list.Close()
	rows := csv.NewReader(list)
	header, err := rows.Read()
	if err != nil {
		return err
	}
	email := slices.Index(header, "email")
	for len(want) > 0 {
		row, err := rows.Read()
		if err != nil {
			return fmt.Errorf("the list lacks %v: %w", want, err)
		}
		truth := s.server.World.Truth(row[email])
		if len(truth) == 1 && want[truth[0]] != "" {
			s.addresses[want[truth[0]]] = row[email]
			delete(want, truth[0])
		}
	}
	return nil
}

// simulated returns what a Config needs for the simulated internet, and some of its addresses.
func simulated() (probity.Config, map[string]string) {
	s, err := internet()
	if err != nil {
		panic(err)
	}
	return probity.Config{Resolvers: []netip.AddrPort{s.server.DNS}, SMTPPort: s.server.SMTPPort,
		AllowPrivateTargets: true, Providers: s.budgets}, s.addresses
}

func TestMain(m *testing.M) {
	status := m.Run()
	if s, err := internet(); err == nil {
		if err := errors.Join(s.server.Close(), os.Remove(s.budgets)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

func open(t *testing.T, change func(*probity.Config)) *probity.Verifier {
	t.Helper()
	cfg, _ := simulated()
	cfg.MailFrom, cfg.Sources = "probe@prober.example", []probity.Source{{EHLO: "mx.prober.example"}}
	if change != nil {
		change(&cfg)
	}
	v, err := probity.New(cfg)
	require.NoError(t, err)
	return v
}

// TestFolderKeepsAnswers: a second process finds the answers of the first.
func TestFolderKeepsAnswers(t *testing.T) {
	_, addresses := simulated()
	dir := filepath.Join(t.TempDir(), "new")
	inDir := func(c *probity.Config) { c.Dir, c.Warm = dir, true }
	for _, cached := range []bool{false, true} {
		v := open(t, inDir)
		r, err := v.Verify(t.Context(), addresses["a mailbox"])
		require.NoError(t, err)
		require.Equal(t, probity.Valid, r.Status)
		require.Equal(t, cached, r.FromCache)
		require.NoError(t, v.Close())
	}
	v := open(t, inDir)
	defer v.Close()
	cfg, _ := simulated()
	inDir(&cfg)
	_, err := probity.New(cfg)
	require.ErrorContains(t, err, "another Verifier uses")
}

// TestFreshAsksAgain: Fresh ignores what is cached.
func TestFreshAsksAgain(t *testing.T) {
	_, addresses := simulated()
	v := open(t, func(c *probity.Config) { c.Fresh = true })
	for range 2 {
		r, err := v.Verify(t.Context(), addresses["a mailbox"])
		require.NoError(t, err)
		require.False(t, r.FromCache)
	}
	require.NoError(t, v.Close())
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for want, c := range map[string]probity.Config{
		"Config.MailFrom": {MailFrom: "nobody"},
		"Config.Sources":  {Sources: []probity.Source{{EHLO: "no name"}}},
		"below zero":      {Timeout: -1},
	} {
		_, err := probity.New(c)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "--")
	}
}

// silentResolver receives queries and answers none.
func silentResolver(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// TestNoMailServerWithoutIdentity: all connections go to a proxy on loopback, which sees none of a Verifier that lacks
// MailFrom, and one of a Verifier that has it.
func TestNoMailServerWithoutIdentity(t *testing.T) {
	resolver := publicMailServer(t)
	for from, want := range map[string]int32{"": 0, "probe@prober.example": 1} {
		proxy, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var connections atomic.Int32
		go func() {
			for {
				conn, err := proxy.Accept()
				if err != nil {
					return
				}
				connections.Store(1)
				_ = conn.Close()
			}
		}()
		v, err := probity.New(probity.Config{MailFrom: from, Timeout: time.Second,
			Resolvers: []netip.AddrPort{resolver},
			Sources:   []probity.Source{{EHLO: "mx.prober.example", SOCKS5: proxy.Addr().String()}}})
		require.NoError(t, err)
		r, err := v.Verify(t.Context(), "ann@shop.example")
		require.NoError(t, err)
		require.Equal(t, probity.Unknown, r.Status)
		require.Equal(t, want == 0, r.Reason == "smtp_not_checked", r.Reason)
		require.NoError(t, errors.Join(v.Close(), proxy.Close()))
		require.Equal(t, want, connections.Load())
	}
}

// publicMailServer is a name server for which each domain has a mail server with a public address.
func publicMailServer(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	started, ended := make(chan struct{}), make(chan error, 1)
	s := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			head := dns.RR_Header{Name: q.Question[0].Name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET, Ttl: 60}
			answer := new(dns.Msg).SetReply(q)
			switch head.Rrtype {
			case dns.TypeMX:
				answer.Answer = []dns.RR{&dns.MX{Hdr: head, Preference: 10, Mx: "mx.shop.example."}}
			case dns.TypeA:
				answer.Answer = []dns.RR{&dns.A{Hdr: head, A: net.IPv4(11, 0, 0, 1)}}
			}
			_ = w.WriteMsg(answer)
		})}
	go func() { ended <- s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { require.NoError(t, s.Shutdown()); require.NoError(t, <-ended) })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// TestCloseEndsCalls: calls that are under way end, later ones are refused, and a second Close says so.
func TestCloseEndsCalls(t *testing.T) {
	cfg, _ := simulated()
	cfg.Resolvers = []netip.AddrPort{silentResolver(t)}
	v, err := probity.New(cfg)
	require.NoError(t, err)
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		addresses := func(yield func(string) bool) {
			close(begun)
			yield("ann@shop.example")
		}
		for _, err := range v.VerifyAll(context.Background(), addresses) {
			ended <- err
		}
		close(ended)
	}()
	<-begun
	require.NoError(t, v.Close())
	require.ErrorIs(t, <-ended, probity.ErrClosed)
	_, err = v.Verify(t.Context(), "ann@shop.example")
	require.ErrorIs(t, err, probity.ErrClosed)
	require.ErrorIs(t, v.Close(), probity.ErrClosed)
}

// TestCallerEndsItsCall: the caller's context ends a call with its error, and a deadline is a verdict.
func TestCallerEndsItsCall(t *testing.T) {
	cfg, _ := simulated()
	cfg.Resolvers = []netip.AddrPort{silentResolver(t)}
	v, err := probity.New(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = v.Verify(ctx, "ann@shop.example")
	require.ErrorIs(t, err, context.Canceled)
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r, err := v.Verify(ctx, "ann@shop.example")
	require.NoError(t, err)
	require.Equal(t, probity.Unknown, r.Status)
}

// TestVerifyAllKeepsOrderAndReadsNoFurther: results come in the order of their addresses, no more of which are read
// ahead than Parallel says, and the loop may be left.
func TestVerifyAllKeepsOrderAndReadsNoFurther(t *testing.T) {
	const parallel, wanted = 3, 10
	v := open(t, func(c *probity.Config) { c.Parallel = parallel })
	read := 0
	var endless iter.Seq[string] = func(yield func(string) bool) {
		for yield(fmt.Sprint("not an address ", read)) {
			read++
		}
	}
	seen := 0
	for r, err := range v.VerifyAll(t.Context(), endless) {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("not an address ", seen), r.Email)
		require.Equal(t, probity.Reason("invalid_syntax"), r.Reason)
		seen++
		if seen == wanted {
			break
		}
	}
	require.LessOrEqual(t, read, wanted+parallel)
	require.NoError(t, v.Close())
}

func TestResultHasTheKeysOfTheAPI(t *testing.T) {
	body, err := json.Marshal(probity.Result{Reason: "catch_all"})
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(body, &keys))
	for _, key := range []string{"email", "status", "score", "reason", "syntax_valid", "domain_exists", "smtp_valid",
		"is_disposable", "is_role_based", "is_free_email", "smtp_provider", "mx_records", "from_cache", "verified_at"} {
		require.Contains(t, keys, key)
	}
}
