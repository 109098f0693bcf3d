package store

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// AuditEvent is one line of the audit log, for example an action on an account, a key or a job. It is written in the
// commit of the action, so that neither exists without the other.
type AuditEvent struct {
	At time.Time `json:"at"`
	// account, or a word for the command line and the first start; see AuditActor
	By     string `json:"by"`
	From   string `json:"from,omitempty"` // client address, or who ran the command line
	Action string `json:"act"`
	Target string `json:"target"`
	Note   string `json:"note,omitempty"`
	Cursor string `json:"-"` // set by AuditEvents: continue below this event
}

// AuditActions lists the actions that this program writes. A log may have others, of other versions.
func AuditActions() []string {
	return []string{"sign in", "user add", "user disable", "user enable", "user limits", "user password", "reset link",
		"totp on", "totp off", "recovery code", "key create", "key revoke", "grant",
		"callback secret", "receipt key", "suppress", "unsuppress", "erase", "release", "backup", ActionDownload}
}

// ActionDownload is the action of a download of results. There may be many, so only these events are deleted, together
// with old jobs.
const ActionDownload = "download"

// SweepDownloads deletes the events of downloads from before a time, and returns their number. An event that cannot be
// decoded stays, and its error is returned after all others are deleted.
func (s *Store) SweepDownloads(before time.Time) (n int, err error) {
	upper := appendUint64([]byte{tableAudit}, uint64(before.UnixNano()))
	var undecoded error // the last
	n, err = s.sweep([]byte{tableAudit}, func(k, v []byte) (*deletion, error) {
		var a AuditEvent
		if bytes.Compare(k, upper) >= 0 {
			return nil, errStop
		}
		if err := json.Unmarshal(v, &a); err != nil {
			undecoded = fmt.Errorf("audit log, record %x: %w", k[1:], err)
		} else if a.Action == ActionDownload {
			return &deletion{}, nil
		}
		return nil, nil
	})
	return n, cmp.Or(err, undecoded)
}

// actorSeparator separates the two parts of an actor.
const actorSeparator = " from "

// AuditActor combines who acts, and from where, for methods with a parameter "by".
func AuditActor(customer, from string) string {
	if from == "" {
		return customer
	}
	return customer + actorSeparator + from
}

// maxNote bounds free text that people enter, maxEventNote that of an event: the longest description of a key fits.
const maxNote, maxEventNote = 1000, 2000

// write is the part of a commit that records the event.
func (a AuditEvent) write(b *pebble.Batch) error {
	if len(a.Note) > maxEventNote {
		a.Note = a.Note[:maxEventNote]
	}
	if a.From == "" {
		a.By, a.From, _ = strings.Cut(a.By, actorSeparator)
	}
	a.At = a.At.UTC()
	k := appendUint64([]byte{tableAudit}, uint64(a.At.UnixNano()))
	return setJSON(b, append(k, newID("")...), a)
}

// Audit records an event that has no method of its own here.
func (s *Store) Audit(a AuditEvent) error { return s.Commit("", a.write) }

// lastBackup is the name of the setting with the Unix time of the last backup.
const lastBackup = "last backup"

// RecordBackup records that a backup of the store was made.
func (s *Store) RecordBackup(by string, at time.Time) error {
	setBackupTime := func(b *pebble.Batch) error {
		return b.Set(key(tableSetting, lastBackup), appendUint64(nil, uint64(at.Unix())), nil)
	}
	return s.Commit("", setBackupTime, AuditEvent{At: at, By: by, Action: "backup", Target: "the state store"}.write)
}

// LastBackup returns the time of the last RecordBackup; zero for never. A restored store knows only the backups before
// its own.
func (s *Store) LastBackup() (time.Time, error) {
	n, err := getUint64(s.db, key(tableSetting, lastBackup), "setting "+lastBackup)
	if err != nil || n == 0 {
		return time.Time{}, err
	}
	return time.Unix(int64(n), 0), nil
}

// Refusals of cursors.
var (
	ErrBadCursor  = errors.New("no such cursor")
	ErrCursorSort = errors.New("the cursor is of a page in another order")
)

// AuditEvents lists the audit log, newest first, from below cursor (empty: from the newest), at most limit and MaxPage
// events.
func (s *Store) AuditEvents(cursor string, limit int) ([]AuditEvent, error) {
	upper := prefixEnd([]byte{tableAudit})
	if cursor != "" {
		raw, err := hex.DecodeString(cursor)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadCursor, err)
		}
		upper = append([]byte{tableAudit}, raw...)
	}
	return newestJSON(s.db, []byte{tableAudit}, upper, limit,
		func(k []byte, a *AuditEvent) { a.Cursor = hex.EncodeToString(k[1:]) })
}
