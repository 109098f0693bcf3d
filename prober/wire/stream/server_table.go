package stream

import (
	"fmt"

	"probity/engine"
	"probity/prober/wire/frames"
)

// maxProblem bounds the bytes of a node's reason why it cannot take a table.
const maxProblem = 1024

// takeTable makes the node work by the coordinator's provider table, and answers whether it could. Until then, and
// after a failure, the node takes no work of that table.
func (s *serverStream) takeTable(f *frames.TableFrame) {
	server := s.s
	server.tableMu.Lock()
	defer server.tableMu.Unlock()
	server.mu.Lock()
	live := server.stream == s
	server.mu.Unlock()
	if !live {
		return
	}
	taken := &frames.TableTakenFrame{Hash: f.GetHash()}
	table, err := engine.ReadLayers(tableHash(f.GetHash()), f.GetLayers())
	if err == nil {
		err = server.switchTable(table)
	}
	if err != nil {
		server.cfg.Log.Error("the coordinator's provider table cannot be used; taking no work", "table",
			fmt.Sprintf("%x", f.GetHash()), "error", err)
		taken.Problem = frames.Clip(err.Error(), maxProblem)
	}
	s.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Table{Table: taken}})
}

// switchTable makes the node work by another table. A coordinator takes its batches back first; those that are still
// under way are dropped, and asked again by the new table: no result is of two. The caller holds tableMu, and not mu.
func (s *Server) switchTable(table *engine.Table) error {
	s.mu.Lock()
	same := s.table.Hash() == table.Hash()
	if !same {
		s.switchingTable = true
		s.dropBatches()
	}
	s.mu.Unlock()
	if same {
		return nil
	}
	err := s.cfg.UseTable(table)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.switchingTable = false
	if err == nil {
		s.table = table
		s.tableSwitches++
	}
	return err
}

// tableOf is the table by which a single call that names its hash is judged, and how often the table has changed.
func (s *Server) tableOf(hash []byte) (table *engine.Table, tableSwitches int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.usesTable(hash) {
		return nil, 0, errTableSwitched
	}
	return s.table, s.tableSwitches, nil
}

// usesTable reports whether the node works by the table of this hash. The caller holds mu.
func (s *Server) usesTable(hash []byte) bool {
	own := s.table.Hash()
	return !s.switchingTable && string(hash) == string(own[:])
}

// tableHash reads a hash; other bytes are the hash of no table.
func tableHash(b []byte) (hash [8]byte) {
	if len(b) == len(hash) {
		copy(hash[:], b)
	}
	return hash
}
