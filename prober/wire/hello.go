package wire

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"google.golang.org/grpc/keepalive"

	"probity/prober/wire/timing"
)

// Protocol is the newest version of the protocol that we speak; we speak the one before too. See doc.go for the changes.
const Protocol = 3

const (
	minProtocol   = Protocol - 1
	tableProtocol = 3 // from here on a node takes the coordinator's provider table
)

// versions are the protocols that a side speaks, from least to most.
type versions struct{ lowest, highest uint32 }

// ownVersions is what we speak.
func ownVersions() versions { return versions{minProtocol, Protocol} }

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

// The times that hold a cluster together.
const (
	Lease              = timing.Lease              // a node probes for this long after the last ping that was answered
	NodeTimeout        = timing.NodeTimeout        // a coordinator gives a node up after this long without a message
	CoordinatorTimeout = timing.CoordinatorTimeout // a node waits for a silent coordinator, and keeps its results, for this long
	PingEvery          = timing.PingEvery
	Grace              = 10 * time.Second // Verify ends at most this long after its hold
	DrainTime          = 20 * time.Second // a node that stops waits this long for its rows to be returned

	helloTimeout     = 10 * time.Second // for the first hello
	minRetryWait     = 250 * time.Millisecond
	maxRetryWait     = timing.MaxRetryWait
	refusedRetryWait = 10 * time.Second
)

// Bounds of messages.
const (
	// MaxMessage holds a batch of MaxRows rows of which each has 16 hosts of 253 octets of its own.
	MaxMessage = 24 << 20
	// DefaultMaxRows is how many rows may be under way at a node that sets no other bound.
	DefaultMaxRows = 262_144
	// DefaultWindow is how many rows of a class may be under way at a node that sets no other window.
	DefaultWindow = 2 * MaxRows
	// maxClasses is how many classes a side remembers windows of.
	maxClasses = 4096
	// maxClassName bounds the bytes of a class's name: a route's key is a host's name and some more.
	maxClassName = 1024
	// A message of results has at most maxResults bytes and maxResult more for each row, names included.
	maxResults = 8192
	maxResult  = 1024
)

// Coordinator says which coordinator attaches. Term grows with every start of the coordinator of that ID.
type Coordinator struct {
	ID   string
	Term uint64
}

// Identity is one egress source of a node, as in its hello.
type Identity struct {
	Name   string // unique in the cluster: the address that receivers see, else the EHLO name
	Local  string // source address; empty where the system chooses
	Public string // what receivers see
	EHLO   string
}

// Hello is what a node says of itself when a coordinator attaches.
type Hello struct {
	Version    string
	Identities []Identity
	Fresh      bool // it had asked no receiver since its start, nor was it at work in the hour before
}

func identityFrames(ids []Identity) []*IdentityFrame {
	frames := make([]*IdentityFrame, len(ids))
	for i, id := range ids {
		frames[i] = &IdentityFrame{Name: id.Name, Local: id.Local, Public: id.Public, Ehlo: id.EHLO}
	}
	return frames
}

func readIdentities(frames []*IdentityFrame) []Identity {
	ids := make([]Identity, len(frames))
	for i, f := range frames {
		ids[i] = Identity{Name: f.GetName(), Local: f.GetLocal(), Public: f.GetPublic(), EHLO: f.GetEhlo()}
	}
	return ids
}

// peer is what one side knows of the other's hello that must agree with its own.
type peer struct {
	role      string
	version   string
	protocols versions
	table     []byte
	node      string
}

// mismatch says why two peers cannot work together; empty where they can.
func mismatch(us, them peer) string {
	switch {
	case us.protocols.common(them.protocols) == 0:
		return fmt.Sprintf("%s is probity %s and speaks protocol %s, %s is probity %s and speaks %s; update the older of the two",
			them.role, them.version, them.protocols, us.role, us.version, us.protocols)
	case us.node != them.node:
		return fmt.Sprintf("%s means node %q, %s means node %q; check node names and addresses", them.role, them.node, us.role, us.node)
	case us.protocols.common(them.protocols) < tableProtocol && string(us.table) != string(them.table):
		return fmt.Sprintf("%s (probity %s) has provider table %s, %s (probity %s) has %s, and the older of the two cannot take the other's; give both one version and one --providers file",
			them.role, them.version, hex.EncodeToString(them.table), us.role, us.version, hex.EncodeToString(us.table))
	}
	return ""
}

// Keepalive finds dead connections below the stream: pings of HTTP/2 every ten seconds, which the node must allow.
var (
	clientKeepalive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}
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

// count makes a number of rows fit the wire.
func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }
