package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// Protocol is the version of the metadata. Nodes of another are not taken in.
const Protocol = 1

// Role is what a member of the gossip is.
type Role string

// The roles.
const (
	RoleCoordinator Role = "coordinator"
	RoleProber      Role = "prober"
)

// meta is what a member tells of itself in gossip. Identities are not in it: they have no bound of 512 octets.
type meta struct {
	Protocol int    `json:"p"`
	Role     Role   `json:"r"`
	Listen   string `json:"l,omitempty"`
	Version  string `json:"v,omitempty"`
}

// encode makes the octets that travel.
func (m meta) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("the listen address and version take %d octets of gossip; at most %d fit", len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

// readMeta reads what a member tells. Its error says why that one cannot be taken in.
func readMeta(name string, b []byte) (meta, error) {
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("member %s is not of this program: its metadata cannot be read", name)
	}
	if m.Protocol != Protocol {
		return m, fmt.Errorf("member %s (probity %s) speaks cluster protocol %d, we speak %d; install one version on all machines", name, m.Version, m.Protocol, Protocol)
	}
	if m.Role != RoleCoordinator && m.Role != RoleProber {
		return m, fmt.Errorf("member %s plays no part that we know: %q", name, m.Role)
	}
	return m, nil
}
