package cache

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// manners are how the database's work in the background treats others. A memtable is written out, or tables are compacted, in one
// go: hundredths to tenths of a second in which a processor hears of nothing else, and single calls wait for it. While they press, that
// work rests after each piece, for most of the time; but not while writers wait for it, for a single may be among them, and a table not
// at all when so many have gathered that they soon would.
type manners struct {
	pressed atomic.Pointer[func(now time.Time) bool] // nil: nobody is given way to
	awaited atomic.Bool                              // writers wait for tables
	behind  func() bool                              // many tables have gathered; set before pressed is
}

// The rests of a table's writing.
const (
	pieceOfWork = 300 * time.Microsecond
	restTimes   = 3                    // as long as the piece before
	longestRest = 5 * time.Millisecond // at the most
)

// GiveWay has the writing of tables rest while pressed reports that others have more urgent things to do.
func (c *Cache) GiveWay(pressed func(now time.Time) bool) { c.manners.pressed.Store(&pressed) }

// manyTables is how many above the others are too many for rests: each look-up asks them all, and at mostTables writers wait.
const manyTables = (upperTables + mostTables) / 2

// behind reports that compactions have not kept up.
func (c *Cache) behind() bool {
	db := c.running.Load()
	return db != nil && db.Metrics().Levels[0].Sublevels >= manyTables
}

func (m *manners) rests(now time.Time) bool {
	pressed := m.pressed.Load()
	return pressed != nil && !m.awaited.Load() && (*pressed)(now)
}

// listener hears of writers that wait.
func (m *manners) listener() *pebble.EventListener {
	return &pebble.EventListener{
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { m.awaited.Store(true) },
		WriteStallEnd:   func() { m.awaited.Store(false) },
	}
}

// patient is a disk to which tables are written with rests. Who makes a table is at most a block ahead of who writes it (in Pebble
// 2.1 they meet at a channel without room), so that one rests with the other. What reads much and writes little does not rest.
type patient struct {
	vfs.FS
	manners *manners
}

func (p patient) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &patientTable{File: f, manners: p.manners, since: time.Now()}, nil
}

// Unwrap is the disk below, not what is below that.
func (p patient) Unwrap() vfs.FS { return p.FS }

// patientTable is written by one goroutine at a time.
type patientTable struct {
	vfs.File
	manners *manners
	since   time.Time // the last rest, or the last piece after which there was none
	asked   bool      // whether it is urgent: once, as that costs as much as a piece of work
	urgent  bool
}

func (t *patientTable) Write(b []byte) (int, error) {
	n, err := t.File.Write(b)
	now := time.Now()
	worked := now.Sub(t.since)
	if err != nil || worked < pieceOfWork {
		return n, err
	}
	if t.rests(now) {
		time.Sleep(min(restTimes*worked, longestRest))
		now = time.Now()
	}
	t.since = now
	return n, nil
}

func (t *patientTable) rests(now time.Time) bool {
	if t.urgent || !t.manners.rests(now) {
		return false
	}
	if !t.asked {
		t.asked, t.urgent = true, t.manners.behind()
	}
	return !t.urgent
}
