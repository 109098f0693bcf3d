package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"
)

const (
	logMagic      = "prblog01"
	logVersion    = 6        // where in it the version begins
	groupHeader   = 12       // entries uint32, sum uint64
	groupEntries  = 32 << 10 // entries of one group
	logPending    = 8 << 20  // bytes that wait for a sync before answers must wait
	logFlushBytes = 256 << 10
	logFlushAfter = 50 * time.Millisecond // with one job
	logFlushMost  = 10 * logFlushAfter    // with any number of them
)

// errVersion means a log of a format that this program does not know.
var errVersion = errors.New("made by another version of Probity")

// resultLog is a job's append-only log of answers. A group's checksum is chained to the group before, so that what a
// crash left behind the tail can never be taken for a later group. One goroutine writes; one sync serves all who wait.
type resultLog struct {
	f     *tail
	names *names
	chain uint64
	after func() time.Duration // how long an answer may wait for its sync
	room  *spare[buffer]

	mu      sync.Mutex // guards all below; never held over I/O
	moved   sync.Cond
	pending []byte
	since   time.Time // when the oldest pending entry came
	added   int64     // bytes of entries ever appended
	synced  int64     // of these, durable
	wanted  int64     // somebody waits for this many
	closing bool
	err     error

	wake chan struct{}
	done chan struct{}
}

// flushAfter has all jobs together sync their answers about as often as one alone: a sync costs the same however little it writes,
// and what a crash takes of half a second the probers' caches still know.
func (c *Coordinator) flushAfter() time.Duration {
	return min(logFlushAfter*time.Duration(max(1, len(c.running))), logFlushMost)
}

// openLog reads the log from its start, calls visit with each group's entries, and is ready to append after the last whole one.
func openLog(fs vfs.FS, path string, n *names, visit func(entries []byte) error) (*resultLog, error) {
	f, err := openTail(fs, path, 0)
	if err != nil {
		return nil, err
	}
	end, chain, err := readLog(f.f, visit)
	if err == nil && end == 0 {
		end = int64(len(logMagic))
		_, err = f.add([]byte(logMagic))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.end = end
	l := &resultLog{f: f, names: n, chain: chain, wake: make(chan struct{}, 1), done: make(chan struct{}),
		after: func() time.Duration { return logFlushAfter }}
	l.moved.L = &l.mu
	return l, nil
}

// readLog calls visit with the entries of each whole group; a run is valid until visit returns. It gives where the
// last whole group ends and the chain there; zero for a file that is no log yet.
func readLog(f vfs.File, visit func(entries []byte) error) (end int64, chain uint64, err error) {
	return readGroups(f, func(_ int64, entries []byte) error { return visit(entries) })
}

// readGroups is readLog with the place of each group's entries in the file.
func readGroups(f vfs.File, visit func(at int64, entries []byte) error) (end int64, chain uint64, err error) {
	r := io.NewSectionReader(f, 0, 1<<62)
	buf := make([]byte, groupHeader+groupEntries*entryBytes)
	n, _ := io.ReadFull(r, buf[:len(logMagic)])
	switch got := string(buf[:n]); {
	case got == logMagic:
	case n == len(logMagic) && got[:logVersion] == logMagic[:logVersion]: // to take it for empty would be to write over it
		return 0, 0, fmt.Errorf("%w: the log has version %q and this program knows %q: use the newer program that wrote it", errVersion, got[logVersion:], logMagic[logVersion:])
	default:
		return 0, 0, nil
	}
	for end = int64(len(logMagic)); ; {
		head := buf[:groupHeader]
		if _, err := r.ReadAt(head, end); err != nil {
			return end, chain, tornIsEnd(err)
		}
		n := binary.LittleEndian.Uint32(head)
		if n == 0 || n > groupEntries {
			return end, chain, nil
		}
		entries := buf[groupHeader : groupHeader+int(n)*entryBytes]
		if _, err := r.ReadAt(entries, end+groupHeader); err != nil {
			return end, chain, tornIsEnd(err)
		}
		sum := xxh3.HashSeed(entries, chain+uint64(n))
		if sum != binary.LittleEndian.Uint64(head[4:]) {
			return end, chain, nil
		}
		if err := visit(end+groupHeader, entries); err != nil {
			return end, chain, err
		}
		end, chain = end+groupHeader+int64(len(entries)), sum
	}
}

// tornIsEnd takes a group cut short for the end of the log.
func tornIsEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// run writes until close; its owner waits for done.
func (l *resultLog) run() {
	defer close(l.done)
	var spare []byte
	for {
		batch, more := l.collect(spare)
		if len(batch) > 0 && !l.settle(len(batch), l.write(batch)) {
			return // after a failed sync nothing can be known of this file
		}
		if spare = batch; !more {
			return
		}
	}
}

// collect waits until there is something worth a sync and takes it, leaving empty as the next pending.
func (l *resultLog) collect(empty []byte) (batch []byte, more bool) {
	for {
		l.mu.Lock()
		now, after := time.Now(), l.after()
		due := len(l.pending) >= logFlushBytes || l.wanted > l.synced || now.Sub(l.since) >= after
		if l.closing || len(l.pending) > 0 && due {
			batch, l.pending = l.pending, empty[:0]
			more = !l.closing
			l.mu.Unlock()
			return batch, more
		}
		wait := time.Duration(-1)
		if len(l.pending) > 0 {
			wait = after - now.Sub(l.since)
		}
		l.mu.Unlock()
		l.sleep(wait)
	}
}

func (l *resultLog) sleep(d time.Duration) {
	if d < 0 {
		<-l.wake
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.wake:
	case <-t.C:
	}
}

// write makes a batch of entries durable, after the names they refer to.
func (l *resultLog) write(batch []byte) error {
	if err := l.names.flush(); err != nil {
		return err
	}
	for len(batch) > 0 {
		part := batch[:min(len(batch), groupEntries*entryBytes)]
		batch = batch[len(part):]
		n := len(part) / entryBytes
		sum := xxh3.HashSeed(part, l.chain+uint64(n))
		room := l.room.get()
		b := room.grown(groupHeader + len(part))[:0]
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
		b = binary.LittleEndian.AppendUint64(b, sum)
		_, err := l.f.add(append(b, part...))
		l.room.put(room)
		if err != nil {
			return err
		}
		l.chain = sum
	}
	return l.f.sync()
}

// settle tells those who wait what became of n bytes of entries.
func (l *resultLog) settle(n int, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err = err; err == nil {
		l.synced += int64(n)
	}
	l.moved.Broadcast()
	return err == nil
}

// add appends entries and gives the mark to wait for. It waits while too much is pending.
func (l *resultLog) add(entries []byte) (mark int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > logPending && l.err == nil {
		l.moved.Wait()
	}
	if l.err != nil {
		return 0, l.err
	}
	if len(l.pending) == 0 {
		l.since = time.Now()
	}
	was := len(l.pending)
	l.pending = append(l.pending, entries...)
	l.added += int64(len(entries))
	if was == 0 || was < logFlushBytes && len(l.pending) >= logFlushBytes {
		l.poke()
	}
	return l.added, nil
}

func (l *resultLog) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// wait returns when everything up to mark is durable.
func (l *resultLog) wait(mark int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted < mark {
		l.wanted = mark
		l.poke()
	}
	for l.synced < mark && l.err == nil {
		l.moved.Wait()
	}
	return l.err
}

// close writes what is pending and ends the writer.
func (l *resultLog) close() error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.poke()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.f.Close())
}
