package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// exchangeTCP sends one query over a new connection (RFC 7766 section 5): few answers are that large.
func (r *Resolver) exchangeTCP(ctx context.Context, s *server, q question) answer {
	if !r.acquire(ctx) {
		return answer{outcome: timedOut}
	}
	defer r.release()
	r.counts.tcp.Add(1)
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	conn, err := r.cfg.Dial(ctx, "tcp", s.text)
	if err != nil {
		return tcpFailure(ctx, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	a, err := exchangeOn(conn, q)
	if err != nil {
		return tcpFailure(ctx, err)
	}
	return a
}

// tcpFailure distinguishes a timeout from a server that refuses TCP.
func tcpFailure(ctx context.Context, err error) answer {
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return answer{outcome: timedOut}
	}
	return answer{outcome: servFail}
}

// exchangeOn sends one query and reads one answer, each after its length (RFC 1035 section 4.2.2).
func exchangeOn(conn net.Conn, q question) (answer, error) {
	id := uint16(rand.Uint32())
	msg := newQueryPacker().append(make([]byte, 2), id, q, withEDNS)
	binary.BigEndian.PutUint16(msg, uint16(len(msg)-2))
	if _, err := conn.Write(msg); err != nil {
		return answer{}, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return answer{}, err
	}
	msg = make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, msg); err != nil {
		return answer{}, err
	}
	var r reply
	if !r.read(msg) || r.Id != id || !r.answers(q) {
		return answer{}, nil
	}
	return r.parse(q), nil
}
