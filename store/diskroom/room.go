package diskroom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BallastName is the name of the ballast in the data folder.
const BallastName = "ballast"

const (
	maxBallast   = 16 << 20 // room for what a start writes: the memtables of state store and cache
	minBallast   = 64 << 10
	ballastShare = 8 // of the disk, at most one part in so many

	retryEvery = 100 * time.Millisecond // a write that waits
	checkEvery = time.Second            // whether there is room again
)

// FullError is the error of a write that found no room.
type FullError struct{ Cause error }

func (e *FullError) Error() string {
	if errors.Is(e.Cause, syscall.EROFS) {
		return "the file system is read-only: " + e.Cause.Error()
	}
	return "the disk is full: " + e.Cause.Error()
}

// Unwrap returns what the file system said.
func (e *FullError) Unwrap() error { return e.Cause }

// Is makes a quota and a read-only file system the same to callers as a full disk: the write can be tried again later.
func (e *FullError) Is(target error) bool { return target == syscall.ENOSPC }

// isFull reports whether a write failed for want of room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// Room is the room on the disk of a data folder.
type Room struct {
	disk vfs.FS
	dir  string
	log  *slog.Logger

	short   atomic.Pointer[FullError] // set from when the disk was found to be full until there is room again
	waiting [uses]atomic.Int64        // writes that wait for room
	mu      sync.Mutex                // guards ballast; held while the ballast is made or deleted
	ballast int64                     // its size; 0 for none
}

// New returns the room of a data folder.
func New(disk vfs.FS, dir string, log *slog.Logger) *Room {
	return &Room{disk: disk, dir: dir, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// MakeBallast makes the ballast if there is none; the folder exists. On a disk that has less room than a ballast needs,
// the room counts as short, and a ballast that is there is deleted.
func (r *Room) MakeBallast() {
	use, unknown := r.disk.GetDiskUsage(r.dir)
	r.mu.Lock()
	r.ballast = int64(max(minBallast, min(maxBallast, use.TotalBytes/ballastShare)))
	size := uint64(r.ballast)
	r.mu.Unlock()
	if unknown == nil && use.AvailBytes < size {
		r.foundFull(fmt.Errorf("%d bytes are free: %w", use.AvailBytes, syscall.ENOSPC))
		return
	}
	if err := r.fillBallast(); err != nil {
		r.foundFull(err)
	}
}

// Full returns a FullError while the room is short.
func (r *Room) Full() error {
	if e := r.short.Load(); e != nil {
		return e
	}
	return nil
}

// foundFull records that the disk is full, and deletes the ballast.
func (r *Room) foundFull(cause error) {
	if !r.short.CompareAndSwap(nil, &FullError{cause}) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	freed := r.ballast > 0 && r.disk.Remove(r.ballastPath()) == nil
	r.log.Error("no room on the disk: nothing new is accepted, and what runs waits for room", "folder", r.dir,
		"ballast_freed", freed, "error", cause)
}

// Run looks each second whether there is room again, until ctx ends.
func (r *Room) Run(ctx context.Context) {
	t := time.NewTicker(checkEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if r.short.Load() == nil {
			continue
		}
		if r.fillBallast() == nil {
			r.short.Store(nil)
			r.log.Info("there is room on the disk again", "folder", r.dir)
		}
	}
}

func (r *Room) ballastPath() string { return r.disk.PathJoin(r.dir, BallastName) }

// fillBallast makes the ballast, if there is none: of random bytes, which no file system can store in less room.
func (r *Room) fillBallast() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := r.ballastPath()
	if info, err := r.disk.Stat(path); err == nil && info.Size() == r.ballast {
		return nil
	}
	if use, err := r.disk.GetDiskUsage(r.dir); err == nil && use.AvailBytes < 2*uint64(r.ballast) {
		return fmt.Errorf("%d bytes are free: %w", use.AvailBytes, syscall.ENOSPC)
	}
	f, err := r.disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	rng, block := rand.NewChaCha8([32]byte{}), make([]byte, minBallast)
	for left := r.ballast; left > 0 && err == nil; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		_, _ = rng.Read(block) // it never fails
		_, err = f.Write(block)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, r.disk.Remove(path))
	}
	return nil
}

// UnlessStuck runs work and returns its error. Once done is closed, it returns a FullError when a write has waited for
// room for the time that patience gives it. Then the process must end: work goes on, and its writes wait for ever.
func (r *Room) UnlessStuck(done <-chan struct{}, patience time.Duration, work func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- work() }()
	select {
	case err := <-ended:
		return err
	case <-done:
	}
	t := time.NewTicker(retryEvery)
	defer t.Stop()
	for waited := time.Duration(0); ; {
		select {
		case err := <-ended:
			return err
		case <-t.C:
		}
		e := r.short.Load()
		if e == nil || r.waiting[forState].Load()+r.waiting[forCache].Load() == 0 {
			waited = 0
			continue
		}
		waited += retryEvery
		if waited > patience {
			return e
		}
	}
}
