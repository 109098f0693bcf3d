package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

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

// delegate has memberlist's callbacks, which run with its locks held: they copy, record and return.
type delegate struct{ c *Cluster }

// NodeMeta returns our metadata, whose length New has checked.
func (d delegate) NodeMeta(int) []byte { return d.c.meta }

// NotifyMsg, GetBroadcasts, LocalState and MergeRemoteState do nothing: gossip carries only the members.
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}

// NotifyJoin records a new member.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	if n.Name == d.c.cfg.Name {
		return
	}
	name, address := strings.Clone(n.Name), addressOf(n)
	m, err := readMeta(name, n.Meta)
	if err != nil {
		return // NotifyAlive has logged why
	}
	d.c.update(func(r *registry) {
		if !r.setGossip(name, address, m, time.Now()) {
			d.c.warnOnce(name, fmt.Sprintf("member %s is one too many: %d nodes are known", name, MaxNodes))
		}
	})
}

// NotifyUpdate records a member whose metadata changed.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.NotifyJoin(n) }

// NotifyLeave records a member that left or is considered dead.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.c.update(func(r *registry) { r.removeGossip(n.Name, time.Now()) })
}

// NotifyAlive refuses members of another program or version.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	if n.Name == d.c.cfg.Name {
		return nil // ourselves
	}
	_, err := readMeta(n.Name, n.Meta)
	if err != nil {
		d.c.mu.Lock()
		d.c.warnOnce(strings.Clone(n.Name), err.Error())
		d.c.mu.Unlock()
	}
	return err
}

// NotifyMerge refuses a join if NotifyAlive refuses one of the members, so that the joining member gets the error too.
func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if n.State == memberlist.StateAlive {
			if err := d.NotifyAlive(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// NotifyConflict logs that two members have one name.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.c.warnOnce("conflict "+strings.Clone(existing.Name),
		fmt.Sprintf("two members are named %s: %s and %s; the second is ignored; give it a name and a certificate of its own",
			existing.Name, addressOf(existing), addressOf(other)))
}

func addressOf(n *memberlist.Node) string {
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// logWriter passes memberlist's log lines on; they look like "[WARN] memberlist: ...".
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	level, text := slog.LevelInfo, strings.TrimSpace(string(line))
	if word, rest, ok := strings.Cut(text, "] "); ok && strings.HasPrefix(word, "[") {
		text = strings.TrimPrefix(rest, "memberlist: ")
		switch word[1:] {
		case "DEBUG":
			level = slog.LevelDebug
		case "WARN":
			level = slog.LevelWarn
		case "ERR", "ERROR":
			level = slog.LevelWarn // an error of a peer or of the network, not ours
		}
	}
	w.log.Log(context.Background(), level, "gossip", "words", text) // a constant message, so that lines can be counted
	return len(line), nil
}
