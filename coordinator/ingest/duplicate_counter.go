package ingest

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"probity/coordinator/addresses"
	"probity/coordinator/csvfile"
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/prober/wire/press"
)

const (
	countPartitions = 256
	countRecord     = 20 // 128-bit hash, row, or one of the numbers below
	dupRecord       = 8  // row, first row
	dupWindowBits   = 20
	dupWindow       = 1 << dupWindowBits
	dupWindows      = csvfile.MaxRows>>dupWindowBits + 1

	mentioned   = 1<<31 - 1 // in place of the row: an address in other text than an e-mail cell
	unparsable  = 1 << 31   // added to the row: the e-mail cell is not an address
	maxMentions = csvfile.MaxRows
	// most mentions of a block: about as many as it may have rows
	maxBlockMentions = 1 << 16
)

// duplicateCounter finds the rows that repeat the address of an earlier row, and the addresses of the list.
type duplicateCounter struct {
	seed  uint64
	spill *spill

	rows, blank, unique, duplicates int64
	domains                         map[string]int // addresses by domain, duplicates included; see consumerDomains
	// mentions is the number of addresses in other text. A list with too many gets no set of its addresses.
	mentions atomic.Int64
}

func (r *Receiver) newCounter(job string, seed uint64) (*duplicateCounter, error) {
	s, err := createSpill(r.cfg.Files.FS, r.cfg.Files.Path(job, jobdir.FileSpill), countPartitions)
	return &duplicateCounter{seed: seed, spill: s, domains: consumerDomains(r.cfg.Table())}, err
}

// appendHashes appends a record for each row of a block that has an address and for each address in other text, and the
// domain of each row's address that parses. It is safe for concurrent use.
func (c *duplicateCounter) appendHashes(dst []byte, domains []string, b *csvfile.Block) ([]byte, []string) {
	find := addresses.Finder{OnlyCells: c.mentions.Load() > maxMentions}
	row, mentions := uint32(0), 0
	visit := func(m addresses.Mention) (taken bool) {
		if m.IsCell {
			domains = append(domains, m.Domain())
			dst = c.appendRecord(dst, m.Folded(), row)
			return false
		}
		mentions++
		if mentions > maxBlockMentions {
			find.OnlyCells = true
			mentions = maxMentions + 1
			return true
		}
		dst = c.appendRecord(dst, m.Folded(), mentioned)
		return false
	}
	for i := range b.Rows {
		press.Yield(i)
		row = b.First + uint32(i)
		isAddress := find.InRow(b, i, visit)
		if !isAddress && !b.Rows[i].Blank {
			dst = c.appendRecord(dst, engine.Trim(string(b.Email(i))), row|unparsable)
		}
	}
	c.mentions.Add(int64(mentions))
	return dst, domains
}

func (c *duplicateCounter) appendRecord(dst []byte, text string, row uint32) []byte {
	h := addresses.Hash(text, c.seed)
	dst = binary.BigEndian.AppendUint64(dst, h.Hi)
	dst = binary.BigEndian.AppendUint64(dst, h.Lo)
	return binary.BigEndian.AppendUint32(dst, row)
}

// addPreamble adds the addresses in the text before the first row.
func (c *duplicateCounter) addPreamble(text []byte, d csvfile.Dialect) error {
	var recs []byte
	find := addresses.Finder{Dialect: d}
	find.InText(text, 0, len(text), func(m addresses.Mention) (taken bool) {
		recs = c.appendRecord(recs, m.Folded(), mentioned)
		return false
	})
	return c.add(recs, nil, 0)
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
	c.blank += int64(rows)
	for ; len(recs) > 0; recs = recs[countRecord:] {
		if binary.BigEndian.Uint32(recs[16:]) != mentioned {
			c.blank--
		}
		if err := c.spill.add(int(recs[0]), recs[:countRecord]); err != nil {
			return err
		}
	}
	return nil
}

// finish counts partition by partition, and adds the set of addresses and the duplicates to the upload.
func (c *duplicateCounter) finish(w *jobfiles.UploadWriter) (err error) {
	dups, err := createSpill(c.spill.fs, c.spill.path+".duplicates", dupWindows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dups.remove()) }()
	be := binary.BigEndian
	set := addresses.NewSetWriter(w.Addresses(), c.seed)
	complete := c.mentions.Load() <= maxMentions
	firstRows := map[xxh3.Uint128]uint32{} // by hash, or mentioned if it is not of a row so far; reused by partition
	for p := range countPartitions {
		clear(firstRows)
		err := c.spill.forEach(p, func(run []byte) error {
			for ; len(run) > 0; run = run[countRecord:] {
				row := be.Uint32(run[16:])
				hash := xxh3.Uint128{Hi: be.Uint64(run), Lo: be.Uint64(run[8:])}
				first, known := firstRows[hash]
				if !known && complete && row&unparsable == 0 {
					if err := set.Add(hash); err != nil {
						return err
					}
				}
				row &^= unparsable
				if !known || first == mentioned {
					firstRows[hash] = row
					if row != mentioned {
						c.unique++
					}
					continue
				}
				if row == mentioned {
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
	}
	if complete {
		if err := set.Finish(); err != nil {
			return err
		}
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
