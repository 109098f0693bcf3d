package cluster

import "time"

// State is the state of a node.
type State uint8

// The states; the zero value is a node that is not part of the work.
const (
	Gone State = iota
	Alive
	Suspect
	Draining
)

var stateNames = [...]string{"gone", "alive", "suspect", "draining"}

func (s State) String() string { return stateNames[s] }

// Identity is an egress identity of a node.
type Identity struct {
	Name   string // unique in the cluster: the address that receivers see, else the EHLO name
	Local  string
	Public string
	EHLO   string
}

// Node is a prober node as of one View.
type Node struct {
	Name       string
	Gossip     string // address of its gossip; empty if gossip does not have it
	Listen     string // where it accepts streams
	Version    string
	State      State
	Usable     bool // it takes work now
	Since      time.Time
	Identities []Identity
	Problem    string // why it is not usable, for people
}

// Share is an identity that owns keys.
type Share struct {
	Identity
	Node   string
	Usable bool // work may be sent now; else it waits
}

// View is the cluster at one moment. It is immutable: read only.
type View struct {
	Serial uint64
	Nodes  []Node  // by name
	Shares []Share // by identity name
	Rivals []string
	// Problem says why no seed could be joined, while no other member is reached.
	Problem string
}

// Node finds a node by name.
func (v *View) Node(name string) (Node, bool) {
	for i := range v.Nodes {
		if v.Nodes[i].Name == name {
			return v.Nodes[i], true
		}
	}
	return Node{}, false
}
