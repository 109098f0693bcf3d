package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
	"probity/internal/memnet"
)

// testClient is a slow client that uses only SMTP and DNS: what it sees of the
// world must agree with the truth.
type testClient struct {
	server *Server
	net    *memnet.Network
}

// route resolves a domain to the addresses of its MX hosts, best first.
func (c *testClient) route(domain string) (addrs []string, rcode int) {
	hosts, rcode := c.lookup(domain, dns.TypeMX)
	if rcode == dns.RcodeSuccess && len(hosts) == 0 {
		hosts = []string{domain}
	}
	for _, host := range hosts {
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
			found, _ := c.lookup(host, kind)
			addrs = append(addrs, found...)
		}
	}
	return addrs, rcode
}

// lookup asks over UDP, and over TCP when the answer is truncated.
func (c *testClient) lookup(name string, kind uint16) (found []string, rcode int) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	m := c.exchange("udp", q)
	if m.Truncated {
		m = c.exchange("tcp", q)
	}
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.MX:
			found = append(found, rr.Mx)
		case *dns.A:
			found = append(found, rr.A.String())
		case *dns.AAAA:
			found = append(found, rr.AAAA.String())
		}
	}
	return found, m.Rcode
}

func (c *testClient) exchange(network string, q *dns.Msg) *dns.Msg {
	conn, err := c.net.Dial(context.Background(), network, c.server.DNS.String())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	m, _, err := (&dns.Client{Net: network}).ExchangeWithConn(q, &dns.Conn{Conn: conn})
	if err != nil {
		panic(err)
	}
	return m
}

// probe sends two recipients to the first host that answers, and returns the
// reply codes; 0 without a reply.
func (c *testClient) probe(domain, target, decoy string) (codes [2]int) {
	addrs, _ := c.route(domain)
	for _, addr := range addrs {
		at := net.JoinHostPort(addr, fmt.Sprint(c.server.SMTPPort))
		conn, err := c.net.Dial(context.Background(), "tcp", at)
		if err != nil {
			continue
		}
		codes, busy := askRecipients(conn, target+"@"+domain, decoy+"@"+domain)
		conn.Close()
		if !busy {
			return codes
		}
	}
	return codes
}

func askRecipients(conn net.Conn, recipients ...string) (codes [2]int, busy bool) {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Minute))
	text := textproto.NewConn(conn)
	if _, _, err := text.ReadResponse(220); err != nil {
		return codes, true
	}
	if !sendOK(text, "EHLO probe.example") {
		return codes, true
	}
	for i, recipient := range recipients {
		if !sendOK(text, "MAIL FROM:<probe@probe.example>") {
			return codes, i == 0
		}
		_ = text.PrintfLine("RCPT TO:<%s>", recipient)
		codes[i], _, _ = text.ReadResponse(0)
		if !sendOK(text, "RSET") {
			break
		}
	}
	return codes, false
}

// sendOK sends a line and reports a positive reply.
func sendOK(text *textproto.Conn, line string) bool {
	if err := text.PrintfLine("%s", line); err != nil {
		return false
	}
	_, _, err := text.ReadResponse(2)
	return err == nil
}

// Every persona that answers truthfully at once is probed for each kind of mailbox.
func TestServersMatchTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		s, err := Start(t.Context(), world.Config{Seed: 4}, network)
		require.NoError(t, err)
		c := &testClient{server: s, net: network}
		asked := 0
		for _, d := range domainPerPersona(s.World) {
			for _, local := range localsIn(s.World, d) {
				said := s.World.Truth(local + "@" + d.Name)
				if len(said) != 1 {
					continue
				}
				asked++
				c.checkOutcome(t, d, local, said[0])
			}
		}
		require.Greater(t, asked, 100)
		require.NoError(t, s.Close())
	})
}

// domainPerPersona is one domain of every persona.
func domainPerPersona(w *world.World) []*world.Domain {
	var mailDomains []*world.Domain
	seen := map[*persona.Persona]bool{}
	for i := range w.Domains() {
		d := &w.Domains()[i]
		if !seen[d.Persona] && !d.Persona.Behaviour.RequireTLS {
			mailDomains = append(mailDomains, d)
		}
		seen[d.Persona] = true
	}
	return mailDomains
}

// localsIn finds a local part of d for each state of a mailbox.
func localsIn(w *world.World, d *world.Domain) (locals [persona.MailboxStates]string) {
	for n := 10_000; n < 100_000 && slices.Contains(locals[:], ""); n++ {
		local := fmt.Sprint("petra.lodane", n)
		locals[w.Mailbox(d.Name, local)] = local
	}
	return locals
}

// checkOutcome compares the servers' replies with one expected outcome.
func (c *testClient) checkOutcome(t *testing.T, d *world.Domain, local string, want persona.Outcome) {
	what := fmt.Sprintf("%s: %s@%s: %v", d.Persona.Name, local, d.Name, want)
	addrs, rcode := c.route(d.Name)
	switch want.Reason {
	case "domain_not_found":
		require.Equal(t, dns.RcodeNameError, rcode, what)
		return
	case "dns_error":
		require.True(t, rcode == dns.RcodeServerFailure || len(addrs) == 0, what)
		return
	case "null_mx", "no_mail_server":
		require.Empty(t, addrs, what)
		return
	case "unroutable_mx":
		for _, addr := range addrs {
			_, known := c.server.World.HostAt(netip.MustParseAddr(addr))
			require.False(t, known, what)
		}
		return
	}
	codes := c.probe(d.Name, local, "karin.mubewo")
	switch want {
	case persona.Outcome{Status: persona.StatusValid, Reason: ""}:
		require.Equal(t, 2, codes[0]/100, what)
		refusal := 5
		if d.Persona.Name == "unknown-450" {
			refusal = 4 // it names the unknown user, and so confirms the acceptance
		}
		require.Equal(t, refusal, codes[1]/100, what)
	case persona.Outcome{Status: persona.StatusRisky, Reason: "catch_all"},
		persona.Outcome{Status: persona.StatusRisky, Reason: "accept_all_provider"}:
		require.Equal(t, [2]int{250, 250}, codes, what)
	case persona.Outcome{Status: persona.StatusRisky, Reason: "mailbox_full"}:
		require.Contains(t, []int{422, 452, 552, 550}, codes[0], what)
	case persona.Outcome{Status: persona.StatusInvalid, Reason: "mailbox_not_found"},
		persona.Outcome{Status: persona.StatusInvalid, Reason: "mailbox_disabled"}:
		require.Equal(t, 5, codes[0]/100, what)
	}
}

func TestServerOnLoopback(t *testing.T) {
	free := netip.MustParseAddrPort("127.0.0.1:0")
	s, err := Start(t.Context(), world.Config{Network: netip.MustParsePrefix("127.80.0.0/16"), SMTPPort: world.AnyPort,
		DNS: free, HTTP: free}, Loopback{})
	require.NoError(t, err)
	m, _, err := new(dns.Client).Exchange(new(dns.Msg).SetQuestion("gmail.com.", dns.TypeMX), s.DNS.String())
	require.NoError(t, err)
	require.NotEmpty(t, m.Answer)
	records, _ := s.World.RecordsOf(strings.TrimSuffix(m.Answer[0].(*dns.MX).Mx, "."))
	conn, err := net.Dial("tcp", netip.AddrPortFrom(records.Addrs[0], s.SMTPPort).String())
	require.NoError(t, err)
	gmail, _ := s.World.Domain("gmail.com")
	locals := localsIn(s.World, &gmail)
	codes, _ := askRecipients(conn, locals[persona.Present]+"@gmail.com", locals[persona.Absent]+"@gmail.com")
	require.Equal(t, [2]int{250, 550}, codes)
	require.NoError(t, conn.Close())

	resp, err := http.Get("http://" + s.HTTP.String() + "/referee")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var report map[string]any
	require.NoError(t, json.Unmarshal(body, &report))
	for key, want := range map[string]any{"connections": 1.0, "recipients": 2.0, "refused": 1.0, "excesses": 0.0,
		"by": []any{}} {
		require.Equal(t, want, report[key], key)
	}
	require.NoError(t, s.Close())
}

// busyPorts is a loopback on which the TCP ports of the first free UDP ports are in use.
type busyPorts struct {
	Loopback
	taken int
}

func (c *busyPorts) Listen(at netip.AddrPort) (net.Listener, error) {
	c.taken--
	if c.taken >= 0 {
		return nil, syscall.EADDRINUSE
	}
	return c.Loopback.Listen(at)
}

func TestListenBothFindsAFreePort(t *testing.T) {
	for _, c := range []struct {
		taken int
		port  uint16
		ok    bool
	}{{0, 0, true}, {3, 0, true}, {portTries, 0, false}, {1, 53535, false}} {
		s := &Server{network: &busyPorts{taken: c.taken}}
		packets, listener, err := s.listenBoth(netip.AddrPortFrom(netip.MustParseAddr("127.80.0.1"), c.port))
		if !c.ok {
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, packets.LocalAddr().(*net.UDPAddr).Port, listener.Addr().(*net.TCPAddr).Port)
		require.NoError(t, packets.Close())
		require.NoError(t, listener.Close())
	}
}

func TestStartRejectsBadConfig(t *testing.T) {
	for what, c := range map[string]world.Config{
		"a small network":     {Network: netip.MustParsePrefix("127.1.0.0/24")},
		"an IPv6 network":     {Network: netip.MustParsePrefix("::1/64")},
		"a port out of range": {SMTPPort: 70000},
		"negative speed":      {Speedup: -1},
		"an unknown latency":  {Latency: "some"},
		"a negative latency":  {Latency: "-1s"},
		"an endless latency":  {Latency: "1h"},
		"no loopback":         {Network: netip.MustParsePrefix("10.0.0.0/8"), SMTPPort: world.AnyPort},
	} {
		_, err := Start(t.Context(), c, Loopback{})
		require.Error(t, err, what)
	}
}
