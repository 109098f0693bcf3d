package ingest

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/zeebo/xxh3"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/engine"
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

// duplicateCounter finds the rows that repeat the address of an earlier row.
type duplicateCounter struct {
	seed  uint64
	spill *spill

	rows, blank, unique, duplicates int64
	domains                         map[string]int // addresses by domain, duplicates included; see consumerDomains
}

func (r *Receiver) newCounter(job string, seed uint64) (*duplicateCounter, error) {
	s, err := createSpill(r.cfg.Files.FS, r.cfg.Files.Path(job, jobdir.FileSpill), countPartitions)
	return &duplicateCounter{seed: seed, spill: s, domains: consumerDomains(r.cfg.Table())}, err
}

// appendHashes appends a record for each row of a block that has an address, and the domain of each address that
// parses. It is safe for concurrent use.
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
	for _, d := range domains {
		if was, known := c.domains[d]; known {
			c.domains[d] = was + 1
		} else if len(c.domains) < maxCounted {
			c.domains[strings.Clone(d)] = 1 // do not keep the text of the block
		}
	}
	c.rows += int64(rows)
	c.blank += int64(rows - len(recs)/countRecord)
	for ; len(recs) > 0; recs = recs[countRecord:] {
		if err := c.spill.add(int(recs[0]), recs[:countRecord]); err != nil {
			return err
		}
	}
	return nil
}

// finish counts partition by partition and adds the duplicates to the upload.
func (c *duplicateCounter) finish(w *jobfiles.UploadWriter) (err error) {
	dups, err := createSpill(c.spill.fs, c.spill.path+".duplicates", dupWindows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dups.remove()) }()
	be := binary.BigEndian
	firstRows := map[[2]uint64]uint32{} // by hash; reused by partition
	for p := range countPartitions {
		clear(firstRows)
		err := c.spill.forEach(p, func(run []byte) error {
			for ; len(run) > 0; run = run[countRecord:] {
				row := be.Uint32(run[16:])
				hash := [2]uint64{be.Uint64(run), be.Uint64(run[8:])}
				first, again := firstRows[hash]
				if !again {
					firstRows[hash] = row
					continue
				}
				c.duplicates++
				var rec [dupRecord]byte
				be.PutUint32(rec[:], row)
				be.PutUint32(rec[4:], first)
				if err := dups.add(int(row>>dupWindowBits), rec[:]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		c.unique += int64(len(firstRows))
	}
	if c.duplicates == 0 {
		return nil
	}
	// They are added in row order, window by window.
	firstOf := make([]uint32, min(dupWindow, c.rows)) // first row plus one
	for from := int64(0); from < c.rows; from += dupWindow {
		clear(firstOf)
		err := dups.forEach(int(from>>dupWindowBits), func(run []byte) error {
			for ; len(run) > 0; run = run[dupRecord:] {
				firstOf[be.Uint32(run)-uint32(from)] = be.Uint32(run[4:]) + 1
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

func (c *duplicateCounter) remove() error {
	if c.spill == nil {
		return nil
	}
	return c.spill.remove()
}
