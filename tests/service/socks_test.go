package service_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
)

// Replies of a SOCKS5 proxy to CONNECT (RFC 1928 section 6): succeeded, refused.
var (
	socksGranted = []byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	socksRefused = []byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0}
)

// readSOCKSRequest answers the client's greeting and reads the address of its request.
func readSOCKSRequest(client io.Writer, in *bufio.Reader) (to netip.AddrPort, err error) {
	var b [255]byte
	if _, err = io.ReadFull(in, b[:2]); err != nil {
		return to, err
	}
	if _, err = io.ReadFull(in, b[:b[1]]); err != nil {
		return to, err
	}
	if _, err = client.Write([]byte{5, 0}); err != nil {
		return to, err
	}
	if _, err = io.ReadFull(in, b[:4]); err != nil {
		return to, err
	}
	long, ok := map[byte]int{1: 4, 4: 16}[b[3]]
	if b[1] != 1 || !ok {
		return to, errors.New("not CONNECT to an address")
	}
	if _, err = io.ReadFull(in, b[:long+2]); err != nil {
		return to, err
	}
	addr, _ := netip.AddrFromSlice(b[:long])
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[long:])), nil
}
