package smtpd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
)

// onLoopback serves the first host of a persona on a real socket.
func onLoopback(t *testing.T, name string, speedup float64) (dial func() *smtpClient, d *world.Domain, h *harness) {
	t.Helper()
	w := world.New(world.Config{Speedup: speedup})
	h = &harness{t: t, world: w, referee: referee.New(speedup)}
	server, err := New(w, h.referee)
	if err != nil {
		t.Fatal(err)
	}
	d, host := h.domainOf(name, world.Primary)
	ln, err := net.Listen("tcp", netip.AddrPortFrom(host.Addrs[0], 0).String())
	if err != nil {
		t.Skip("this machine does not listen on all of 127.0.0.0/8: ", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { server.Serve(ctx, ln) })
	t.Cleanup(func() { stop(); ended.Wait() })
	return func() *smtpClient {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return &smtpClient{h: h, conn: conn, in: bufio.NewReader(conn)}
	}, d, h
}

func TestLoopbackReconnectIsNotAnExcess(t *testing.T) {
	dial, _, h := onLoopback(t, "outlook", 1)
	for i := range 100 {
		c := dial()
		if said := c.reply(); !strings.HasPrefix(said, "220") {
			t.Fatal(said)
		}
		if i%2 == 0 {
			c.ask("QUIT")
		}
		c.conn.Close()
	}
	if rep := h.referee.Report(); rep.Excesses != 0 || rep.Connections != 100 {
		t.Errorf("%+v", rep)
	}
}

func TestLoopbackFinalReplyArrives(t *testing.T) {
	dial, d, h := onLoopback(t, "strict", 1)
	c := dial()
	c.startTransaction()
	for range 10 { // five more than it tolerates, at once
		c.send("RCPT TO:<" + h.mailbox(d, "ann", persona.Absent) + ">")
	}
	last := ""
	for said := c.reply(); !strings.HasPrefix(said, "["); said = c.reply() {
		last = said
	}
	if !strings.HasPrefix(last, "421 4.7.0") || h.referee.Report().Excesses != 1 {
		t.Errorf("%q, %+v", last, h.referee.Report())
	}
}

func TestLoopbackReset(t *testing.T) {
	dial, d, h := onLoopback(t, "reset", 1)
	c := dial()
	c.startTransaction()
	c.send("RCPT TO:<" + h.mailbox(d, "ann", persona.Present) + ">")
	if _, err := io.ReadAll(c.conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}
