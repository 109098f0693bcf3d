package opendb

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// ErrDisk is wrapped by errors of a disk that cannot be written.
var ErrDisk = errors.New("the disk cannot be written")

// ErrNewer is wrapped by errors of a database that a newer program has written.
var ErrNewer = errors.New("use the newer program that wrote it")

// Open opens a database, and makes it if there is none. The options need a Logger; Open sets their BackgroundError
// callback.
func Open(dir string, o *pebble.Options) (*pebble.DB, error) {
	if err := CheckFormat(o.FS, dir); err != nil {
		return nil, err
	}
	if o.EventListener == nil {
		o.EventListener = &pebble.EventListener{}
	}
	// One compaction at a time: the next is granted when one ends. Pebble's own scheduler also looks ten times a second
	// whether more may run, for the whole life of a database; with a constant number that finds nothing.
	o.CompactionConcurrencyRange = func() (lower, upper int) { return 1, 1 }
	compactions := &scheduler{
		ConcurrencyLimitScheduler: pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(),
	}
	o.Experimental.CompactionScheduler = compactions
	full := make(chan error, 1)
	o.EventListener.BackgroundError = func(err error) {
		o.Logger.Errorf("background error: %s", err)
		if vfs.IsNoSpaceError(err) {
			select {
			case full <- err:
			default:
			}
		}
	}
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		var x opened
		defer func() {
			if p := recover(); p != nil {
				x = opened{nil, fmt.Errorf("%w: %v", ErrDisk, p)}
			}
			done <- x
		}()
		x.db, x.err = pebble.Open(dir, o)
		if x.err == nil {
			compactions.atOpen.Done()
		}
	}()
	select {
	case x := <-done:
		return x.db, x.err
	case err := <-full:
		return nil, fmt.Errorf("%w: make room and start again: %w", ErrDisk, err)
	}
}

// CheckFormat returns an ErrNewer if a newer program has written the database in dir. A marker that cannot be read
// counts as not newer.
func CheckFormat(fs vfs.FS, dir string) error {
	marker, _ := atomicfs.ReadMarker(fs, dir, "format-version")
	if version, _ := strconv.ParseUint(marker, 10, 64); version > uint64(pebble.FormatNewest) {
		return fmt.Errorf("its database has format %d and this program knows up to %d: %w", version,
			pebble.FormatNewest, ErrNewer)
	}
	return nil
}

// IsDamage reports whether a database could not be opened or read because its content is wrong: not because of a full
// disk, missing permissions, a lock, or a newer format.
func IsDamage(err error) bool {
	var refused syscall.Errno
	return err != nil && !errors.Is(err, ErrDisk) && !errors.Is(err, ErrNewer) &&
		(!errors.As(err, &refused) || refused == syscall.ENOENT)
}

// scheduler lets no compaction begin while the database is being opened: an Open that fails in a late step closes the
// file cache under a compaction that runs, whose panic would end the process without an error that says why.
type scheduler struct {
	*pebble.ConcurrencyLimitScheduler
	atOpen pebble.CompactionGrantHandle // the only permit: Open holds it, and gives it back when the database is open
}

// Register implements pebble.CompactionScheduler.
func (s *scheduler) Register(goroutines int, db pebble.DBForCompaction) {
	s.ConcurrencyLimitScheduler.Register(goroutines, db)
	_, s.atOpen = s.TrySchedule()
}
