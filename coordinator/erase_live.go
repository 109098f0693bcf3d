package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"probity/engine"
	"probity/store"
)

const ruleErased = "coordinator/erased"

// forgetAsks sees to it that an unfinished job never asks for the address again, and takes it out of the chunk file.
func (e *erasure) forgetAsks(ctx context.Context, j *store.Job) error {
	l := e.c.newLive(ctx, j)
	err := l.open()
	if err == nil {
		err = e.settleRow(l)
	}
	if err == nil {
		err = e.recut(l)
	}
	if err == nil {
		err = e.blankDead(l)
	}
	return errors.Join(err, l.close())
}

// settleRow answers the address's first row, for which its duplicates stand, if it has no answer.
func (e *erasure) settleRow(l *live) error {
	if e.row < 0 || l.answered.has(uint32(e.row)) {
		return nil
	}
	now := time.Now()
	v := engine.Sure(engine.ReasonSMTPNotChecked, ruleErased, 0, now)
	entry, err := l.appendAnswer(nil, &ask{Number: uint32(e.row)}, &v, tagFinal, now)
	if err == nil {
		err = l.log.write(entry)
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// recut replaces the chunks that hold the address by chunks that do not, in one commit. Attempts, due times and
// identities of the other rows stay.
func (e *erasure) recut(l *live) error {
	var done []uint64
	var again []batchOf
	var room buffer
	err := l.c.cfg.Store.Chunks(l.job.ID, func(c store.Chunk) error {
		b, err := l.chunks.read(c, &room)
		if err != nil {
			return err
		}
		rows, err := unpackChunk(b, l.c.table.Load(), func(uint32) bool { return false }, nil)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", c.Number, err)
		}
		kept := &packer{}
		for i := range rows.batch {
			if rows.batch[i].Address.Folded() != e.folded {
				a := rows.ask(i)
				kept.add(&a)
			}
		}
		if kept.len() == rows.len() {
			return nil
		}
		done = append(done, c.Number)
		if kept.len() > 0 {
			again = append(again, batchOf{rows: kept, class: c.Class, egress: c.Egress, attempt: c.Attempt, due: c.NotBefore})
		}
		return nil
	})
	if err != nil || len(done) == 0 {
		return err
	}
	made, err := l.chunks.write(again, &room, nil)
	if err != nil {
		return err
	}
	return l.c.cfg.Store.FinishChunks(l.job.ID, done, made)
}

const blankBytes = 256 << 10 // written at one time

// blankDead overwrites what no chunk refers to in the chunk file: chunks that have ended name addresses too.
func (e *erasure) blankDead(l *live) error {
	var alive []store.Chunk
	err := l.c.cfg.Store.Chunks(l.job.ID, func(c store.Chunk) error { alive = append(alive, c); return nil })
	if err != nil {
		return err
	}
	slices.SortFunc(alive, func(a, b store.Chunk) int { return cmp.Compare(a.Offset, b.Offset) })
	at := int64(0)
	for _, c := range append(alive, store.Chunk{Offset: l.chunks.f.end}) {
		if err := l.chunks.blank(at, c.Offset); err != nil {
			return err
		}
		at = c.Offset + int64(c.Length)
	}
	return l.chunks.f.sync()
}

// blank overwrites a part of the file.
func (f *chunkFile) blank(from, to int64) error {
	nothing := make([]byte, min(blankBytes, max(0, to-from)))
	for from < to {
		n, err := f.f.f.WriteAt(nothing[:min(int64(len(nothing)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}
