package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The names of the dns scenario: n000001.names.bench.example has a null MX (RFC 7505), d000002.names.bench.example does
// not exist. One query decides either, without a mail server.
const (
	namesZone = ".names.bench.example"
	nameWidth = 7
)

// nameOf is the i-th name.
func nameOf(i int) string { return string("dn"[i%2]) + fmt.Sprintf("%0*d", nameWidth, i) + namesZone }

// nameServer answers for nameOf(0) to nameOf(names-1), and counts its queries. It is as bare as its client: one
// datagram in, one out.
type nameServer struct {
	conn  *net.UDPConn
	names int

	asked   []atomic.Uint32 // MX queries by name
	others  atomic.Int64    // queries of other types or names
	first   atomic.Int64    // Unix nanoseconds of the first query
	last    atomic.Int64    // and of the last
	readers sync.WaitGroup
}

// startNameServer listens on loopback. It must be closed.
func startNameServer(names int) (*nameServer, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	// A burst of a client must fit into the buffers.
	if err := errors.Join(conn.SetReadBuffer(4<<20), conn.SetWriteBuffer(4<<20)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s := &nameServer{conn: conn, names: names, asked: make([]atomic.Uint32, names)}
	for range 2 {
		s.readers.Go(s.serve)
	}
	return s, nil
}

// close ends the server.
func (s *nameServer) close() error {
	err := s.conn.Close()
	s.readers.Wait()
	return err
}

// addr is the address where it listens.
func (s *nameServer) addr() netip.AddrPort { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

func (s *nameServer) serve() {
	in, out := make([]byte, 4096), make([]byte, 0, 4096)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(in)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an answer that could not be delivered
		}
		out = s.answer(out[:0], in[:n])
		if len(out) > 0 {
			_, _ = s.conn.WriteToUDPAddrPort(out, from) // the client retries lost datagrams
		}
	}
}

// DNS by hand (RFC 1035 section 4.1): the header's length, response codes, the type MX.
const (
	headerLength = 12
	noSuchName   = 3
	typeMX       = 15
	negativeTTL  = 300
)

// answer appends the answer to a query; nothing for a bad query.
func (s *nameServer) answer(dst, query []byte) []byte {
	name, end, ok := readQuestion(query)
	if !ok {
		return dst
	}
	i := indexOf(name)
	mx := binary.BigEndian.Uint16(query[end-4:]) == typeMX
	known := i >= 0 && i < s.names
	now := time.Now().UnixNano()
	s.first.CompareAndSwap(0, now)
	s.last.Store(now)
	if known && mx {
		s.asked[i].Add(1)
	} else {
		s.others.Add(1)
	}
	// a response, authoritative, recursion as asked and available
	dst = append(dst, query[0], query[1], 0x84|query[2]&1, 0x80)
	dst = append(dst, 0, 1, 0, 0, 0, 0, 0, 0)
	dst = append(dst, query[headerLength:end]...)
	switch {
	case known && i%2 == 1 && mx:
		dst[7] = 1 // one answer: MX 0 .
		return append(dst, 0xc0, headerLength, 0, typeMX, 0, 1, 0, 0, 1, 0x2c, 0, 3, 0, 0, 0)
	case name == "": // the root exists: a resolver does not trust a server that denies it
	case !known || i%2 == 0:
		dst[3] |= noSuchName
	}
	dst[9] = 1 // one authority: SOA, which says how long the answer holds (RFC 2308)
	return appendSOA(dst)
}

func appendSOA(dst []byte) []byte {
	dst = append(dst, 0, 0, 6, 0, 1, 0, 0, 1, 0x2c, 0, 22, 0, 0) // of the root, names of the root
	for _, v := range [5]uint32{1, 3600, 600, 86400, negativeTTL} {
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	return dst
}

// readQuestion finds the first label of the only question and the question's end.
func readQuestion(query []byte) (first string, end int, ok bool) {
	if len(query) < headerLength || query[2]&0x80 != 0 || binary.BigEndian.Uint16(query[4:]) != 1 {
		return "", 0, false
	}
	at := headerLength
	for at < len(query) && query[at] != 0 {
		label := int(query[at])
		if label > 63 || at+1+label >= len(query) {
			return "", 0, false
		}
		if at == headerLength {
			first = string(query[at+1 : at+1+label])
		}
		at += 1 + label
	}
	end = at + 1 + 4
	return first, end, end <= len(query)
}

// indexOf is the number in a first label; -1 without one.
func indexOf(label string) int {
	if len(label) != 1+nameWidth || !strings.Contains("dDnN", label[:1]) {
		return -1
	}
	i, err := strconv.Atoi(label[1:])
	if err != nil || i < 0 {
		return -1
	}
	return i
}

// counts returns how many names got an MX query, how many MX queries were repeated, and how many other queries came.
func (s *nameServer) counts() (asked, repeated, others int64) {
	for i := range s.asked {
		if n := int64(s.asked[i].Load()); n > 0 {
			asked++
			repeated += n - 1
		}
	}
	return asked, repeated, s.others.Load()
}

// span is the time from the first query to the last.
func (s *nameServer) span() time.Duration { return time.Duration(s.last.Load() - s.first.Load()) }

// reset clears the counts.
func (s *nameServer) reset() {
	s.first.Store(0)
	s.last.Store(0)
	for i := range s.asked {
		s.asked[i].Store(0)
	}
	s.others.Store(0)
}
