package verify

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/internal/console"
	"probity/internal/nodeflags"
)

// resolverOnLoopback receives queries, and answers them with answer, or not at all if it is nil.
func resolverOnLoopback(t *testing.T, answer dns.HandlerFunc) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	if answer == nil {
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
	} else {
		s, started, ended := &dns.Server{PacketConn: conn, Handler: answer}, make(chan struct{}), make(chan error, 1)
		s.NotifyStartedFunc = func() { close(started) }
		go func() { ended <- s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { require.NoError(t, s.Shutdown()); require.NoError(t, <-ended) })
	}
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func serverFailure(w dns.ResponseWriter, q *dns.Msg) {
	_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeServerFailure))
}

// TestRunWithoutAnyDNSAnswerFails: the result is written and the error names the resolver. SERVFAIL is an answer, and a
// run that asks nothing has nothing to miss.
func TestRunWithoutAnyDNSAnswerFails(t *testing.T) {
	const valid, syntax = "ann@shop.example", "not an address"
	for name, c := range map[string]struct {
		answer dns.HandlerFunc
		email  string
		fails  bool
	}{
		"no answer":      {nil, valid, true},
		"only SERVFAIL":  {serverFailure, valid, false},
		"nothing to ask": {nil, syntax, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := resolverOnLoopback(t, c.answer)
			check := func(err error) {
				t.Helper()
				if !c.fails {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, "no resolver of ["+server.String()+"] answered a query")
				require.ErrorContains(t, err, "probity doctor")
				require.NotContains(t, err.Error(), "\n")
			}
			list, result := writeList(t)
			require.NoError(t, os.WriteFile(list, []byte("email\n"+c.email+"\n"), 0o600))
			ofList := newListCommand(list, result)
			ofList.DNS = []nodeflags.ResolverAddr{{AddrPort: server}}
			check(ofList.Run(t.Context(), quietConsole()))
			require.FileExists(t, result)
			require.NoDirExists(t, result+progressFolder)

			var out bytes.Buffer
			ofAddress := newListCommand(c.email, "")
			ofAddress.DNS, ofAddress.Timeout = ofList.DNS, time.Minute
			if c.answer == nil {
				ofAddress.Timeout = 100 * time.Millisecond
			}
			check(ofAddress.verifyAddresses(t.Context(), &console.IO{Out: &out, Err: io.Discard}, quietConsole().Log()))
			require.Equal(t, 2, strings.Count(out.String(), "\n"), "a head and an answer: %s", out.String())
		})
	}
}
