package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	rejoinInterval = 30 * time.Second
	viewInterval   = time.Second // how often states that depend on time are updated
	leaveTimeout   = 2 * time.Second
	rejoinRetry    = 3 * time.Second // while no seed has answered
)

// Config configures a Cluster. Name, Role, Transport and Keys are required; a prober needs Listen too.
type Config struct {
	Name      string // unique in the cluster, as in the node's certificate
	Role      Role
	Listen    string // where others reach our streams: HOST:PORT
	Version   string
	Transport memberlist.Transport // closed when Run returns
	Advertise string               // address at which others reach our gossip; default: that of the transport
	Port      int                  // of Advertise
	Label     string               // the cluster's name: members of another cluster are ignored
	Keys      [][]byte             // 16, 24 or 32 octets each; the first encrypts, all decrypt
	Seeds     []string             // HOST:PORT of any members; memberlist looks names up
	Log       *slog.Logger         // default: none
}

// Cluster follows one cluster's gossip.
type Cluster struct {
	cfg  Config
	meta []byte
	ring *memberlist.Keyring
	wake chan struct{} // something has changed; holds one
	view atomic.Pointer[View]

	mu       sync.Mutex // guards what follows; taken inside memberlist's own locks, never around them
	registry *registry
	changed  chan struct{}     // closed at the next View
	warned   map[string]string // subject -> last warning, so that each is logged once
}

// New makes a Cluster. It starts nothing.
func New(cfg Config) (*Cluster, error) {
	switch {
	case cfg.Name == "" || cfg.Transport == nil || len(cfg.Keys) == 0:
		return nil, errors.New("cluster: Name, Transport and Keys are needed")
	case cfg.Role != RoleCoordinator && cfg.Role != RoleProber:
		return nil, fmt.Errorf("cluster: no role %q", cfg.Role)
	case cfg.Role == RoleProber && cfg.Listen == "":
		return nil, errors.New("cluster: a prober needs an address that its streams are taken at")
	case len(cfg.Label) > memberlist.LabelMaxSize:
		return nil, fmt.Errorf("cluster: the label has %d octets; at most %d are allowed", len(cfg.Label),
			memberlist.LabelMaxSize)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	encoded, err := json.Marshal(meta{Protocol, cfg.Role, cfg.Listen, cfg.Version})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if len(encoded) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("cluster: the listen address and version take %d octets of gossip; at most %d fit",
			len(encoded), memberlist.MetaMaxSize)
	}
	ring, err := memberlist.NewKeyring(cfg.Keys[1:], cfg.Keys[0])
	if err != nil {
		return nil, fmt.Errorf("cluster: key: %w", err)
	}
	c := &Cluster{cfg: cfg, meta: encoded, ring: ring, wake: make(chan struct{}, 1), registry: newRegistry(),
		changed: make(chan struct{}), warned: map[string]string{}}
	c.view.Store(&View{})
	return c, nil
}

// View returns the current view. It never changes; a later call may return another.
func (c *Cluster) View() *View { return c.view.Load() }

// Changed returns the current View and a channel that is closed when there is a later one.
func (c *Cluster) Changed() (*View, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view.Load(), c.changed
}

// Stream sets the state of the stream to a node. The View follows.
func (c *Cluster) Stream(node string, s Stream) {
	c.update(func(r *registry) { r.setStream(node, s, time.Now()) })
}

// Restore adds a node that had a share when the process before this one ended: it is missing from now until its stream
// is live. Call it before Run.
func (c *Cluster) Restore(node, listen string, identities []Identity, now time.Time) {
	c.update(func(r *registry) {
		e := r.node(node, now)
		if e == nil || e.stream.Live || len(e.stream.Identities) > 0 {
			return
		}
		e.streamLost, e.stream.Identities = now, identities
		if e.gossip == "" {
			e.meta = meta{Protocol: Protocol, Role: RoleProber, Listen: listen}
		}
	})
}

// update changes what is known of the nodes. The View follows.
func (c *Cluster) update(change func(*registry)) {
	c.mu.Lock()
	change(c.registry)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run joins the cluster and follows it until ctx ends; then it leaves.
func (c *Cluster) Run(ctx context.Context) error {
	m := memberlist.DefaultLANConfig()
	m.Name = c.cfg.Name
	m.Transport = c.cfg.Transport
	m.Label = c.cfg.Label
	m.Keyring = c.ring
	m.AdvertiseAddr, m.AdvertisePort = c.cfg.Advertise, c.cfg.Port
	m.GossipVerifyIncoming, m.GossipVerifyOutgoing = true, true
	m.DeadNodeReclaimTime = 10 * time.Second // then a node may come back from another address
	m.Logger = log.New(logWriter{c.cfg.Log}, "", 0)
	d := delegate{c}
	m.Delegate = d
	m.Events = d
	m.Alive = d
	m.Merge = d
	m.Conflict = d
	list, err := memberlist.Create(m)
	if err != nil {
		_ = c.cfg.Transport.Shutdown()
		return fmt.Errorf("cluster: %w", err)
	}
	var work sync.WaitGroup
	work.Go(func() { c.joinLoop(ctx, list) })
	tick := time.NewTicker(viewInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.publish(time.Now())
		select {
		case <-c.wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	work.Wait()
	if err := list.Leave(leaveTimeout); err != nil {
		c.cfg.Log.Info("left the cluster without telling the other members", "why", err)
	}
	if err := list.Shutdown(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// joinLoop joins the seeds, and again every rejoinInterval. It logs once why this member reaches no other. A member
// with another key or label is disconnected without a reply.
func (c *Cluster) joinLoop(ctx context.Context, list *memberlist.Memberlist) {
	for len(c.cfg.Seeds) > 0 && ctx.Err() == nil {
		wait, reason := rejoinInterval, ""
		n, err := list.Join(c.cfg.Seeds)
		if n == 0 && err != nil {
			wait = rejoinRetry
			if list.NumMembers() <= 1 { // else a seed that is down is no problem of the cluster
				cause := strings.Join(strings.Fields(err.Error()), " ") // memberlist's error has a line for each seed
				reason = fmt.Sprintf("no seed could be joined: %s; a seed that hangs up at once has another cluster key or label: see its log", cause)
			}
		}
		c.update(func(r *registry) {
			if r.problem != reason && reason != "" {
				c.cfg.Log.Warn(reason)
			}
			r.problem = reason
		})
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// publish derives the View of now and makes it the current one if it differs.
func (c *Cluster) publish(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, v := c.view.Load(), c.registry.view(now)
	v.Serial = old.Serial
	if reflect.DeepEqual(old, v) {
		return
	}
	v.Serial++
	c.view.Store(v)
	close(c.changed)
	c.changed = make(chan struct{})
	for _, rival := range v.Rivals {
		if c.cfg.Role == RoleCoordinator {
			c.warnOnce("rival "+rival, "another coordinator is in this cluster: "+rival+
				"; the nodes work for one alone, stop the other")
		}
	}
}

// warnOnce logs the reason unless it was the subject's last. The caller holds mu.
func (c *Cluster) warnOnce(subject, reason string) {
	if c.warned[subject] == reason {
		return
	}
	if len(c.warned) >= MaxNodes {
		clear(c.warned)
	}
	c.warned[subject] = reason
	c.cfg.Log.Warn(reason)
}

// SetKeys replaces the keyring; the first key encrypts. A node without that key ignores us: see the package comment on
// rotation.
func (c *Cluster) SetKeys(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("cluster: a keyring needs a key")
	}
	for _, k := range keys {
		if err := c.ring.AddKey(k); err != nil {
			return fmt.Errorf("cluster: key: %w", err)
		}
	}
	extra := slices.DeleteFunc(slices.Clone(c.ring.GetKeys()), func(k []byte) bool {
		return slices.ContainsFunc(keys, func(kept []byte) bool { return bytes.Equal(kept, k) })
	})
	for i, k := range slices.Backward(keys) {
		if i > 0 && len(extra) == 0 {
			continue
		}
		// The extra keys come last: memberlist would remove a key from the middle of a slice that others are reading.
		if err := c.ring.UseKey(k); err != nil {
			return fmt.Errorf("cluster: key: %w", err)
		}
	}
	for _, k := range slices.Backward(extra) {
		if err := c.ring.RemoveKey(k); err != nil {
			return fmt.Errorf("cluster: key: %w", err)
		}
	}
	return nil
}
