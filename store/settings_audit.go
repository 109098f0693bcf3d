package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Act is one line of the audit log: what somebody did to an account, a key, a list. It is written in the commit of the
// act itself, so that neither can exist without the other.
type Act struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`             // account, or a word for the command line and the first start; see Actor
	From   string    `json:"from,omitempty"` // client address, or who ran the command line
	Act    string    `json:"act"`
	Target string    `json:"target"`
	Note   string    `json:"note,omitempty"`
	Cursor string    `json:"-"` // set when listed: continue below this act
}

// ActNames are the acts that this program writes, here and in the rooms that call Audit. A log may hold others, of other builds.
func ActNames() []string {
	return []string{"sign in", "user add", "user disable", "user enable", "user limits", "user password", "reset link", "totp on", "totp off", "recovery code", "key create", "key revoke", "grant",
		"callback secret", "suppress", "unsuppress", "erase", "release", "backup", ActDownload}
}

// ActDownload is the act of those who fetch results. There may be many, so that these, alone of all acts, go when history does.
const ActDownload = "download"

// SweepDownloads deletes the records of downloads from before a time, and tells how many. One that cannot be decoded stays, and is an
// error once all others are done.
func (s *Store) SweepDownloads(before time.Time) (n int, err error) {
	upper := binary.BigEndian.AppendUint64([]byte{tableAudit}, uint64(before.UnixNano()))
	var undecoded error // the last
	for start := []byte(nil); ; {
		var found [][]byte
		if err := scan(s.db, []byte{tableAudit}, start, func(k, v []byte) error {
			if bytes.Compare(k, upper) >= 0 || len(found) == sweepBatch {
				return errStop
			}
			var a Act
			if err := json.Unmarshal(v, &a); err != nil {
				undecoded = fmt.Errorf("audit log, record %x: %w", k[1:], err)
			} else if a.Act == ActDownload {
				found = append(found, bytes.Clone(k))
			}
			return nil
		}); err != nil || len(found) == 0 {
			return n, cmp.Or(err, undecoded)
		}
		if err := s.Commit("", func(b *pebble.Batch) (err error) {
			for _, k := range found {
				err = errors.Join(err, b.Delete(k, nil))
			}
			return err
		}); err != nil {
			return n, err
		}
		n += len(found)
		start = append(found[len(found)-1], 0)
	}
}

// actorFrom stands between the two parts of an actor.
const actorFrom = " from "

// Actor is who acts, and from where, as one word for the verbs that ask by whom.
func Actor(who, from string) string {
	if from == "" {
		return who
	}
	return who + actorFrom + from
}

// who is an actor without the place.
func who(actor string) string {
	name, _, _ := strings.Cut(actor, actorFrom)
	return name
}

// maxNote bounds the free text that people leave, maxActNote that of an act: the longest terms of a key fit.
const maxNote, maxActNote = 1000, 2000

// write is the part of a commit that records the act.
func (a Act) write(b *pebble.Batch) error {
	if len(a.Note) > maxActNote {
		a.Note = a.Note[:maxActNote]
	}
	if a.From == "" {
		a.By, a.From, _ = strings.Cut(a.By, actorFrom)
	}
	a.At = a.At.UTC()
	k := binary.BigEndian.AppendUint64([]byte{tableAudit}, uint64(a.At.UnixNano()))
	return setJSON(b, append(k, newID("")...), a)
}

// Audit records an act that has no verb of its own here, such as an erasure.
func (s *Store) Audit(a Act) error { return s.Commit("", a.write) }

// lastBackup is the name of a setting: when a backup was taken last, Unix time.
const lastBackup = "last backup"

// AuditBackup records that a copy of the store was taken.
func (s *Store) AuditBackup(by string, at time.Time) error {
	stamp := func(b *pebble.Batch) error {
		return b.Set(key(tableSetting, lastBackup), binary.BigEndian.AppendUint64(nil, uint64(at.Unix())), nil)
	}
	return s.Commit("", stamp, Act{At: at, By: by, Act: "backup", Target: "the state store"}.write)
}

// LastBackup is when AuditBackup was called last; zero for never. A restored store knows the backups before its own.
func (s *Store) LastBackup() (time.Time, error) {
	v, err := get(s.db, key(tableSetting, lastBackup))
	if errors.Is(err, ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil || len(v) != 8 {
		return time.Time{}, errors.Join(err, fmt.Errorf("setting %q: %d bytes, want 8", lastBackup, len(v)))
	}
	return time.Unix(int64(binary.BigEndian.Uint64(v)), 0), nil
}

// ErrBadCursor refuses a cursor that no list gave.
var ErrBadCursor = errors.New("no such cursor")

// Acts lists the audit log, newest first, from below cursor (empty: from the newest), at most limit and MaxPage.
func (s *Store) Acts(cursor string, limit int) ([]Act, error) {
	prefix := []byte{tableAudit}
	upper := after(prefix)
	if cursor != "" {
		raw, err := hex.DecodeString(cursor)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadCursor, err)
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
