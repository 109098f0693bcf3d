package service_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/bench/sim"
)

// dnsModes are faults of a name server's answers. The last are false answers that only a second server can reveal: only
// one of two relays may give them.
var dnsModes = []string{"silent", "slow", "servfail", "refused", "wrong id", "wrong name", "truncated", "garbage",
	"doubled", "nxdomain", "nodata"}

const dnsLies = 2

// dnsRelay stands between resolvers and the simulated internet's name server.
type dnsRelay struct {
	upstream string
	packets  net.PacketConn
	streams  net.Listener
	mayLie   bool
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	mode     atomic.Pointer[string] // nil without a fault
	wg       sync.WaitGroup
	slots    chan struct{} // queries in flight
}

const (
	dnsMaxQueries = 256
	dnsTimeout    = 3 * time.Second
)

func newDNSRelay(t *testing.T, n sim.Network, dial func(ctx context.Context, network, address string) (net.Conn, error),
	at, upstream string, mayLie bool) *dnsRelay {
	r := &dnsRelay{upstream: upstream, mayLie: mayLie, dial: dial, slots: make(chan struct{}, dnsMaxQueries)}
	var err error
	r.packets, err = n.ListenPacket(netip.MustParseAddrPort(at))
	require.NoError(t, err)
	r.streams, err = n.Listen(netip.MustParseAddrPort(at))
	require.NoError(t, err)
	r.wg.Go(r.serve)
	r.wg.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *dnsRelay) close() {
	_, _ = r.packets.Close(), r.streams.Close()
	r.wg.Wait()
}

// setMode sets the mode of a random number.
func (r *dnsRelay) setMode(chance uint64) string {
	modes := dnsModes
	if !r.mayLie {
		modes = modes[:len(modes)-dnsLies]
	}
	mode := modes[chance%uint64(len(modes))]
	r.mode.Store(&mode)
	return mode
}

func (r *dnsRelay) heal() { r.mode.Store(nil) }

func (r *dnsRelay) currentMode() string {
	if m := r.mode.Load(); m != nil {
		return *m
	}
	return ""
}

func (r *dnsRelay) serve() {
	b := make([]byte, 4096)
	for {
		n, from, err := r.packets.ReadFrom(b)
		if err != nil {
			return
		}
		query := append([]byte(nil), b[:n]...)
		r.slots <- struct{}{}
		r.wg.Go(func() {
			defer func() { <-r.slots }()
			r.answer(query, from)
		})
	}
}

// answer forwards one query and returns the answer, changed by the mode.
func (r *dnsRelay) answer(query []byte, from net.Addr) {
	mode := r.currentMode()
	if mode == "silent" {
		return
	}
	c, err := r.dial(context.Background(), "udp", r.upstream)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(dnsTimeout))
	if _, err := c.Write(query); err != nil {
		return
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		return
	}
	if mode == "slow" {
		<-time.After(700 * time.Millisecond)
	}
	for _, reply := range distortReply(mode, b[:n]) {
		_, _ = r.packets.WriteTo(reply, from) // the client may have gone away
	}
}

// distortReply returns what a server with a fault sends instead of an answer.
func distortReply(mode string, reply []byte) [][]byte {
	var m dns.Msg
	if m.Unpack(reply) != nil {
		return [][]byte{reply}
	}
	switch mode {
	case "servfail", "refused", "nxdomain":
		m.Rcode = map[string]int{"servfail": dns.RcodeServerFailure, "refused": dns.RcodeRefused,
			"nxdomain": dns.RcodeNameError}[mode]
		m.Answer, m.Ns = nil, nil
	case "nodata":
		m.Answer, m.Ns = nil, nil
	case "wrong id":
		wrong := append([]byte(nil), reply...)
		wrong[0] ^= 0x55
		return [][]byte{wrong, reply}
	case "wrong name":
		m.Question[0].Name = "somebody.else.example."
		wrong, _ := m.Pack()
		return [][]byte{wrong, reply}
	case "truncated":
		m.Truncated, m.Answer = true, nil
	case "garbage":
		return [][]byte{reply[:len(reply)*2/3], {1, 2, 3}}
	case "doubled":
		return [][]byte{reply, reply}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return [][]byte{out}
}

// accept forwards streams, or closes them in some modes.
func (r *dnsRelay) accept() {
	for {
		c, err := r.streams.Accept()
		if err != nil {
			return
		}
		if m := r.currentMode(); m == "truncated" || m == "silent" {
			_ = c.Close()
			continue
		}
		r.wg.Go(func() {
			defer c.Close()
			to, err := r.dial(context.Background(), "tcp", r.upstream)
			if err != nil {
				return
			}
			defer to.Close()
			deadline := time.Now().Add(dnsTimeout)
			_, _ = c.SetDeadline(deadline), to.SetDeadline(deadline)
			pipeConns(c, to)
		})
	}
}
