package stream

import (
	"errors"
	"fmt"
	"time"

	"probity/engine"
	"probity/prober/wire/frames"
)

// errRecalled ends a batch whose rows are returned because they are not of our table.
var errRecalled = errors.New("the provider table has changed: the batch was recalled")

// TableChanged tells the client that Table returns another table now. Batches of the old one are returned; the node
// takes the new table, and then batches again.
func (c *Client) TableChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.stream.advanceTable()
	}
}

// advanceTable goes on towards the state in which the node works by our table and takes work. It is called whenever one
// of its steps may be done. The caller holds the client's mutex.
func (s *clientStream) advanceTable() {
	c, table := s.c, s.c.cfg.Table()
	hash := table.Hash()
	switch {
	case s.sentTable != nil:
		return // the node has not answered for the last table
	case c.table == hash:
		if !s.acceptsWork {
			s.startWork()
		}
		return
	}
	s.acceptsWork = false
	c.credit.close()
	underWay := false // a batch of another table is at the node
	for _, pb := range c.batches {
		if pb.table == hash {
			continue
		}
		underWay = true
		if !pb.recalled {
			pb.recalled = true
			s.push(cancelFrame(pb.number))
			pb.wake.signal()
		}
	}
	if underWay {
		return // the end of its Verify goes on from here
	}
	s.sentTable, s.tableTimer = &hash, time.AfterFunc(helloTimeout, s.cancel)
	s.push(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Table{Table: &frames.TableFrame{Hash: hash[:],
		Layers: table.Layers()}}})
}

// startWork lets batches begin. The caller holds the client's mutex.
func (s *clientStream) startWork() {
	c := s.c
	first := !c.state.Live
	s.acceptsWork = true
	c.state.Live, c.state.Usable, c.state.Problem = true, true, ""
	c.credit.open()
	c.wakeTableWaiters()
	if first {
		h := c.state.Hello
		c.cfg.Log.Info("attached to the node", "version", h.Version, "identities", len(h.Identities))
	}
	c.wake.signal()
}

// handleTableTaken handles the node's answer that it took a table, or why not. The caller holds the client's mutex.
func (s *clientStream) handleTableTaken(f *frames.TableTakenFrame) error {
	c, hash := s.c, tableHash(f.GetHash())
	if s.sentTable == nil || *s.sentTable != hash {
		return frames.Malformed("the answer for a provider table, which it was not asked to take")
	}
	s.sentTable = nil
	s.tableTimer.Stop()
	switch {
	case f.GetProblem() == "":
		c.table = hash
	case hash == c.cfg.Table().Hash():
		reason := fmt.Sprintf("the node (probity %s) cannot work by the coordinator's provider table %x: %s",
			c.state.Hello.Version, hash, frames.Clip(f.GetProblem(), maxProblem))
		c.recordProblem(reason)
		c.giveUp(reason) // it has nothing of ours
		return errors.New(reason)
	}
	s.advanceTable()
	return nil
}

// wakeTableWaiters wakes single calls that wait for the node's table. The caller holds mu.
func (c *Client) wakeTableWaiters() {
	close(c.tableSwitched)
	c.tableSwitched = make(chan struct{})
}

// tableOf is the hash of the provider table that a route is of.
func tableOf(r *engine.Route) [8]byte {
	if r.Provider == nil {
		return [8]byte{}
	}
	return r.Provider.Table()
}
