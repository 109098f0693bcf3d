package stream

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/grpc/keepalive"

	"probity/prober/wire"
)

// versions are the protocols that a side speaks, from least to most.
type versions struct{ lowest, highest uint32 }

// ownVersions returns what we speak.
func ownVersions() versions { return versions{max(1, wire.Protocol-1), wire.Protocol} }

// peerVersions are those of a peer's hello; without a greatest version it speaks only one.
func peerVersions(hello interface {
	GetProtocol() uint32
	GetProtocolMost() uint32
}) versions {
	return versions{hello.GetProtocol(), max(hello.GetProtocol(), hello.GetProtocolMost())}
}

// common is the greatest protocol that both speak; 0 where there is none.
func (v versions) common(o versions) uint32 {
	most := min(v.highest, o.highest)
	if most < max(v.lowest, o.lowest) {
		return 0
	}
	return most
}

func (v versions) String() string {
	if v.lowest == v.highest {
		return strconv.Itoa(int(v.lowest))
	}
	return fmt.Sprintf("%d to %d", v.lowest, v.highest)
}

// Times of the stream, next to those of package timing.
const (
	grace     = 10 * time.Second // Verify ends at most this long after its hold
	drainTime = 20 * time.Second // a node that stops waits this long for its rows to be returned

	helloTimeout     = 10 * time.Second // for the first hello
	minRetryWait     = 250 * time.Millisecond
	refusedRetryWait = 10 * time.Second
)

// Bounds of messages.
const (
	// maxMessage holds a batch of MaxRows rows of which each has 16 hosts of 253 octets of its own.
	maxMessage = 24 << 20
	// defaultMaxRows is how many rows may be under way at a node that sets no other bound.
	defaultMaxRows = 262_144
	// defaultWindow is how many rows of a class may be under way at a node that sets no other window.
	defaultWindow = 2 * wire.MaxRows
	// maxClasses is how many classes a side remembers windows of.
	maxClasses = 4096
	// maxClassName bounds the bytes of a class's name: a route's key is a host's name and some more.
	maxClassName = 1024
	// A message of results has at most maxResults bytes and maxResult more for each row, names included.
	maxResults = 8192
	maxResult  = 1024
)

// peer is what one side knows of the other's hello that must agree with its own.
type peer struct {
	role      string
	version   string
	protocols versions
	node      string
}

// mismatch says why two peers cannot work together; empty where they can.
func mismatch(us, them peer) string {
	switch {
	case us.protocols.common(them.protocols) == 0:
		return fmt.Sprintf("%s is probity %s and speaks protocol %s, %s is probity %s and speaks %s; update the older of the two",
			them.role, them.version, them.protocols, us.role, us.version, us.protocols)
	case us.node != them.node:
		return fmt.Sprintf("%s means node %q, %s means node %q; check node names and addresses", them.role, them.node,
			us.role, us.node)
	}
	return ""
}

// Keepalive finds dead connections below the stream: pings of HTTP/2 every ten seconds, which the node must allow.
var (
	clientKeepalive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second,
		PermitWithoutStream: true}
	serverKeepalive = keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}
	keepalivePolicy = keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}
)

// windowSize of HTTP/2: a batch or some parts of results fit, so that neither waits for a round trip.
const windowSize = 1 << 20

// orDiscard is log, or a logger that discards everything.
func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
