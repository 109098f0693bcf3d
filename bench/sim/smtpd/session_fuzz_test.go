package smtpd

import (
	"bytes"
	"io"
	"net"
	"testing"

	"probity/bench/sim/referee"
	"probity/bench/sim/world"
	"probity/internal/memnet"
)

// FuzzSession sends any bytes: the server must answer with reply lines
// only, and end when the client does.
func FuzzSession(f *testing.F) {
	f.Add([]byte("EHLO a\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<x@y.example>\r\nDATA\r\nQUIT\r\n"))
	f.Add([]byte("ehlo a\nmail from:<>\nrcpt to:<\"a>b\"@c>\nrset\n\n\x00\xff\n"))
	f.Add(bytes.Repeat([]byte("X"), inputSize+1))
	w := world.New(world.Config{})
	server, err := New(w, referee.New(0))
	if err != nil {
		f.Fatal(err)
	}
	var host world.Host
	for _, h := range w.Hosts() {
		if h.Persona.Name == "few-recipients" && h.Role == world.Primary {
			host = h
		}
	}
	at := net.TCPAddr{IP: host.Addrs[0].AsSlice(), Port: 25}
	f.Fuzz(func(t *testing.T, input []byte) {
		if bytes.Contains(bytes.ToUpper(input), []byte("STARTTLS")) {
			return // what follows is no text
		}
		clientConn, serverConn := memnet.Pair(clientAddr, at.AddrPort())
		go server.handle(t.Context(), serverConn)
		go func() {
			clientConn.Write(input)
			clientConn.CloseWrite()
		}()
		said, _ := io.ReadAll(clientConn)
		clientConn.Close()
		for _, line := range bytes.SplitAfter(said, []byte("\r\n")) {
			if len(line) == 0 {
				continue
			}
			if len(line) < 6 || line[0] < '2' || line[0] > '5' || line[3] != ' ' && line[3] != '-' ||
				line[len(line)-1] != '\n' {
				t.Fatalf("%q", line)
			}
		}
	})
}
