package coordinator

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire/press"
)

const (
	countPartitions = 256
	countRecord     = 20 // 128-bit hash, row
	dupRecord       = 8  // row, first row
	dupWindowBits   = 20
	dupWindow       = 1 << dupWindowBits
	dupWindows      = csvfile.MaxRows>>dupWindowBits + 1
)

// rowCounts is the result of counting a list.
type rowCounts struct {
	rows, blank, unique, duplicates int64
}

// duplicateCounter finds the rows that repeat the address of an earlier row. Addresses are compared by a 128-bit hash with a
// random seed, so that no client can prepare collisions. An address that does not parse is compared as typed.
type duplicateCounter struct {
	seed   uint64
	spill  *spill
	counts rowCounts
	fs     vfs.FS
	dir    string
	pool   *pipeline.Pool[countBuffer]

	domains domainCounts
}

func newCounter(c *Coordinator, dir string, seed uint64) (*duplicateCounter, error) {
	fs, pool := c.cfg.FS, &c.pools.counts
	s, err := createSpill(fs, fs.PathJoin(dir, fileSpill), countPartitions, pool)
	return &duplicateCounter{seed: seed, spill: s, fs: fs, dir: dir, pool: pool, domains: newDomainCounts(c.table.Load())}, err
}

// appendHashes appends a record for each row of a block that has an address, and the domain of each address that parses. It is
// safe for concurrent use.
func (c *duplicateCounter) appendHashes(dst []byte, domains []string, b *csvfile.Block) ([]byte, []string) {
	for i := range b.Rows {
		press.Yield(i)
		if b.Rows[i].Blank {
			continue
		}
		text := engine.Trim(string(b.Email(i)))
		if a, err := engine.Parse(text); err == nil {
			text = a.Folded()
			domains = append(domains, a.Domain())
		}
		h := xxh3.HashString128Seed(text, c.seed)
		dst = binary.BigEndian.AppendUint64(dst, h.Hi)
		dst = binary.BigEndian.AppendUint64(dst, h.Lo)
		dst = binary.BigEndian.AppendUint32(dst, b.First+uint32(i))
	}
	return dst, domains
}

// add adds the records and domains of a block; blocks must come in row order.
func (c *duplicateCounter) add(recs []byte, domains []string, rows int) error {
	c.domains.add(domains)
	c.counts.rows += int64(rows)
	c.counts.blank += int64(rows - len(recs)/countRecord)
	for ; len(recs) > 0; recs = recs[countRecord:] {
		if err := c.spill.add(int(recs[0]), recs[:countRecord]); err != nil {
			return err
		}
	}
	return nil
}

// finish counts partition by partition and adds the duplicates to the upload.
func (c *duplicateCounter) finish(w *jobfiles.UploadWriter) (rowCounts, error) {
	dups, err := createSpill(c.fs, c.fs.PathJoin(c.dir, fileSpill+".duplicates"), dupWindows, c.pool)
	if err != nil {
		return rowCounts{}, err
	}
	var seen firstRows
	for p := range countPartitions {
		seen.reset()
		err := c.spill.forEach(p, func(run []byte) error { return c.countRun(&seen, run, dups) })
		if err != nil {
			return rowCounts{}, errors.Join(err, dups.remove())
		}
		c.counts.unique += int64(len(seen.keys))
	}
	if c.counts.duplicates > 0 {
		err = c.addDuplicates(dups, w)
	}
	return c.counts, errors.Join(err, dups.remove())
}

func (c *duplicateCounter) countRun(seen *firstRows, run []byte, dups *spill) error {
	be := binary.BigEndian
	for ; len(run) > 0; run = run[countRecord:] {
		row := be.Uint32(run[16:])
		first, again := seen.put(be.Uint64(run), be.Uint64(run[8:]), row)
		if !again {
			continue
		}
		c.counts.duplicates++
		var rec [dupRecord]byte
		be.PutUint32(rec[:], row)
		be.PutUint32(rec[4:], first)
		if err := dups.add(int(row>>dupWindowBits), rec[:]); err != nil {
			return err
		}
	}
	return nil
}

// addDuplicates adds the duplicates in row order, window by window.
func (c *duplicateCounter) addDuplicates(dups *spill, w *jobfiles.UploadWriter) error {
	firstOf := make([]uint32, min(dupWindow, c.counts.rows)) // first row plus one
	for from := int64(0); from < c.counts.rows; from += dupWindow {
		clear(firstOf)
		err := dups.forEach(int(from>>dupWindowBits), func(run []byte) error {
			for ; len(run) > 0; run = run[dupRecord:] {
				firstOf[binary.BigEndian.Uint32(run)-uint32(from)] = binary.BigEndian.Uint32(run[4:]) + 1
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, first := range firstOf {
			if first == 0 {
				continue
			}
			if err := w.AddDuplicate(uint32(from)+uint32(i), first-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove ends the count and removes its file.
func (c *duplicateCounter) remove() error {
	if c.spill == nil {
		return nil
	}
	return c.spill.remove()
}

// firstRows maps 128-bit keys to the first row that had them. It is a hash table with open addressing, reused by partition.
type firstRows struct {
	keys  []firstRow
	slots []int32 // index into keys plus one, 0 if free; the length is a power of two, at most half full
}

type firstRow struct {
	hi, lo uint64
	row    uint32
}

func (fr *firstRows) reset() {
	fr.keys = fr.keys[:0]
	clear(fr.slots)
}

// put returns the first row of a key, and whether that is an earlier one.
func (fr *firstRows) put(hi, lo uint64, row uint32) (uint32, bool) {
	if 2*len(fr.keys) >= len(fr.slots) {
		fr.grow()
	}
	mask := uint64(len(fr.slots) - 1)
	for i := lo & mask; ; i = (i + 1) & mask {
		n := fr.slots[i]
		if n == 0 {
			fr.keys = append(fr.keys, firstRow{hi, lo, row})
			fr.slots[i] = int32(len(fr.keys))
			return row, false
		}
		if k := &fr.keys[n-1]; k.hi == hi && k.lo == lo {
			return k.row, true
		}
	}
}

func (fr *firstRows) grow() {
	fr.slots = make([]int32, max(1024, 2*len(fr.slots)))
	mask := uint64(len(fr.slots) - 1)
	for n, k := range fr.keys {
		i := k.lo & mask
		for fr.slots[i] != 0 {
			i = (i + 1) & mask
		}
		fr.slots[i] = int32(n + 1)
	}
}
