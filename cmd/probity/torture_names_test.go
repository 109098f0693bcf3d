package main

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

// nameModes is what a name server does to its answers. The last are lies that only a second server can unmask: one of two
// relays may tell them.
var nameModes = []string{"silent", "slow", "servfail", "refused", "wrong id", "wrong name", "truncated", "garbage", "doubled", "nxdomain", "nodata"}

const nameLies = 2

// nameRelay stands between resolvers and the pretend internet's name server.
type nameRelay struct {
	upstream string
	packets  net.PacketConn
	streams  net.Listener
	liar     bool
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	mode     atomic.Pointer[string] // nil while it does as it should
	all      sync.WaitGroup
	room     chan struct{} // queries under way at one time
}

const (
	nameRoom    = 256
	namePatient = 3 * time.Second
)

func newNameRelay(t *testing.T, n sim.Network, dial func(ctx context.Context, network, address string) (net.Conn, error), at, upstream string, liar bool) *nameRelay {
	r := &nameRelay{upstream: upstream, liar: liar, dial: dial, room: make(chan struct{}, nameRoom)}
	var err error
	r.packets, err = n.ListenPacket(netip.MustParseAddrPort(at))
	require.NoError(t, err)
	r.streams, err = n.Listen(netip.MustParseAddrPort(at))
	require.NoError(t, err)
	r.all.Go(r.serve)
	r.all.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *nameRelay) close() {
	_, _ = r.packets.Close(), r.streams.Close()
	r.all.Wait()
}

// become sets the mode that a chance names.
func (r *nameRelay) become(chance uint64) string {
	modes := nameModes
	if !r.liar {
		modes = modes[:len(modes)-nameLies]
	}
	mode := modes[chance%uint64(len(modes))]
	r.mode.Store(&mode)
	return mode
}

func (r *nameRelay) heal() { r.mode.Store(nil) }

func (r *nameRelay) now() string {
	if m := r.mode.Load(); m != nil {
		return *m
	}
	return ""
}

func (r *nameRelay) serve() {
	b := make([]byte, 4096)
	for {
		n, from, err := r.packets.ReadFrom(b)
		if err != nil {
			return
		}
		query := append([]byte(nil), b[:n]...)
		r.room <- struct{}{}
		r.all.Go(func() {
			defer func() { <-r.room }()
			r.answer(query, from)
		})
	}
}

// answer passes one query on and gives back what the mode makes of its answer.
func (r *nameRelay) answer(query []byte, from net.Addr) {
	mode := r.now()
	if mode == "silent" {
		return
	}
	c, err := r.dial(context.Background(), "udp", r.upstream)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(namePatient))
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
	for _, reply := range distort(mode, b[:n]) {
		_, _ = r.packets.WriteTo(reply, from) // who has gone needs no answer
	}
}

// distort is what a server in a mode sends instead of an answer.
func distort(mode string, reply []byte) [][]byte {
	var m dns.Msg
	if m.Unpack(reply) != nil {
		return [][]byte{reply}
	}
	switch mode {
	case "servfail", "refused", "nxdomain":
		m.Rcode = map[string]int{"servfail": dns.RcodeServerFailure, "refused": dns.RcodeRefused, "nxdomain": dns.RcodeNameError}[mode]
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

// accept passes streams on; while a mode says so it hangs up on them.
func (r *nameRelay) accept() {
	for {
		c, err := r.streams.Accept()
		if err != nil {
			return
		}
		if m := r.now(); m == "truncated" || m == "silent" {
			_ = c.Close()
			continue
		}
		r.all.Go(func() {
			defer c.Close()
			to, err := r.dial(context.Background(), "tcp", r.upstream)
			if err != nil {
				return
			}
			defer to.Close()
			deadline := time.Now().Add(namePatient)
			_, _ = c.SetDeadline(deadline), to.SetDeadline(deadline)
			join(c, to)
		})
	}
}
