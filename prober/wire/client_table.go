package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"probity/engine"
)

// ErrOtherTable is returned for a single whose route is not of the provider table in force: find its route again, and ask again.
var ErrOtherTable = errors.New("the provider table has changed")

// errRecalled ends a batch whose rows come home because they are not of our table.
var errRecalled = errors.New("the provider table has changed: the batch was called home")

// TableChanged tells that Table gives another one now. Batches of the one before come home, the node takes the new one, and then
// takes batches again. A node of protocol 2 cannot take it: it works on when it has the new table by itself.
func (c *Client) TableChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn()
}

// turn goes on towards the state in which the node works by our table and takes work. It is called whenever one of its steps may be
// done. The caller holds mu.
func (c *Client) turn() {
	l := c.stream
	if l == nil {
		return
	}
	table := c.cfg.Table()
	hash := table.Hash()
	switch {
	case l.asked != nil:
		return // the node has not answered for the last table
	case c.table == hash:
		if !l.takesWork {
			c.takeWork(l)
		}
		return
	}
	l.takesWork = false
	c.credit.close()
	if c.recall(l, hash) {
		return // closeCall goes on from here
	}
	if c.speaks < tableProtocol {
		l.end() // the next hello compares the tables
		return
	}
	l.asked, l.overdue = &hash, time.AfterFunc(greeting, l.end)
	l.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Table{Table: &TableFrame{Hash: hash[:], Layers: table.Layers()}}})
}

// recall calls home what is of another table than that of the hash. It reports that the node has such a batch. The caller holds mu.
func (c *Client) recall(l *link, hash [8]byte) (some bool) {
	for _, k := range c.calls {
		switch {
		case k.table == hash:
		case k.posted && k.recalled == l:
			some = true
		case k.posted:
			some, k.recalled = true, l
			l.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Cancel{Cancel: &CancelFrame{Batch: k.number}}})
			k.nudge()
		default:
			k.fail(errRecalled)
		}
	}
	return some
}

// takeWork sends the batches that the node does not have, and lets others begin. The caller holds mu.
func (c *Client) takeWork(l *link) {
	first := !c.state.Live
	l.takesWork = true
	c.state.Live, c.state.Usable, c.state.Problem = true, true, ""
	for _, k := range c.calls {
		if !k.posted {
			c.postOrRecall(k)
		}
	}
	c.credit.open()
	c.tellTurned()
	if first {
		h := c.state.Hello
		c.cfg.Log.Info("attached to the node", "version", h.Version, "protocol", c.speaks, "identities", len(h.Identities), "batches", len(l.running))
	}
	c.tell()
}

func (c *Client) postOrRecall(k *call) {
	if k.table == c.table {
		c.post(k)
	} else {
		k.fail(errRecalled)
	}
}

// heardTable is the node's word that it took a table, or why not. The caller holds mu.
func (c *Client) heardTable(l *link, f *TableTakenFrame) error {
	hash := tableHash(f.GetHash())
	if l.asked == nil || *l.asked != hash {
		return malformed("the answer for a provider table, which it was not asked to take")
	}
	l.asked = nil
	l.overdue.Stop()
	switch {
	case f.GetProblem() == "":
		c.table = hash
	case hash == c.cfg.Table().Hash():
		words := fmt.Sprintf("the node (probity %s) cannot work by the coordinator's provider table %x: %s", c.state.Hello.Version, hash, cut(f.GetProblem(), maxProblem))
		if c.state.Problem != words {
			c.cfg.Log.Warn("not attached to the node", "why", words)
		}
		c.state.Problem = words
		c.giveUpLocked(words) // it has nothing of ours
		return errors.New(words)
	}
	c.turn()
	return nil
}

// toldTable is the hash of a table as the node is told it: none to one that does not read it.
func (c *Client) toldTable(hash [8]byte) []byte {
	if c.speaks < tableProtocol {
		return nil
	}
	return hash[:]
}

// tellTurned wakes singles that wait for the node's table. The caller holds mu.
func (c *Client) tellTurned() {
	close(c.turned)
	c.turned = make(chan struct{})
}

// awaitTable waits until the node works by the table of a route, which must be ours, or takes no work at all.
func (c *Client) awaitTable(ctx context.Context, r *engine.Route) (table [8]byte, err error) {
	table = tableOf(r)
	for {
		c.mu.Lock()
		works, usable, turned := c.table == table, c.state.Usable && !c.state.Draining, c.turned
		c.mu.Unlock()
		switch {
		case table != c.cfg.Table().Hash():
			return table, ErrOtherTable
		case works || !usable:
			return table, nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return table, ctx.Err()
		}
	}
}
