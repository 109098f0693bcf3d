package coordinator

import (
	"context"
	"errors"

	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
	"probity/store"
)

// reconcileFiles makes the files of a job match its record, and returns the new record: files of an older version are migrated,
// and objects that the record does not name are deleted. The job's lock is held.
func (c *Coordinator) reconcileFiles(j *store.Job) (*store.Job, error) {
	j, err := c.migrateUpload(j)
	if err != nil {
		return nil, err
	}
	return j, c.logUnlessFatal(c.removeOrphans(j.ID), "unused files of a job were not removed", "job", j.ID)
}

// rewrite erases the address from a job. The job's lock is held.
func (e *erasure) rewrite(ctx context.Context, j *store.Job) error {
	j, err := e.c.reconcileFiles(j)
	if err != nil || !e.inUpload && !e.inNames {
		return err
	}
	if hasResults(j) && j.Answers == nil { // finished by an older version
		if j, err = e.c.remakeResults(ctx, j); err != nil {
			return err
		}
	}
	now := *j
	switch {
	case !j.State.Finished():
		err = e.rewriteLog(j)
	case e.inNames:
		now.Answers, err = e.copyAnswers(j)
	}
	if err == nil && e.inUpload {
		now.Upload, err = e.writeUpload(ctx, j)
	}
	if err == nil && hasResults(j) {
		err = e.c.remake(ctx, &now)
	}
	if err != nil {
		return err
	}
	disk, callback := e.c.cfg.FS, e.c.cfg.FS.PathJoin(e.c.dir(j.ID), fileCallback)
	if err := errors.Join(removeIfExists(disk, callback), removeIfExists(disk, callback+wholefile.New)); err != nil { // it is made again
		return err
	}
	_, err = e.c.updateJob(j.ID, func(j *store.Job) error {
		j.Upload, j.Answers, j.Result, j.ResultSHA, j.ResultBytes = now.Upload, now.Answers, now.Result, now.ResultSHA, now.ResultBytes
		return nil
	})
	if err != nil {
		return err
	}
	return e.c.removeOrphans(j.ID)
}

// writeUpload writes the upload without the address. Frames that do not contain it are copied as they are.
func (e *erasure) writeUpload(ctx context.Context, j *store.Job) (name string, err error) {
	u, err := e.c.openUpload(j)
	if err != nil {
		return "", err
	}
	p, err := e.c.objects.Create(j.ID, kindUpload)
	if err != nil {
		return "", errors.Join(err, u.Close())
	}
	w := jobfiles.NewUploadWriter(p)
	err = e.copyFrames(ctx, u, w)
	if err == nil {
		err = copyDuplicates(u, w)
	}
	if err == nil {
		err = w.Finish(replaceRanges(nil, u.Preamble, e.findMentions(nil, u.Preamble, 0, len(u.Preamble))))
	}
	if err == nil {
		err = p.Commit()
	}
	return p.Name(), errors.Join(err, p.Abort(), u.Close())
}

func (e *erasure) copyFrames(ctx context.Context, u *jobfiles.Upload, w *jobfiles.UploadWriter) error {
	var fr jobfiles.FrameReader
	var mentions blockMentions
	var text, packed []byte
	for i, f := range u.Frames {
		err := ctx.Err()
		switch {
		case err != nil:
		case !e.inFrame[i]:
			packed, err = u.Packed(i, packed)
		default:
			if err = e.searchFrame(u, i, &fr, &mentions); err == nil {
				text = replaceRanges(text[:0], fr.Block.Buf, mentions.ranges)
				packed, f.Raw = e.c.encoder.EncodeAll(text, packed[:0]), uint32(len(text))
			}
		}
		if err == nil {
			err = w.AddFrame(packed, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyDuplicates(u *jobfiles.Upload, w *jobfiles.UploadWriter) (err error) {
	var firstOf []uint32
	for i, f := range u.Frames {
		if firstOf, err = u.AppendFirstRows(firstOf[:0], i); err != nil {
			return err
		}
		for n, first := range firstOf {
			if first == 0 {
				continue
			}
			if err := w.AddDuplicate(f.First+uint32(n), first-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaceRanges appends text with each range replaced by erasedText.
func replaceRanges(dst, text []byte, spans []byteRange) []byte {
	at := uint32(0)
	for _, s := range spans {
		dst = append(append(dst, text[at:s.from]...), erasedText...)
		at = s.to
	}
	return append(dst, text[at:]...)
}
