//go:build linux

package mta

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// nameServer answers for the domains of the test network, to the prober and to the servers; any other name does not
// exist.
type nameServer struct {
	mu      sync.Mutex // guards records
	records map[string][]dns.RR
}

func newNameServer(t *testing.T, address string) *nameServer {
	n := &nameServer{records: map[string][]dns.RR{}}
	for _, network := range []string{"udp", "tcp"} {
		up := make(chan struct{})
		s := &dns.Server{Addr: net.JoinHostPort(address, "53"), Net: network, Handler: n,
			NotifyStartedFunc: func() { close(up) }}
		failed := make(chan error, 1)
		go func() { failed <- s.ListenAndServe() }()
		select {
		case <-up:
		case err := <-failed:
			require.NoError(t, err)
		}
		t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	}
	return n
}

// addHost gives a name an address, and the address that name.
func (n *nameServer) addHost(t *testing.T, name, address string) {
	reverse, err := dns.ReverseAddr(address)
	require.NoError(t, err)
	n.addRecord(t, name+". 60 IN A "+address)
	n.addRecord(t, reverse+" 60 IN PTR "+name+".")
}

// addDomain gives a domain its mail server, and an SPF record that names it.
func (n *nameServer) addDomain(t *testing.T, name, mx string) {
	n.addRecord(t, name+". 60 IN MX 10 "+mx+".")
	n.addRecord(t, name+`. 60 IN TXT "v=spf1 mx -all"`)
}

func (n *nameServer) addRecord(t *testing.T, line string) {
	rr, err := dns.NewRR(line)
	require.NoError(t, err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.records[rr.Header().Name] = append(n.records[rr.Header().Name], rr)
}

// ServeDNS answers one query.
func (n *nameServer) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative, m.RecursionAvailable = true, true
	if len(q.Question) == 1 {
		n.mu.Lock()
		known, ok := n.records[strings.ToLower(q.Question[0].Name)]
		n.mu.Unlock()
		if !ok {
			m.Rcode = dns.RcodeNameError
		}
		for _, rr := range known {
			if rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
	}
	_ = w.WriteMsg(m) // a client without an answer retries
}
