package service_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/internal/console"
	"probity/tests/harness"
)

// serveOneDomain runs a name server on loopback until the test ends. It knows the MX set of shop.example, and fails at
// everything else.
func serveOneDomain(t *testing.T) (address string) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		reply := new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		if asked := q.Question[0]; asked.Name == "shop.example." && asked.Qtype == dns.TypeMX {
			reply.SetReply(q)
			reply.Answer = []dns.RR{&dns.MX{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeMX,
				Class: dns.ClassINET, Ttl: 300}, Preference: 10, Mx: "mx.shop.example."}}
		}
		_ = w.WriteMsg(reply)
	})}
	ended := make(chan error, 1)
	listens := make(chan struct{})
	server.NotifyStartedFunc = func() { close(listens) }
	go func() { ended <- server.ActivateAndServe() }()
	<-listens
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-ended)
	})
	return packets.LocalAddr().String()
}

// TestExplainRouteAsksTheNode: with --admin the answer is that of the running server's resolvers and flags, not of this
// machine's. Without an answer of the DNS, the command fails.
func TestExplainRouteAsksTheNode(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resolver := serveOneDomain(t)
	server := startLoopbackServer(ctx, t, resolver)
	defer server.stop(t)
	explain := func(status int, args ...string) (out, words string) {
		t.Helper()
		var o, w bytes.Buffer
		c := harness.Command(ctx, append([]string{"explain", "route"}, args...)...)
		c.Stdout, c.Stderr = &o, &w
		err := c.Run()
		require.Equal(t, status, c.ProcessState.ExitCode(), "%v: %s", err, &w)
		return o.String(), w.String()
	}
	const silent = "127.0.0.1:1"
	out, _ := explain(0, "shop.example", "--admin", server.admin, "--dns", silent)
	require.Regexp(t, `(?m)^DNS says +mx$`, out)
	require.Regexp(t, `(?m)^mail hosts +mx\.shop\.example$`, out)
	require.Regexp(t, `(?m)^asked at all +no: public mail servers are asked with --egress and --mail-from only$`, out)
	require.Regexp(t, `(?m)^connections per minute +[1-9]`, out)
	require.Regexp(t, `(?m)^would be asked from +`+console.HostName()+`$`, out)
	_, words := explain(1, "gone.example", "--admin", server.admin, "--json")
	require.Equal(t, "probity: gone.example could not be looked up (servfail): check --dns of the process at "+
		server.admin+" and its resolvers, then repeat\n", words)

	out, _ = explain(0, "shop.example", "--dns", resolver)
	require.Regexp(t, `(?m)^mail hosts +mx\.shop\.example$`, out)
	require.Regexp(t, `(?m)^asked at all +no: public mail servers .* only; give those of your node, or --admin$`, out)
	out, words = explain(1, "gone.example", "--dns", resolver)
	require.Empty(t, out)
	require.Equal(t, "probity: gone.example could not be looked up (servfail): check --dns and its resolvers, then repeat\n", words)
}
