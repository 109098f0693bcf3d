package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var testAddr = netip.MustParseAddrPort("127.16.0.9:25")

// dialPair connects a client to a listener and accepts it.
func dialPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	n := New()
	ln, err := n.Listen(testAddr)
	if err != nil {
		t.Fatal(err)
	}
	near, err = n.DialFrom(netip.MustParseAddr("127.0.0.7"))(t.Context(), "tcp", testAddr.String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

func TestConnHasItsSourceAddress(t *testing.T) {
	near, far := dialPair(t)
	if got := far.RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.0.0.7" {
		t.Error(got)
	}
	if got := far.LocalAddr().String(); got != testAddr.String() || near.RemoteAddr().String() != got {
		t.Error(got)
	}
}

func TestDialWithoutListenerIsRefused(t *testing.T) {
	n := New()
	if _, err := n.Dial(t.Context(), "tcp", testAddr.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	ln, _ := n.Listen(testAddr)
	if _, err := n.Listen(testAddr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
	waiting, _ := n.Dial(t.Context(), "tcp", testAddr.String())
	ln.Close()
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	if _, err := n.Dial(t.Context(), "tcp", testAddr.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}

func TestCloseDeliversWrittenBytes(t *testing.T) {
	near, far := dialPair(t)
	near.Write([]byte("last words"))
	near.Close()
	if got, err := io.ReadAll(far); string(got) != "last words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestConnReset(t *testing.T) {
	near, far := dialPair(t)
	near.Write([]byte("lost words"))
	near.(*Conn).SetLinger(0)
	near.Close()
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

func TestConnCarriesMoreThanItsBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := dialPair(t)
		sent := bytes.Repeat([]byte("0123456789abcdef"), maxBuffer/4)
		go func() {
			near.Write(sent)
			near.Close()
		}()
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
		}
	})
}

func TestConnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := dialPair(t)
		start := time.Now()
		near.SetReadDeadline(start.Add(3 * time.Second))
		_, err := near.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() ||
			time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		// A deadline moved while a read waits counts for that read.
		near.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			near.SetReadDeadline(time.Now())
		}()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(start) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		near.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := near.Write(make([]byte, maxBuffer+1)); n != maxBuffer || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d, %v", n, err)
		}
		near.SetReadDeadline(time.Now().Add(time.Minute))
		far.Write([]byte("x"))
		if n, err := near.Read(make([]byte, 9)); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestDialWaitsOnlyForBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		ln, _ := n.Listen(testAddr)
		defer ln.Close()
		for range maxBacklog {
			if _, err := n.Dial(t.Context(), "tcp", testAddr.String()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Dial(ctx, "tcp", testAddr.String()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestSocketExchange(t *testing.T) {
	n := New()
	server, err := n.ListenPacket(testAddr)
	if err != nil {
		t.Fatal(err)
	}
	client, err := n.Dial(t.Context(), "udp", testAddr.String())
	if err != nil {
		t.Fatal(err)
	}
	client.Write([]byte("question"))
	buf := make([]byte, 64)
	k, from, err := server.ReadFrom(buf)
	if err != nil || string(buf[:k]) != "question" || from.String() != client.LocalAddr().String() {
		t.Errorf("%q from %v, %v", buf[:k], from, err)
	}
	other, _ := n.ListenPacket(netip.MustParseAddrPort("127.0.0.9:0"))
	other.WriteTo([]byte("forged"), from)
	server.WriteTo([]byte("answer"), from)
	k, err = client.Read(buf)
	if err != nil || string(buf[:k]) != "answer" {
		t.Errorf("%q, %v", buf[:k], err)
	}
	if _, ok := client.(net.PacketConn); !ok {
		t.Error("a connected socket is no PacketConn: DNS clients would frame it as TCP")
	}
	server.Close()
	if _, err := client.Write([]byte("anyone?")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}

func TestSocketDeadlineAndLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		s, _ := n.ListenPacket(testAddr)
		s.SetReadDeadline(time.Now().Add(time.Second))
		if _, _, err := s.ReadFrom(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		s.SetReadDeadline(time.Time{})
		for range maxDatagrams + 10 {
			s.WriteTo([]byte("x"), s.LocalAddr())
		}
		if got := len(s.(*socket).queue); got != maxDatagrams {
			t.Error(got)
		}
	})
}
