package prober

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// fastServer is a server that answers as fast as it can read: even local parts exist, odd ones do not.
func fastServer(c net.Conn) {
	defer c.Close()
	_, _ = io.WriteString(c, "220 quick\r\n")
	in, out, left := make([]byte, 64<<10), make([]byte, 0, 64<<10), 0
	for {
		n, err := c.Read(in[left:])
		if err != nil {
			return
		}
		data := in[:left+n]
		out = out[:0]
		for {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				break
			}
			line := data[:i]
			data = data[i+1:]
			switch {
			case line[0] == 'E':
				out = append(out, "250-quick\r\n250 PIPELINING\r\n"...)
			case line[0] == 'Q':
				_, _ = c.Write(append(out, "221 bye\r\n"...))
				return
			case bytes.HasPrefix(line, []byte("RCPT TO:<user")) && line[bytes.IndexByte(line, '@')-1]%2 == 0:
				out = append(out, "250 2.1.5 ok\r\n"...)
			case line[0] == 'R' && line[1] == 'C':
				out = append(out, "550 5.1.1 no such user here\r\n"...)
			default:
				out = append(out, "250 ok\r\n"...)
			}
		}
		left = copy(in, data)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// BenchmarkVerify probes 4,096 rows a batch, eight domains each, without limits, over memory. One operation is one row.
func BenchmarkVerify(b *testing.B) {
	table := `
[defaults.limits]
connections = 0
connections_per_minute = 0
recipients_per_minute = 0
recipients_per_transaction = 0
recipients_per_connection = 0
transactions_per_connection = 0
refusals_per_connection = 0
refusals_per_hour = 0
`
	h := &fakeServer{down: true}
	l := newTestNode(b, table, map[string]*fakeServer{"mx.big.example": h})
	l.start(func(c *Config) { c.MaxQueueSessions = 2 })
	defer func() { l.stop(); l.cache.Close() }()
	ln, err := l.net.Listen(netip.AddrPortFrom(h.addr, 25))
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go fastServer(c)
		}
	}()
	batches := benchBatches(b, l, (b.N+wire.MaxRows-1)/wire.MaxRows)
	b.ReportAllocs()
	b.ResetTimer()
	slots := make(chan struct{}, 3)
	for _, batch := range batches {
		slots <- struct{}{}
		go func() {
			if err := l.prober.Verify(context.Background(), batch, time.Minute, func(wire.Results) {}); err != nil {
				b.Error(err)
			}
			<-slots
		}()
	}
	for range cap(slots) {
		slots <- struct{}{}
	}
	b.ReportMetric(float64(len(batches)*wire.MaxRows)/b.Elapsed().Seconds(), "rows/s")
}

func benchBatches(b *testing.B, l *testNode, n int) []*wire.Batch {
	route := l.route("mx.big.example")
	batches := make([]*wire.Batch, n)
	for i := range batches {
		batches[i] = &wire.Batch{Job: "j", Chunk: uint64(i), MaxAge: time.Hour, Rows: make([]wire.Row, wire.MaxRows)}
		for k := range batches[i].Rows {
			a, err := engine.Parse(fmt.Sprintf("user%dx%d@d%d.example", i, k, k%8))
			if err != nil {
				b.Fatal(err)
			}
			batches[i].Rows[k] = wire.Row{Number: uint32(k), Address: a, Route: route}
		}
	}
	return batches
}
