package smtp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"probity/engine"
)

// Over real sockets, with TLS: from dialling until the server sees our close.
func TestOverTCP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no loopback:", err)
	}
	defer ln.Close()
	sawEnd := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			sawEnd <- err
			return
		}
		sawEnd <- serveTLS(conn)
	}()
	d := Dialer{AllowPrivate: true, Local: netip.MustParseAddr("127.0.0.1"), Dial: dialFrom}
	conn, f := d.DialContext(t.Context(), ln.Addr().(*net.TCPAddr).AddrPort())
	if conn == nil {
		t.Fatal(describe(f))
	}
	s, f := Open(t.Context(), conn, Config{EHLO: "probe.example.net"}, "mx.example.org")
	if s == nil || !s.secure {
		t.Fatal(describe(f))
	}
	if o := s.Transaction(t.Context(), manyRcpts(20_000), func(int, engine.Reply) {}); o.Answered != 20_000 {
		t.Errorf("%d answered, %s", o.Answered, describe(o.Fault))
	}
	s.Quit(t.Context())
	if err := <-sawEnd; err != nil {
		t.Error(err)
	}
}

// TestCancellationResetsTheConnection: after a cancellation the server sees the reset at once, and gets no more of what
// was sent.
func TestCancellationResetsTheConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no loopback:", err)
	}
	defer ln.Close()
	asked, sawEnd := make(chan struct{}), make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = io.WriteString(conn, "220 mx\r\n")
			_, err = bufio.NewReader(conn).ReadString('\n')
			close(asked)
		}
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		sawEnd <- err
	}()
	conn, err := dialFrom(t.Context(), netip.MustParseAddr("127.0.0.1"), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	go func() {
		<-asked
		giveUp()
	}()
	if s, f := Open(ctx, conn, Config{EHLO: "probe.example.net"}, "mx"); s != nil || f.Event != engine.EventInternal {
		t.Error(describe(f))
	}
	if err := <-sawEnd; !errors.Is(err, syscall.ECONNRESET) {
		t.Error("the server saw", err)
	}
}

func dialFrom(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))}
	return d.DialContext(ctx, network, address)
}

// serveTLS plays a server with STARTTLS and PIPELINING. It returns once its socket is closed.
func serveTLS(raw net.Conn) error {
	conn, in := raw, bufio.NewReader(raw)
	if _, err := io.WriteString(conn, "220 mx\r\n"); err != nil {
		return err
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(line, "EHLO"):
			_, err = io.WriteString(conn, "250-mx\r\n250-STARTTLS\r\n250 PIPELINING\r\n")
		case strings.HasPrefix(line, "STARTTLS"):
			_, _ = io.WriteString(conn, "220 ready\r\n")
			conn = tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{certificate()}})
			in = bufio.NewReader(conn)
		case strings.HasPrefix(line, "QUIT"):
			_, _ = io.WriteString(conn, "221 bye\r\n")
			return conn.Close()
		default:
			_, err = io.WriteString(conn, "250 ok\r\n")
		}
		if err != nil {
			return err
		}
	}
}
