package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// member is one running Cluster.
type member struct {
	*Cluster
	log  *syncBuffer
	stop context.CancelFunc
	done chan struct{}
}

// syncBuffer is written by many.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *syncBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *syncBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var keyA, keyB = []byte("aaaaaaaaaaaaaaaa"), []byte("bbbbbbbbbbbbbbbb")

// start runs a member at 10.0.0.n: number 1 is the coordinator and the seed of all.
func (l *fakeNetwork) start(t *testing.T, n byte, with func(*Config)) *member {
	cfg := Config{Name: fmt.Sprintf("n%d", n), Role: RoleProber, Listen: fmt.Sprintf("10.0.0.%d:7947", n),
		Version: "1.0", Transport: l.transport(n),
		Label: "test", Keys: [][]byte{keyA}, Seeds: []string{fmt.Sprintf("10.0.0.1:%d", port)}}
	if n == 1 {
		cfg.Role, cfg.Listen, cfg.Seeds = RoleCoordinator, "", nil
	}
	m := &member{log: &syncBuffer{}, done: make(chan struct{})}
	cfg.Log = slog.New(slog.NewTextHandler(m.log, nil))
	if with != nil {
		with(&cfg)
	}
	var err error
	m.Cluster, err = New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	m.stop = stop
	go func() {
		defer close(m.done)
		require.NoError(t, m.Run(ctx))
	}()
	t.Cleanup(func() { stop(); <-m.done })
	return m
}

// runBubble runs f in virtual time, then gives memberlist's goroutines time to end.
func runBubble(t *testing.T, f func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		f(t)
	})
}

// names lists the nodes of a View that are not gone.
func names(v *View) []string {
	var all []string
	for _, n := range v.Nodes {
		if n.State != Gone {
			all = append(all, n.Name)
		}
	}
	return all
}

func identity(n int) Identity {
	a := fmt.Sprintf("192.0.2.%d", n)
	return Identity{Name: a, Local: a, Public: a, EHLO: fmt.Sprintf("m%d.example", n)}
}

func liveStream(ids ...int) Stream {
	s := Stream{Live: true, Usable: true, Version: "1.0"}
	for _, n := range ids {
		s.Identities = append(s.Identities, identity(n))
	}
	return s
}

func TestNodesAreFoundByGossip(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		c := l.start(t, 1, nil)
		for n := byte(2); n <= 5; n++ {
			l.start(t, n, nil)
		}
		time.Sleep(10 * time.Second)
		v := c.View()
		require.Equal(t, []string{"n2", "n3", "n4", "n5"}, names(v))
		require.Empty(t, v.Shares, "gossip alone gives nobody a share")
		n2, ok := v.Node("n2")
		require.True(t, ok)
		require.Equal(t, Node{Name: "n2", Gossip: "10.0.0.2:7946", Listen: "10.0.0.2:7947", Version: "1.0",
			State: Suspect, Since: n2.Since, Problem: "no stream"}, n2)

		_, changed := c.Changed()
		c.Stream("n2", liveStream(1, 2))
		<-changed
		v = c.View()
		require.Equal(t, []Share{{identity(1), "n2", true}, {identity(2), "n2", true}}, v.Shares)
		n2, _ = v.Node("n2")
		require.Equal(t, Alive, n2.State)
	})
}

func TestStreamOverrulesGossipLeave(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		c, n2 := l.start(t, 1, nil), l.start(t, 2, nil)
		time.Sleep(5 * time.Second)
		c.Stream("n2", liveStream(1))
		n2.stop()
		<-n2.done
		time.Sleep(5 * time.Second)
		n, _ := c.View().Node("n2")
		require.Equal(t, "", n.Gossip)
		require.Equal(t, Alive, n.State)
		c.Stream("n2", Stream{})
		time.Sleep(5 * time.Second)
		n, _ = c.View().Node("n2")
		require.Equal(t, Suspect, n.State)
		time.Sleep(KeepShare)
		n, _ = c.View().Node("n2")
		require.Equal(t, Gone, n.State)
		require.Empty(t, c.View().Shares)
	})
}

// However long gossip is cut, the View has the node again soon after, and a stream that lives all the while keeps its
// share.
func TestIsolatedNodeIsFoundAgain(t *testing.T) {
	for _, isolated := range []time.Duration{10 * time.Second, 30 * time.Second, 3 * time.Minute} {
		runBubble(t, func(t *testing.T) {
			l := newFakeNetwork()
			c := l.start(t, 1, nil)
			for n := byte(2); n <= 5; n++ {
				l.start(t, n, nil)
			}
			time.Sleep(10 * time.Second)
			c.Stream("n3", liveStream(3))
			l.isolate(3)
			for range 10 {
				time.Sleep(isolated / 10)
				require.Len(t, c.View().Shares, 1)
			}
			l.reconnect(3)
			time.Sleep(rejoinInterval + 15*time.Second)
			n, _ := c.View().Node("n3")
			require.Equal(t, "10.0.0.3:7946", n.Gossip, "cut off for %v", isolated)
			require.Equal(t, Alive, n.State)
		})
	}
}

func TestLossyGossipFindsAll(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		l.loss = 0.3
		c := l.start(t, 1, nil)
		for n := byte(2); n <= 9; n++ {
			l.start(t, n, nil)
		}
		time.Sleep(2 * time.Minute)
		found := 0
		for _, n := range c.View().Nodes {
			if n.Listen != "" {
				found++
			}
		}
		require.Equal(t, 8, found)
	})
}

func TestForeignMembersAreRefusedOnBothSides(t *testing.T) {
	for name, test := range map[string]struct {
		with    func(*Config)
		logged  string // in the coordinator's log
		problem string // at the refused member
	}{
		"another key": {func(c *Config) { c.Keys = [][]byte{keyB} }, "no installed keys could decrypt",
			"another cluster key or label"},
		"another label": {func(c *Config) { c.Label = "other" }, `unacceptable label`, "another cluster key or label"},
	} {
		runBubble(t, func(t *testing.T) {
			l := newFakeNetwork()
			c, s := l.start(t, 1, nil), l.start(t, 2, test.with)
			time.Sleep(time.Minute)
			require.Empty(t, c.View().Nodes, name)
			require.Contains(t, c.log.String(), test.logged, name)
			require.Contains(t, s.View().Problem, test.problem, name)
			require.Contains(t, s.log.String(), test.problem, name)
		})
	}
}

func TestMemberOfAnotherProtocolIsRefused(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		c := l.start(t, 1, nil)
		other, err := New(Config{Name: "n2", Role: RoleProber, Listen: "10.0.0.2:7947", Transport: l.transport(2),
			Label: "test", Keys: [][]byte{keyA},
			Seeds: []string{"10.0.0.1:7946"}})
		require.NoError(t, err)
		other.meta = []byte(`{"p":2,"r":"prober","v":"9.9"}`)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.NoError(t, other.Run(ctx))
		require.Empty(t, c.View().Nodes)
		const reason = "member n2 (probity 9.9) speaks cluster protocol 2, we speak 1"
		require.Contains(t, c.log.String(), reason)
	})
}

func TestSecondCoordinatorIsReported(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		c := l.start(t, 1, nil)
		l.start(t, 2, func(c *Config) { c.Role, c.Listen = RoleCoordinator, "" })
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"n2 at 10.0.0.2:7946"}, c.View().Rivals)
		require.Contains(t, c.log.String(), "another coordinator is in this cluster")
	})
}

func TestDuplicateNameIsReported(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		c := l.start(t, 1, nil)
		l.start(t, 2, nil)
		time.Sleep(5 * time.Second)
		l.start(t, 3, func(c *Config) { c.Name = "n2" })
		time.Sleep(20 * time.Second)
		require.Contains(t, c.log.String(), "two members are named n2")
		n, _ := c.View().Node("n2")
		require.Equal(t, "10.0.0.2:7947", n.Listen)
	})
}

// Three rounds, one machine after another, and no node is ever lost.
func TestKeysRotateWithoutAPause(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		var all []*member
		for n := byte(1); n <= 4; n++ {
			all = append(all, l.start(t, n, nil))
		}
		time.Sleep(10 * time.Second)
		for _, keys := range [][][]byte{{keyA, keyB}, {keyB, keyA}, {keyB}} {
			for _, m := range all {
				require.NoError(t, m.SetKeys(keys))
				time.Sleep(20 * time.Second)
				for i, other := range all {
					want := 3
					if i > 0 {
						want = 2 // a prober sees the other probers
					}
					require.Len(t, names(other.View()), want)
				}
			}
		}
		for _, m := range all {
			require.Equal(t, [][]byte{keyB}, m.ring.GetKeys())
		}
		late := l.start(t, 5, nil)
		time.Sleep(20 * time.Second)
		require.Contains(t, late.View().Problem, "no seed could be joined")
	})
}

// Concurrent readers, while nodes come and go: Shares are always those of the Nodes in the same View.
func TestViewIsConsistent(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		c := l.start(t, 1, nil)
		for n := byte(2); n <= 5; n++ {
			l.start(t, n, nil)
		}
		time.Sleep(10 * time.Second)
		end := make(chan struct{})
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for i := 0; ; i++ {
					v, changed := c.Changed()
					requireConsistent(t, v)
					select {
					case <-changed:
					case <-end:
						return
					}
				}
			})
		}
		for i := range 400 {
			n := 2 + i%4
			s := liveStream(n*2, n*2+1)
			if i%7 == 3 {
				s = Stream{}
			}
			c.Stream(fmt.Sprintf("n%d", n), s)
			time.Sleep(time.Duration(i%5) * 300 * time.Millisecond)
		}
		close(end)
		readers.Wait()
	})
}

func requireConsistent(t require.TestingT, v *View) {
	want := 0
	for _, n := range v.Nodes {
		if n.State == Alive || n.State == Suspect {
			want += len(n.Identities)
		}
		for _, id := range n.Identities {
			for _, s := range v.Shares {
				if s.Name == id.Name {
					require.Equal(t, n.Name, s.Node)
					require.Equal(t, n.Usable, s.Usable)
				}
			}
		}
	}
	require.Len(t, v.Shares, want)
}

// A seed that is down is one node that is down: it is a problem of the cluster only to a node that hears no other.
func TestDownSeedIsNoProblemWhileOthersAnswer(t *testing.T) {
	runBubble(t, func(t *testing.T) {
		l := newFakeNetwork()
		seed, b, c := l.start(t, 1, nil), l.start(t, 2, nil), l.start(t, 3, nil)
		time.Sleep(10 * time.Second)
		seed.stop()
		<-seed.done
		time.Sleep(2 * rejoinInterval)
		require.Empty(t, b.View().Problem)
		require.Empty(t, c.View().Problem)
		c.stop()
		<-c.done
		time.Sleep(2 * rejoinInterval)
		require.Contains(t, b.View().Problem, "no seed could be joined")
		require.NotContains(t, b.View().Problem, "\n")
	})
}
