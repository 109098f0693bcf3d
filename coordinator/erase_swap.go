package coordinator

import (
	"context"
	"errors"
	"io/fs"

	"probity/store"
)

// swapped are the files that an erasure writes anew, in the order they take their names.
var swapped = [...]string{fileSpool, fileIndex}

// rewrite takes the address out of a job whose turn is held.
func (e *erasure) rewrite(ctx context.Context, j *store.Job) error {
	if err := e.c.endErasure(ctx, j); err != nil { // of an earlier one that broke
		return err
	}
	dir := e.c.dir(j.ID)
	for _, name := range swapped {
		if err := removeAny(e.c.cfg.FS, e.c.cfg.FS.PathJoin(dir, name+fileNew)); err != nil {
			return err
		}
	}
	if err := syncDir(e.c.cfg.FS, dir); err != nil { // no old marker may come back and vouch for new files
		return err
	}
	if !j.State.Finished() {
		if err := errors.Join(e.forgetAsks(j), removeAny(e.c.cfg.FS, e.c.cfg.FS.PathJoin(dir, fileChunks))); err != nil {
			return err // the job's next step reads what is on the disk
		}
	}
	j, err := e.writeAnswers(ctx, j)
	if err != nil {
		return err
	}
	if err := e.writeFiles(ctx, dir); err != nil {
		return err
	}
	if err := e.mark(dir); err != nil {
		return err
	}
	return e.c.endErasure(ctx, j)
}

// mark says that the new files are whole.
func (e *erasure) mark(dir string) error {
	disk := e.c.cfg.FS
	if err := writeWhole(disk, disk.PathJoin(dir, fileErasing), []byte("the files ending in "+fileNew+" are whole\n")); err != nil {
		return err
	}
	return syncDir(disk, dir)
}

// writeFiles writes the new files beside the old ones, and makes them durable.
func (e *erasure) writeFiles(ctx context.Context, dir string) error {
	if e.sheet {
		if err := e.writeSheet(ctx, dir); err != nil {
			return err
		}
	}
	return syncDir(e.c.cfg.FS, dir)
}

// writeSheet writes the spool and its index. Frames that do not name the address are copied as they are.
func (e *erasure) writeSheet(ctx context.Context, dir string) (err error) {
	s, err := e.c.openSheet(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	w, err := createSpool(e.c.cfg.FS, dir, fileNew)
	if err != nil {
		return err
	}
	var fr frameReader
	var said mention
	var text, packed []byte
	for i, f := range s.frames {
		if err = ctx.Err(); err != nil {
			break
		}
		if !e.frames[i] {
			packed, err = s.packed(i, packed)
		} else if err = e.read(s, i, &fr, &said); err == nil {
			text = cut(text[:0], fr.block.Buf, said.spans)
			packed, f.Raw = e.c.packer.EncodeAll(text, packed[:0]), uint32(len(text))
		}
		if err == nil {
			err = w.put(packed, f)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = w.finish(cut(nil, s.preamble, e.mentions(nil, s.preamble, 0, len(s.preamble))))
	}
	return errors.Join(err, w.close())
}

// packed reads frame i as it is stored, into dst.
func (s *spool) packed(i int, dst []byte) ([]byte, error) {
	f := s.frames[i]
	dst = append(dst[:0], make([]byte, f.Packed)...)
	return dst, readFull(s.f, dst, f.Offset)
}

// cut appends text with erasedText in place of each span.
func cut(dst, text []byte, spans []span) []byte {
	at := uint32(0)
	for _, s := range spans {
		dst = append(append(dst, text[at:s.from]...), erasedText...)
		at = s.to
	}
	return append(dst, text[at:]...)
}

// openSheet opens the spool of a folder, after the swap that an erasure may have left undone.
func (c *Coordinator) openSheet(dir string) (*spool, error) {
	c.swapping <- struct{}{} // held for a few openings and renamings only
	defer func() { <-c.swapping }()
	if _, err := c.swap(dir); err != nil {
		return nil, err
	}
	return openSpool(c.cfg.FS, dir, c.unpacker)
}

// swap gives the new files of an erasure their names, if its marker is there. The place of swapping is held.
func (c *Coordinator) swap(dir string) (marked bool, err error) {
	disk := c.cfg.FS
	if _, err := disk.Stat(disk.PathJoin(dir, fileErasing)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	moved := false
	for _, name := range swapped {
		path := disk.PathJoin(dir, name)
		if _, err := disk.Stat(path + fileNew); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return true, err
		}
		if err := disk.Rename(path+fileNew, path); err != nil {
			return true, err
		}
		moved = true
	}
	if !moved {
		return true, nil
	}
	return true, syncDir(disk, dir)
}

// endErasure takes an erasure whose marker is there to its end: the swap, then the result file of a finished job, and the
// rows of its callback, which can be made again. The turn of the job is held.
func (c *Coordinator) endErasure(ctx context.Context, j *store.Job) error {
	dir := c.dir(j.ID)
	c.swapping <- struct{}{}
	marked, err := c.swap(dir)
	<-c.swapping
	if err != nil || !marked {
		return err
	}
	if err := errors.Join(c.DropResults(j.ID), removeAny(c.cfg.FS, c.cfg.FS.PathJoin(dir, fileCallback+fileNew))); err != nil {
		return err
	}
	if j.State == store.JobCompleted || j.State == store.JobCancelled {
		if _, err := c.remakeResults(ctx, j); err != nil {
			return err
		}
	}
	if err := c.cfg.FS.Remove(c.cfg.FS.PathJoin(dir, fileErasing)); err != nil {
		return err
	}
	return syncDir(c.cfg.FS, dir)
}

// endErasures finishes, at a start, what erasures a crash left undone. A job in which that fails is left as it is for the next start,
// or for its own next step, which reads no old file where a new one is whole.
func (c *Coordinator) endErasures(ctx context.Context) error {
	var marked []*store.Job
	disk := c.cfg.FS
	err := c.cfg.Store.AllJobs(func(j *store.Job) error {
		if _, err := disk.Stat(disk.PathJoin(c.dir(j.ID), fileErasing)); err == nil && j.State != store.JobExpired {
			marked = append(marked, j)
		}
		return nil
	})
	for _, j := range marked {
		if err != nil || ctx.Err() != nil {
			break
		}
		if err := c.endErasureOf(ctx, j); errors.Is(err, store.ErrBroken) {
			return err
		} else if err != nil {
			c.meters.house.Add(1)
			c.log.Error("an erasure cannot be finished", "job", j.ID, "error", err)
		}
	}
	return err
}

func (c *Coordinator) endErasureOf(ctx context.Context, j *store.Job) error {
	give, err := c.takeTurn(ctx, j.ID)
	if err != nil {
		return err
	}
	defer give()
	return c.endErasure(ctx, j)
}
