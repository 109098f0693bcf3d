package store

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Act is one line of the audit log: what somebody did to an account, a key, a list. It is written in the commit of the
// act itself, so that neither can exist without the other.
type Act struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"` // account, or a word for the command line and the first start
	Act    string    `json:"act"`
	Target string    `json:"target"`
	Note   string    `json:"note,omitempty"`
	Cursor string    `json:"-"` // set when listed: continue below this act
}

// maxNote bounds the free text of an act.
const maxNote = 1000

// write is the part of a commit that records the act.
func (a Act) write(b *pebble.Batch) error {
	if len(a.Note) > maxNote {
		a.Note = a.Note[:maxNote]
	}
	a.At = a.At.UTC()
	k := binary.BigEndian.AppendUint64([]byte{tableAudit}, uint64(a.At.UnixNano()))
	return setJSON(b, append(k, newID("")...), a)
}

// Audit records an act that has no verb of its own here, such as an erasure.
func (s *Store) Audit(a Act) error { return s.Commit("", a.write) }

// Acts lists the audit log, newest first, from below cursor (empty: from the newest), at most limit and MaxPage.
func (s *Store) Acts(cursor string, limit int) ([]Act, error) {
	prefix := []byte{tableAudit}
	upper := after(prefix)
	if cursor != "" {
		raw, err := hex.DecodeString(cursor)
		if err != nil {
			return nil, fmt.Errorf("cursor: %w", err)
		}
		upper = append(prefix, raw...)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableAudit}, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var acts []Act
	for ok := it.Last(); ok && len(acts) < pageSize(limit); ok = it.Prev() {
		var a Act
		if err := json.Unmarshal(it.Value(), &a); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		a.Cursor = hex.EncodeToString(it.Key()[1:])
		acts = append(acts, a)
	}
	return acts, it.Error()
}
