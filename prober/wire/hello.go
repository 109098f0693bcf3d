package wire

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc/keepalive"
)

// Protocol is the version of what peers say. Peers of two protocols refuse each other.
const Protocol = 1

// The times that hold a cluster together.
const (
	Lease     = 10 * time.Second // a node probes for this long after the last ping that was answered
	Patience  = 15 * time.Second // a coordinator gives a node up after this long without a word
	Keep      = 60 * time.Second // a node stays true to a silent coordinator, and keeps its results, for this long
	PingEvery = 2 * time.Second
	Grace     = 10 * time.Second // Verify ends at most this long after its hold
	DrainTime = 20 * time.Second // a node that stops waits this long for its rows to come home

	greeting     = 10 * time.Second // for the first hello
	retryLeast   = 250 * time.Millisecond
	retryMost    = 3 * time.Second
	retryRefused = 10 * time.Second
)

// Bounds of what travels.
const (
	// MaxMessage holds a batch of MaxRows rows of which each has 16 hosts of 253 octets of its own.
	MaxMessage = 24 << 20
	// DefaultMaxRows is how many rows may be under way at a node that sets no other bound.
	DefaultMaxRows = 262_144
	// DefaultWindow is how many rows of a class may be under way at a node that has no better idea.
	DefaultWindow = 2 * MaxRows
	// maxClasses is how many classes a side remembers windows of.
	maxClasses = 4096
)

// Coordinator says who attaches. Term grows with every start of the coordinator of that ID.
type Coordinator struct {
	ID   string
	Term uint64
}

// Identity is one egress identity of a node, as its hello tells it.
type Identity struct {
	Name   string // unique in the cluster: the address that receivers see, else the EHLO name
	Local  string // source address; empty where the system chooses
	Public string // what receivers see
	EHLO   string
}

// Hello is what a node said of itself when it was attached to.
type Hello struct {
	Version    string
	Identities []Identity
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
	role     string
	version  string
	protocol uint32
	table    []byte
	node     string
}

// mismatch says in words why two peers cannot work together; empty where they can.
func mismatch(us, them peer) string {
	switch {
	case us.protocol != them.protocol:
		return fmt.Sprintf("%s is probity %s and speaks protocol %d, %s is probity %s and speaks %d; install one version on all machines",
			them.role, them.version, them.protocol, us.role, us.version, us.protocol)
	case us.node != them.node:
		return fmt.Sprintf("%s means node %q, %s means node %q; check node names and addresses", them.role, them.node, us.role, us.node)
	case string(us.table) != string(them.table):
		return fmt.Sprintf("%s (probity %s) has provider table %s, %s (probity %s) has %s; give all nodes one version and one --providers file",
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

// orDiscard is log, or one that says nothing.
func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// count makes a number of rows fit the wire.
func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }
