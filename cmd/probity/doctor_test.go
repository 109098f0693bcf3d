package main

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// contextType is the type under which commands get their context.
type contextType = context.Context

// nameServer answers on loopback, over UDP and TCP, from a small zone.
func nameServer(t *testing.T, zone ...string) netip.AddrPort {
	records := map[string][]dns.RR{}
	for _, line := range zone {
		rr, err := dns.NewRR(line)
		require.NoError(t, err)
		records[rr.Header().Name] = append(records[rr.Header().Name], rr)
	}
	answer := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg)
		r.SetReply(q)
		r.RecursionAvailable = true
		r.SetEdns0(1232, false)
		name := strings.ToLower(q.Question[0].Name)
		for _, rr := range records[name] {
			if rr.Header().Rrtype == q.Question[0].Qtype {
				r.Answer = append(r.Answer, rr)
			}
		}
		if records[name] == nil && name != "." {
			r.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(r)
	})
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	require.NoError(t, err)
	for _, s := range []*dns.Server{{Listener: tcp, Handler: answer}, {PacketConn: udp, Handler: answer}} {
		started, ended := make(chan struct{}), make(chan error, 1)
		s.NotifyStartedFunc = func() { close(started) }
		go func() { ended <- s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown(); <-ended })
	}
	return netip.MustParseAddrPort(tcp.Addr().String())
}

func TestDoctorPrintsOneLinePerFinding(t *testing.T) {
	server := nameServer(t, "mx.sender.org. A 127.0.0.1", "1.0.0.127.in-addr.arpa. PTR mx.sender.org.",
		"sender.org. SOA ns.sender.org. h.sender.org. 1 2 3 4 5", "sender.org. MX 0 .",
		`sender.org. TXT "v=spf1 ip4:127.0.0.1 -all"`)
	args := []string{"--dns", server.String(), "--egress", "127.0.0.1=mx.sender.org", "--mail-from", "probe@sender.org",
		"--allow-private-targets",
		"--dnsbl", "none", "--data", t.TempDir()}
	out, err := runCommand(t, &doctorCmd{}, args...)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ok +ptr +127\.0\.0\.1 +mx\.sender\.org, and back$`, out)
	require.Regexp(t, `(?m)^ok +spf `, out)
	require.Regexp(t, `(?m)^fail +mx +sender\.org +null MX.*; publish an MX record`, out)
	require.Regexp(t, `(?m)^ok +resolver +127\.0\.0\.1:\d+ +answers over UDP and TCP`, out)
	require.Regexp(t, `(?m)^warn +resolver +all +only one resolver; `, out)
	require.Regexp(t, `(?m)^\d+ ok, \d+ to look at, \d+ failing, \d+ not known$`, out)

	out, err = runCommand(t, &doctorCmd{}, append(args, "--json", "--strict")...)
	require.ErrorIs(t, err, errFailing)
	var report struct {
		Counts   map[string]int
		Findings []struct{ Check, Subject, Level, What, Do string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, len(report.Findings), report.Counts["ok"]+report.Counts["warn"]+report.Counts["fail"]+
		report.Counts["unknown"])
}
