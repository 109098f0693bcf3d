package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// Protocol is the version of the metadata. Members with another version are refused.
const Protocol = 1

// Role is the role of a member.
type Role string

// The roles.
const (
	RoleCoordinator Role = "coordinator"
	RoleProber      Role = "prober"
)

// meta is a member's metadata in gossip. Identities are not in it: they may not fit in 512 octets.
type meta struct {
	Protocol int    `json:"p"`
	Role     Role   `json:"r"`
	Listen   string `json:"l,omitempty"`
	Version  string `json:"v,omitempty"`
}

// encode encodes the metadata for gossip.
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

// readMeta reads a member's metadata. Its error says why the member is refused.
func readMeta(name string, b []byte) (meta, error) {
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("member %s is not of this program: its metadata cannot be read", name)
	}
	if m.Protocol != Protocol {
		return m, fmt.Errorf("member %s (probity %s) speaks cluster protocol %d, we speak %d; install one version on all machines", name, m.Version, m.Protocol, Protocol)
	}
	if m.Role != RoleCoordinator && m.Role != RoleProber {
		return m, fmt.Errorf("member %s has an unknown role: %q", name, m.Role)
	}
	return m, nil
}
