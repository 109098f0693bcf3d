package dns

import (
	"net"
	"runtime"

	"golang.org/x/net/ipv4"
)

// sendQueue holds packed queries that are to be sent, one after the other; at most MaxInFlight.
type sendQueue struct {
	text  []byte
	ready []queuedQuery
}

// queuedQuery is one query in a send queue.
type queuedQuery struct {
	end int // of its text
	id  uint16
	p   *pending // it may have been answered and reused by now
	to  *server
}

func (sq *sendQueue) add(p *pending, qp *queryPacker) {
	sq.text = qp.append(sq.text, p.id, p.question, p.edns)
	sq.ready = append(sq.ready, queuedQuery{len(sq.text), p.id, p, p.server})
}

func (sq *sendQueue) reset() {
	clear(sq.ready)
	sq.text, sq.ready = sq.text[:0], sq.ready[:0]
}

// batchSize is how many datagrams one system call sends or receives at most.
const batchSize = 32

// packets sends and receives datagrams, many in one system call on Linux (sendmmsg, recvmmsg). Elsewhere it uses the
// socket itself, one at a time: on BSD the batches of x/net hold one datagram, and on Windows they always fail.
// (BenchmarkRoute)
type packets struct {
	conn  net.PacketConn
	batch *ipv4.PacketConn // conn, if it is a Linux socket; of either family, despite the name
	out   [batchSize]ipv4.Message
	in    [batchSize]ipv4.Message
}

func newPackets(conn net.PacketConn) *packets {
	p := &packets{conn: conn}
	if u, ok := conn.(*net.UDPConn); ok && runtime.GOOS == "linux" {
		p.batch = ipv4.NewPacketConn(u)
	}
	for i := range p.out {
		p.out[i].Buffers = make([][]byte, 1)
	}
	return p
}

// send sends the queries of a send queue, and calls failed with each that could not be sent.
func (p *packets) send(sq *sendQueue, failed func(*queuedQuery)) {
	if p.batch == nil {
		p.sendEach(sq, failed)
		return
	}
	for from, k := 0, 0; k < len(sq.ready); {
		n := 0
		for ; n < batchSize && k+n < len(sq.ready); n++ {
			g := &sq.ready[k+n]
			p.out[n].Buffers[0], p.out[n].Addr = sq.text[from:g.end], g.to.udp
			from = g.end
		}
		for msgs := p.out[:n]; len(msgs) > 0; {
			sent, err := p.batch.WriteBatch(msgs, 0)
			if err != nil { // the error is that of the first that was not sent
				sent = max(sent, 0)
				failed(&sq.ready[k+n-len(msgs)+sent])
				sent++
			}
			msgs = msgs[min(sent, len(msgs)):]
		}
		k += n
	}
}

func (p *packets) sendEach(sq *sendQueue, failed func(*queuedQuery)) {
	from := 0
	for i := range sq.ready {
		g := &sq.ready[i]
		msg := append([]byte(nil), sq.text[from:g.end]...) // an in-memory network keeps it
		from = g.end
		if _, err := p.conn.WriteTo(msg, g.to.udp); err != nil {
			failed(g)
		}
	}
}

// receive waits for datagrams and calls got with each. Its bytes are valid until the next call.
func (p *packets) receive(got func(msg []byte, from net.Addr)) error {
	const size = 4096
	if p.batch == nil {
		if p.in[0].Buffers == nil {
			p.in[0].Buffers = [][]byte{make([]byte, size)}
		}
		n, from, err := p.conn.ReadFrom(p.in[0].Buffers[0])
		if err == nil {
			got(p.in[0].Buffers[0][:n], from)
		}
		return err
	}
	if p.in[0].Buffers == nil {
		for i := range p.in {
			p.in[i].Buffers = [][]byte{make([]byte, size)}
		}
	}
	n, err := p.batch.ReadBatch(p.in[:], 0)
	for i := range max(n, 0) {
		got(p.in[i].Buffers[0][:p.in[i].N], p.in[i].Addr)
	}
	return err
}
