package smtpd

import (
	"bytes"
	"net"
	"testing"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
	"probity/internal/memnet"
)

// BenchmarkRcpt measures one pipelined recipient on both sides of the
// conversation: batches of fifty, with RSET between them.
func BenchmarkRcpt(b *testing.B) {
	for _, network := range []string{"memory", "loopback"} {
		for _, m := range []persona.Mailbox{persona.Present, persona.Absent} {
			b.Run(network+"/"+map[persona.Mailbox]string{persona.Present: "accepted", persona.Absent: "refused"}[m],
				func(b *testing.B) {
					benchmarkRcpt(b, network, m)
				})
		}
	}
}

func benchmarkRcpt(b *testing.B, network string, m persona.Mailbox) {
	const batch = 50
	w := world.New(world.Config{})
	server, err := New(w, referee.New(0))
	if err != nil {
		b.Fatal(err)
	}
	h := &harness{world: w}
	d, host := h.domainOf("postfix", world.Primary)
	clientConn, serverConn := dialHost(b, network, host)
	go server.handle(b.Context(), serverConn)
	defer clientConn.Close()

	hello := []byte("EHLO probe.example\r\nNOOP\r\n")
	clientConn.Write(hello)
	readUntil(b, clientConn, []byte("Nothing done\r\n"))
	var commands bytes.Buffer
	commands.WriteString("MAIL FROM:<ask@probe.example>\r\n")
	for range batch {
		commands.WriteString("RCPT TO:<" + h.mailbox(d, "ann", m) + ">\r\n")
	}
	commands.WriteString("RSET\r\n")
	b.ReportAllocs()
	for done := 0; done < b.N; done += batch {
		clientConn.Write(commands.Bytes())
		readUntil(b, clientConn, []byte("2.0.0 Reset\r\n"))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rcpt/s")
}

// dialHost makes a connection to the host's address, in memory or for real.
func dialHost(b *testing.B, network string, host *world.Host) (clientConn, serverConn net.Conn) {
	if network == "memory" {
		at := net.TCPAddr{IP: host.Addrs[0].AsSlice(), Port: 25}
		return memnet.Pair(clientAddr, at.AddrPort())
	}
	ln, err := net.Listen("tcp", host.Addrs[0].String()+":0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	if clientConn, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if serverConn, err = ln.Accept(); err != nil {
		b.Fatal(err)
	}
	return clientConn, serverConn
}

// readUntil reads to the end of a batch.
func readUntil(b *testing.B, conn net.Conn, end []byte) {
	buf := make([]byte, 0, 64<<10)
	for !bytes.HasSuffix(buf, end) {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		if err != nil {
			b.Fatal(err)
		}
		buf = buf[:len(buf)+n]
	}
}
