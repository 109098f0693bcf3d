package dnsd

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// ask sends one query to the handler and writes the answer: rcode, then the
// records without owner and time to live.
func ask(w *world.World, name, kind string, udp bool) string {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[kind])
	m := New(w).answer(q, udp)
	words := []string{dns.RcodeToString[m.Rcode]}
	if m.Truncated {
		words = append(words, "TC")
	}
	for _, rr := range m.Answer {
		fields := strings.Fields(rr.String())
		words = append(words, strings.Join(fields[3:], " "))
	}
	return strings.Join(words, "; ")
}

// oddDomain finds a domain with that oddity.
func oddDomain(t *testing.T, w *world.World, odd persona.Oddity) world.Domain {
	at := slices.IndexFunc(w.Domains(), func(d world.Domain) bool { return d.Persona.Oddity == odd })
	require.GreaterOrEqual(t, at, 0, "no domain with oddity %d", odd)
	return w.Domains()[at]
}

func TestDNSOfPlainDomains(t *testing.T) {
	w := world.New(world.Config{})
	require.True(t, strings.HasPrefix(ask(w, "GMAIL.com", "MX", true),
		"NOERROR; MX 10 gmail-smtp-in.l.google.com.; MX 20 "))
	require.True(t, strings.HasPrefix(ask(w, "gmail-smtp-in.l.google.com", "A", true), "NOERROR; A 127.16.0."))
	require.Equal(t, "NOERROR", ask(w, "gmail-smtp-in.l.google.com", "AAAA", true))
	require.Equal(t, "NOERROR", ask(w, "gmail.com", "TXT", true))
	require.Equal(t, "NOERROR", ask(w, "l.google.com", "A", true), "an empty non-terminal exists")
	require.Equal(t, "NXDOMAIN", ask(w, "nowhere.example", "MX", true))
	require.Equal(t, "NXDOMAIN", ask(w, "gmial.com", "MX", true))
	require.Equal(t, "NOERROR; PTR gmail-smtp-in.l.google.com.",
		ask(w, reverseOf(w, "gmail-smtp-in.l.google.com"), "PTR", true))
	require.Equal(t, "NXDOMAIN", ask(w, "9.9.9.9.in-addr.arpa", "PTR", true))
}

func reverseOf(w *world.World, host string) string {
	r, _ := w.RecordsOf(host)
	o := r.Addrs[0].As4()
	return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", o[3], o[2], o[1], o[0])
}

func TestDNSOfOddDomains(t *testing.T) {
	w := world.New(world.Config{})
	mailDomain := func(odd persona.Oddity) string { return oddDomain(t, w, odd).Name }
	host := func(odd persona.Oddity) string { return oddDomain(t, w, odd).MX[0].Host }
	for _, tc := range []struct {
		what, name, kind string
		want             string // a beginning
	}{
		{"nxdomain", mailDomain(persona.NXDomain), "MX", "NXDOMAIN"},
		{"no records", mailDomain(persona.NoRecords), "MX", "NOERROR"},
		{"no records", mailDomain(persona.NoRecords), "A", "NOERROR"},
		{"null mx", mailDomain(persona.NullMX), "MX", "NOERROR; MX 0 ."},
		{"servfail", mailDomain(persona.ServFail), "MX", "SERVFAIL"},
		{"host servfail", mailDomain(persona.HostServFail), "MX", "NOERROR; MX 10"},
		{"host servfail", host(persona.HostServFail), "A", "SERVFAIL"},
		{"loop", mailDomain(persona.CNAMELoop), "MX", "SERVFAIL"},
		{"unroutable", host(persona.Unroutable), "A", "NOERROR; A 0.0.0.0; A 240.0.0.1"},
		{"dangling", host(persona.DanglingMX), "A", "NXDOMAIN"},
		{"implicit", mailDomain(persona.ImplicitMX), "MX", "NOERROR"},
		{"implicit", mailDomain(persona.ImplicitMX), "A", "NOERROR; A 127."},
		{"alias", mailDomain(persona.CNAMEDomain), "MX", "NOERROR; CNAME real-"},
		{"host alias", host(persona.CNAMEHost), "A", "NOERROR; CNAME real-"},
		{"ipv6", host(persona.IPv6Only), "AAAA", "NOERROR; AAAA ::1"},
		{"dead", host(persona.DeadPrimary), "A", "NOERROR; A 127."},
	} {
		require.True(t, strings.HasPrefix(ask(w, tc.name, tc.kind, true), tc.want), "%s: %s %s", tc.what, tc.name,
			ask(w, tc.name, tc.kind, true))
	}
	require.Equal(t, "NOERROR", ask(w, mailDomain(persona.ImplicitMX), "MX", true), "an implicit MX is no record")
	require.Contains(t, ask(w, mailDomain(persona.CNAMEDomain), "MX", true), "; MX 10")
	require.Contains(t, ask(w, host(persona.CNAMEHost), "A", true), "; A 127.")
	require.Equal(t, "NOERROR; TC", ask(w, mailDomain(persona.TruncatedUDP), "MX", true))
	require.Contains(t, ask(w, mailDomain(persona.TruncatedUDP), "MX", false), "NOERROR; MX 10")
	r, _ := w.RecordsOf(host(persona.DeadPrimary))
	dead, known := w.HostAt(r.Addrs[0])
	require.True(t, known && dead.Role == world.Dead)
}

// RFC 2308: a negative answer has an SOA with its time to live.
func TestNegativeDNSAnswersHaveSOA(t *testing.T) {
	w := world.New(world.Config{})
	for _, name := range []string{"nowhere.example.", "gmail.com."} {
		m := New(w).answer(new(dns.Msg).SetQuestion(name, dns.TypeTXT), true)
		require.Len(t, m.Ns, 1, name)
		require.IsType(t, &dns.SOA{}, m.Ns[0])
	}
}

func TestDNSServesBothTransports(t *testing.T) {
	w := world.New(world.Config{})
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(w).Serve(ctx, packets, listener) }()
	for network, at := range map[string]net.Addr{"udp": packets.LocalAddr(), "tcp": listener.Addr()} {
		client := dns.Client{Net: network}
		m, _, err := client.Exchange(new(dns.Msg).SetQuestion(oddDomain(t, w, persona.TruncatedUDP).Name+".",
			dns.TypeMX), at.String())
		require.NoError(t, err)
		require.Equal(t, network == "udp", m.Truncated)
		require.Equal(t, network == "tcp", len(m.Answer) > 0)
	}
	idle, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer idle.Close()
	cancel()
	begun := time.Now()
	require.NoError(t, <-ended)
	require.Less(t, time.Since(begun), 2*time.Second, "idle clients hold nothing up")
}

func FuzzReverse(f *testing.F) {
	f.Add("1.0.16.127.in-addr.arpa.")
	f.Add("")
	f.Fuzz(func(t *testing.T, name string) {
		if addr, ok := fromReverse(name); ok && !addr.Is4() {
			t.Fatal(addr)
		}
	})
}
