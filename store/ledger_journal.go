package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/internal/wholefile"
)

// journal has the ends of singles until they are in the ledger. Each is written to a file before its call returns, so that it
// survives the process, whatever ends that; it is not synced there, as a sync is worth dozens of verifications: within
// mergeDelay it is in the ledger, whose commit is synced. So what a power cut can lose is the charges of the last moment, in
// the customer's favour, and never one before another that it keeps.
//
// The file is made once at its full size and written round and round, in two halves: a half is written again when all that it
// has is synced in the ledger, whose number of the last end it has (keyMerged) is written with them. So each end is entered
// once, whatever was the process's last action.
type journal struct {
	file    vfs.File
	mapped  []byte // the file as memory, where that can be had
	process [processBytes]byte

	mu         sync.Mutex
	waiting    []*single // guarded by mu: in the journal and not yet in the ledger, in order; as many as the file has room for
	spareSlice []*single // guarded by mu: the slice that was taken last
	last       uint64    // guarded by mu: the number of the last end
	activeHalf int       // guarded by mu: that is being written
	offset     int       // guarded by mu: where in it
	lastInHalf [2]uint64 // guarded by mu: the last number in each half
	merged     uint64    // guarded by mu: the last number that is synced in the ledger
	timerSet   bool      // guarded by mu: a merge will come
	broken     bool      // guarded by mu: it is not known what the ledger has; the process must end
	buf        []byte    // guarded by mu

	mergeMu sync.Mutex   // one at a time; taken before mu and before the stripes
	applied uint64       // guarded by folding: the number of the last end in the ledger, synced or not
	writer  ledgerWriter // guarded by folding
	delay   time.Duration
}

const (
	journalName = "singles.journal"
	// journalHeaderSize is where the halves begin: before them stands the process whose they are.
	journalHeaderSize = 512
	// journalHalfSize has the ends of some 5,000 singles: a tenth of a second of the busiest account.
	journalHalfSize = 512 << 10
	journalSize     = journalHeaderSize + 2*journalHalfSize

	// mergeDelay is how long an end waits in the journal for others to share its commit. A sync is worth dozens of
	// verifications; of 5,000 a second a hundred share it.
	mergeDelay = 20 * time.Millisecond
)

const journalLost = Lost("a settlement was lost")

// journalEntry is what the journal tells of one single. Of a release, credits are what was held.
type journalEntry struct {
	number  uint64
	account string
	record  record
}

// The form of an end in the journal. A half is a row of them, whose numbers follow each other. The sum is over the process and
// what comes after the sum: what an earlier process left is no end of this one's.
//
//	length of what follows the sum uint16, sum uint32, number uint64, first letter of the kind, credits uvarint,
//	unix nanoseconds uint64, length of the account uvarint, account, request
const journalSumOffset = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(process [processBytes]byte, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(process[:], castagnoli), castagnoli, body)
}

func (e *journalEntry) appendTo(dst []byte, process [processBytes]byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	body := len(dst)
	dst = append(appendUint64(dst, e.number), e.record.Kind[0])
	dst = appendUint64(binary.AppendUvarint(dst, uint64(e.record.Credits)), uint64(e.record.At.UnixNano()))
	dst = append(binary.AppendUvarint(dst, uint64(len(e.account))), e.account...)
	dst = append(dst, e.record.Cause[len(singleCause):]...)
	binary.BigEndian.PutUint16(dst[start:], uint16(len(dst)-body))
	binary.BigEndian.PutUint32(dst[start+journalSumOffset:], checksum(process, dst[body:]))
	return dst
}

// readJournalEntries reads a half as far as it goes: what comes after is of an earlier time, or was being written when the process ended.
func readJournalEntries(half []byte, process [processBytes]byte) (ends []journalEntry) {
	for len(half) > 6 {
		size := int(binary.BigEndian.Uint16(half))
		sum, rest := binary.BigEndian.Uint32(half[journalSumOffset:]), half[6:]
		if size > len(rest) || checksum(process, rest[:size]) != sum {
			break
		}
		e, err := readJournalEntry(rest[:size])
		if err != nil || (len(ends) > 0 && e.number != ends[len(ends)-1].number+1) {
			break
		}
		ends, half = append(ends, e), rest[size:]
	}
	return ends
}

func readJournalEntry(body []byte) (journalEntry, error) {
	r := &reader{v: body}
	number, kind := r.bytes(8), r.bytes(1)
	credits := int64(r.uvarint(uint64(MaxCredits)))
	at := r.bytes(8)
	account := string(r.bytes(int(r.uvarint(MaxName))))
	if r.failed || credits == 0 || len(r.v) == 0 || len(r.v) > MaxName {
		return journalEntry{}, errBadRecord
	}
	used := credits
	if kind[0] == Release[0] {
		used = 0
	}
	e := journalEntry{number: binary.BigEndian.Uint64(number), account: account}
	e.record = settlementRecord(string(r.v), used, credits, time.Unix(0, int64(binary.BigEndian.Uint64(at))))
	if e.record.Kind[0] != kind[0] {
		return journalEntry{}, errBadRecord
	}
	return e, nil
}

// openJournal enters what the process before left in the journal, and begins it anew.
func (s *Store) openJournal(fs vfs.FS, dir string) error {
	f, err := fs.OpenReadWrite(fs.PathJoin(dir, journalName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	j := &s.journal
	j.file, j.process, j.delay = f, s.requests.process, mergeDelay
	left, err := j.read()
	if err != nil {
		return err
	}
	if err := s.replayJournal(left); err != nil {
		return fmt.Errorf("%s: %w; without that file the store opens, and the charges of its last moment are lost", journalName, err)
	}
	return j.open(fs, dir)
}

// read is what the file has, in order.
func (j *journal) read() ([]journalEntry, error) {
	b := make([]byte, journalSize)
	n, err := j.file.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n < journalSize {
		return nil, nil // it was being made
	}
	process := [processBytes]byte(b)
	first := readJournalEntries(b[journalHeaderSize:journalHeaderSize+journalHalfSize], process)
	second := readJournalEntries(b[journalHeaderSize+journalHalfSize:], process)
	all := append(first, second...)
	slices.SortFunc(all, func(a, b journalEntry) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// initFile makes the file this process's.
func (j *journal) initFile(fs vfs.FS, dir string) error {
	head := make([]byte, journalSize)
	copy(head, j.process[:])
	if info, err := j.file.Stat(); err == nil && info.Size() == journalSize {
		if _, err := j.file.WriteAt(head[:processBytes], 0); err != nil {
			return err
		}
		return j.file.Sync() // a power cut must not make the ends of the process before true again
	}
	if _, err := j.file.WriteAt(head, 0); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return wholefile.SyncDir(fs, dir)
}

// open makes the file this process's, and maps it.
func (j *journal) open(fs vfs.FS, dir string) (err error) {
	if err := j.initFile(fs, dir); err != nil {
		return err
	}
	j.mapped, err = mapFile(j.file, journalSize)
	return err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return errors.Join(unmapFile(j.mapped), j.file.Close())
}

func (j *journal) write(p []byte, at int) error {
	if j.mapped != nil {
		copy(j.mapped[at:], p)
		return nil
	}
	_, err := j.file.WriteAt(p, int64(at))
	return err
}

// appendSingle writes an end, unless both halves are full of what is not yet synced in the ledger. first tells that no other call has
// set a time for the next merge.
func (j *journal) appendSingle(one *single) (entered, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken {
		panic(journalLost)
	}
	e := journalEntry{number: j.last + 1, account: one.balance.account, record: one.record}
	j.buf = e.appendTo(j.buf[:0], j.process)
	if j.offset+len(j.buf) > journalHalfSize {
		if j.lastInHalf[1-j.activeHalf] > j.merged {
			return false, false
		}
		j.activeHalf, j.offset = 1-j.activeHalf, 0
	}
	if err := j.write(j.buf, journalHeaderSize+j.activeHalf*journalHalfSize+j.offset); err != nil {
		j.broken = true
		panic(Lost(err.Error()))
	}
	j.last++
	j.lastInHalf[j.activeHalf] = j.last
	j.offset += len(j.buf)
	j.waiting = append(j.waiting, one)
	first, j.timerSet = !j.timerSet, true
	return true, first
}

// takeWaiting is all that wait, in order. The slice is the caller's until the next call.
func (j *journal) takeWaiting() []*single {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken {
		panic(journalLost)
	}
	all := j.waiting
	j.waiting, j.spareSlice = j.spareSlice[:0], all
	return all
}

// timerFired is told before the merge that enter set a time for.
func (j *journal) timerFired() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.timerSet = false
}

// markMerged is told when the ledger has all up to a number on the disk.
func (j *journal) markMerged(last uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.merged = last
}

// markBroken is told when a merge has failed.
func (j *journal) markBroken() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = true
}

// empty tells that the ledger has all that was settled, on the disk.
func (j *journal) empty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last == j.merged
}
