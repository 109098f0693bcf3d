package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"probity/engine"
)

// ErrOtherTable is returned for a single call whose route is not of the current provider table: find its route again, and
// repeat the call.
var ErrOtherTable = errors.New("the provider table has changed")

// errRecalled ends a batch whose rows are returned because they are not of our table.
var errRecalled = errors.New("the provider table has changed: the batch was recalled")

// TableChanged tells the client that Table returns another table now. Batches of the old one are returned; the node takes the
// new table, and then batches again. A node of protocol 2 cannot take it: it goes on when it has the new table itself.
func (c *Client) TableChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advanceTable()
}

// advanceTable goes on towards the state in which the node works by our table and takes work. It is called whenever one of its steps may be
// done. The caller holds mu.
func (c *Client) advanceTable() {
	l := c.stream
	if l == nil {
		return
	}
	table := c.cfg.Table()
	hash := table.Hash()
	switch {
	case l.sentTable != nil:
		return // the node has not answered for the last table
	case c.table == hash:
		if !l.acceptsWork {
			c.startWork(l)
		}
		return
	}
	l.acceptsWork = false
	c.credit.close()
	if c.recallOtherTables(l, hash) {
		return // closeBatch goes on from here
	}
	if c.protocol < tableProtocol {
		l.cancel() // the next hello compares the tables
		return
	}
	l.sentTable, l.tableTimer = &hash, time.AfterFunc(helloTimeout, l.cancel)
	l.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Table{Table: &TableFrame{Hash: hash[:], Layers: table.Layers()}}})
}

// recallOtherTables cancels batches of another table than that of the hash. It reports that the node has such a batch. The caller holds mu.
func (c *Client) recallOtherTables(l *clientStream, hash [8]byte) (found bool) {
	for _, pb := range c.batches {
		switch {
		case pb.table == hash:
		case pb.posted && pb.recalled == l:
			found = true
		case pb.posted:
			found, pb.recalled = true, l
			l.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Cancel{Cancel: &CancelFrame{Batch: pb.number}}})
			pb.signal()
		default:
			pb.fail(errRecalled)
		}
	}
	return found
}

// startWork sends the batches that the node does not have, and lets others begin. The caller holds mu.
func (c *Client) startWork(l *clientStream) {
	first := !c.state.Live
	l.acceptsWork = true
	c.state.Live, c.state.Usable, c.state.Problem = true, true, ""
	for _, pb := range c.batches {
		if !pb.posted {
			c.postOrReturn(pb)
		}
	}
	c.credit.open()
	c.wakeTableWaiters()
	if first {
		h := c.state.Hello
		c.cfg.Log.Info("attached to the node", "version", h.Version, "protocol", c.protocol, "identities", len(h.Identities), "batches", len(l.running))
	}
	c.wakeWatch()
}

func (c *Client) postOrReturn(pb *pendingBatch) {
	if pb.table == c.table {
		c.post(pb)
	} else {
		pb.fail(errRecalled)
	}
}

// handleTableTaken handles the node's answer that it took a table, or why not. The caller holds mu.
func (c *Client) handleTableTaken(l *clientStream, f *TableTakenFrame) error {
	hash := tableHash(f.GetHash())
	if l.sentTable == nil || *l.sentTable != hash {
		return malformed("the answer for a provider table, which it was not asked to take")
	}
	l.sentTable = nil
	l.tableTimer.Stop()
	switch {
	case f.GetProblem() == "":
		c.table = hash
	case hash == c.cfg.Table().Hash():
		reason := fmt.Sprintf("the node (probity %s) cannot work by the coordinator's provider table %x: %s", c.state.Hello.Version, hash, truncate(f.GetProblem(), maxProblem))
		if c.state.Problem != reason {
			c.cfg.Log.Warn("not attached to the node", "why", reason)
		}
		c.state.Problem = reason
		c.giveUpLocked(reason) // it has nothing of ours
		return errors.New(reason)
	}
	c.advanceTable()
	return nil
}

// tableForPeer is the hash of a table for the node; nil for a node that does not read it.
func (c *Client) tableForPeer(hash [8]byte) []byte {
	if c.protocol < tableProtocol {
		return nil
	}
	return hash[:]
}

// wakeTableWaiters wakes single calls that wait for the node's table. The caller holds mu.
func (c *Client) wakeTableWaiters() {
	close(c.tableSwitched)
	c.tableSwitched = make(chan struct{})
}

// awaitTable waits until the node works by the table of a route, which must be ours, or takes no work at all.
func (c *Client) awaitTable(ctx context.Context, r *engine.Route) (table [8]byte, err error) {
	table = tableOf(r)
	for {
		c.mu.Lock()
		current, usable, tableSwitched := c.table == table, c.state.Usable && !c.state.Draining, c.tableSwitched
		c.mu.Unlock()
		switch {
		case table != c.cfg.Table().Hash():
			return table, ErrOtherTable
		case current || !usable:
			return table, nil
		}
		select {
		case <-tableSwitched:
		case <-ctx.Done():
			return table, ctx.Err()
		}
	}
}
