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

// journal holds the settlements of single calls until they are in the ledger. Each is written to a file before its call returns, so
// that it survives the end of the process. It is not synced there, because a sync costs as much as dozens of calls: within
// mergeDelay it is in the ledger, whose commit is synced. A power failure can lose the last charges, in the customer's favour, but
// never one before another that it keeps.
//
// The file is made once at its full size and used as a ring of two halves: a half is overwritten once all of its entries are synced
// in the ledger, which stores the number of the last one (keyMerged) in the same commit. So each entry is entered exactly once.
type journal struct {
	file    vfs.File
	mapped  []byte // the file mapped into memory; nil if that is not possible
	process [processBytes]byte

	mu         sync.Mutex
	waiting    []*single // guarded by mu: in the journal and not yet in the ledger, in order; bounded by the file
	last       uint64    // guarded by mu: the number of the last entry
	activeHalf int       // guarded by mu: the half being written
	offset     int       // guarded by mu: in that half
	lastInHalf [2]uint64 // guarded by mu: the last number in each half
	merged     uint64    // guarded by mu: the last number that is synced in the ledger
	timerSet   bool      // guarded by mu: a merge is scheduled
	broken     bool      // guarded by mu: the ledger's state is unknown; the process must end
	buf        []byte    // guarded by mu

	mergeMu sync.Mutex   // serialises merges; taken before mu and before the stripes
	applied uint64       // guarded by mergeMu: the number of the last entry in the ledger, synced or not
	writer  ledgerWriter // guarded by mergeMu
	delay   time.Duration
}

const (
	journalName = "singles.journal"
	// journalHeaderSize is the offset of the halves; the header has the id of the process that writes them.
	journalHeaderSize = 512
	// journalHalfSize is room for about 5,000 entries: a tenth of a second of the busiest account.
	journalHalfSize = 512 << 10
	journalSize     = journalHeaderSize + 2*journalHalfSize

	// mergeDelay is how long an entry waits in the journal for others that share its sync: a hundred, at 5,000 calls a
	// second.
	mergeDelay = 20 * time.Millisecond
)

const journalLost = Lost("a settlement was lost")

// journalEntry is the settlement of one single call. The credits of a release are those that were held.
type journalEntry struct {
	number  uint64
	account string
	record  record
}

// The form of a journal entry. A half is a sequence of them with consecutive numbers. The sum covers the id of the process and the
// bytes after the sum, so that entries of an earlier process are not valid.
//
//	length of the bytes after the sum uint16, sum uint32, number uint64, first letter of the kind, credits uvarint,
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

// readJournalEntries reads the valid entries of a half. The bytes after them are older, or were being written when the process ended.
func readJournalEntries(half []byte, process [processBytes]byte) (ends []journalEntry) {
	for len(half) > 6 {
		size := int(binary.BigEndian.Uint16(half))
		sum, rest := binary.BigEndian.Uint32(half[journalSumOffset:]), half[6:]
		if size > len(rest) || checksum(process, rest[:size]) != sum {
			break
		}
		r := &reader{v: rest[:size]}
		number, kind := r.bytes(8), r.bytes(1)
		credits := int64(r.uvarint(uint64(MaxCredits)))
		at, account := r.bytes(8), r.bytes(int(r.uvarint(MaxName)))
		if r.failed || credits == 0 || len(r.v) == 0 || len(r.v) > MaxName {
			break
		}
		used := credits
		if kind[0] == Release[0] {
			used = 0
		}
		e := journalEntry{number: binary.BigEndian.Uint64(number), account: string(account),
			record: settlementRecord(string(r.v), used, credits, time.Unix(0, int64(binary.BigEndian.Uint64(at))))}
		if e.record.Kind[0] != kind[0] || (len(ends) > 0 && e.number != ends[len(ends)-1].number+1) {
			break
		}
		ends, half = append(ends, e), rest[size:]
	}
	return ends
}

// openJournal replays the journal that the process before left, and starts a new one.
func (s *DB) openJournal(fs vfs.FS, dir string) error {
	f, err := fs.OpenReadWrite(fs.PathJoin(dir, journalName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	j := &s.journal
	j.file, j.process, j.delay = f, s.requests.process, mergeDelay
	b := make([]byte, journalSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var left []journalEntry
	if n == journalSize { // else incomplete: a crash while the file was made
		process := [processBytes]byte(b)
		left = append(readJournalEntries(b[journalHeaderSize:journalHeaderSize+journalHalfSize], process),
			readJournalEntries(b[journalHeaderSize+journalHalfSize:], process)...)
		slices.SortFunc(left, func(a, b journalEntry) int { return cmp.Compare(a.number, b.number) })
	}
	if err := s.replayJournal(left); err != nil {
		return fmt.Errorf("%s: %w; without that file the store opens, and the charges of its last moment are lost", journalName, err)
	}
	// The id of this process, synced, so that a power failure cannot make the entries of the process before valid again.
	head := make([]byte, journalSize)
	copy(head, j.process[:])
	info, err := f.Stat()
	complete := err == nil && info.Size() == journalSize
	if complete {
		head = head[:processBytes]
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if !complete {
		if err := wholefile.SyncDir(fs, dir); err != nil {
			return err
		}
	}
	j.mapped, err = mapFile(f, journalSize)
	return err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return errors.Join(unmapFile(j.mapped), j.file.Close())
}

// appendSingle writes an entry, unless both halves are full of entries that are not yet synced in the ledger. first reports that no
// merge is scheduled.
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
	at := journalHeaderSize + j.activeHalf*journalHalfSize + j.offset
	if j.mapped != nil {
		copy(j.mapped[at:], j.buf)
	} else if _, err := j.file.WriteAt(j.buf, int64(at)); err != nil {
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
