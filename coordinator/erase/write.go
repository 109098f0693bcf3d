package erase

import (
	"context"
	"errors"
	"time"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/wholefile"
	"probity/store"
)

const ruleErased = "coordinator/erased"

// rewrite erases the address from a job. The job's lock is held.
func (e *erasure) rewrite(ctx context.Context, j *store.Job) error {
	err := e.RemoveOrphans(j.ID)
	if err != nil || !e.inUpload && !e.inNames {
		return err
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
	if err == nil && j.State.Finished() {
		err = e.Remake(ctx, &now)
	}
	if err == nil {
		err = e.Files.Remove(j.ID, jobdir.FileCallback, jobdir.FileCallback+wholefile.New) // it is made again
	}
	if err != nil {
		return err
	}
	_, err = e.Store.UpdateJob(j.ID, func(j *store.Job) error {
		j.SetFiles(&now)
		return nil
	})
	if err != nil {
		return err
	}
	return e.Files.RemoveOrphans(j.ID)
}

// rewriteLog removes the address from the log of an unfinished job. It keeps the job from probing the address by an
// answer to its first row, which counts for its duplicates too. If the log has a name to erase, the log is rewritten
// with an empty name.
func (e *erasure) rewriteLog(j *store.Job) error {
	if e.row > 0 {
		first := uint32(e.row - 1)
		answered, _, err := e.Files.AnsweredRows(j)
		if err != nil {
			return err
		}
		if !answered.Has(first) {
			log, _, err := jobfiles.OpenRows(e.Files.FS, e.Files.Path(j.ID, jobdir.FileRows), nil,
				func(*jobfiles.Group) error { return nil })
			if err != nil {
				return err
			}
			v := engine.VerdictFor(engine.ReasonSMTPNotChecked, ruleErased, 0, time.Now())
			log.Start()
			err = log.Add([]jobfiles.Row{{Number: first, Kind: jobfiles.Final, Verdict: &v}})
			if err = errors.Join(err, log.Close()); err != nil {
				return err
			}
		}
	}
	// The chunks may have the address. The job's next step makes them again.
	if err := e.Files.Remove(j.ID, jobdir.FileChunks); err != nil || !e.inNames {
		return err
	}
	return e.Files.ReplaceLog(j.ID, func(w *jobfiles.RowsWriter) error { return e.copyTo(w, j) })
}

// copyAnswers writes the answers file of a finished job without the erased names.
func (e *erasure) copyAnswers(j *store.Job) (made *store.AnswersFile, err error) {
	w, err := e.Files.CreateAnswers(j.ID)
	if err != nil {
		return nil, err
	}
	w.File.Rows = j.Answers.Rows
	err = e.copyTo(w.Rows, j)
	if err == nil {
		err = w.Finish()
	}
	return &w.File, errors.Join(err, w.Abort())
}

func (e *erasure) copyTo(w *jobfiles.RowsWriter, j *store.Job) error {
	return e.Files.ReadAnswers(j, func(g *jobfiles.Group) error {
		return w.AddGroup(g, func(name string) string {
			if e.mustErase(name) {
				return ""
			}
			return name
		})
	})
}

// writeUpload writes the upload without the address. Frames that do not contain it are copied as they are.
func (e *erasure) writeUpload(ctx context.Context, j *store.Job) (name string, err error) {
	u, err := e.Files.OpenUpload(j)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	p, err := e.Files.Create(j.ID, jobdir.KindUpload)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, p.Abort()) }()
	w := jobfiles.NewUploadWriter(p)
	var r frameReader
	var text, packed []byte
	for i, f := range u.Frames {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if !e.inFrame[i] {
			packed, err = u.Packed(i, packed)
		} else if err = e.searchFrame(u, i, &r); err == nil {
			text = replaceRanges(text[:0], r.Block.Buf, r.mentions.ranges)
			packed, f.Raw = e.Encoder.EncodeAll(text, packed[:0]), uint32(len(text))
		}
		if err == nil {
			err = w.AddFrame(packed, f)
		}
		if err != nil {
			return "", err
		}
	}
	if !e.ambiguous { // else the set would still have what the text can be read as, and so tell what it was
		if err := u.Addresses().WriteWithout(w.Addresses(), e.folded); err != nil {
			return "", err
		}
	}
	if err := u.EachDuplicate(w.AddDuplicate); err != nil {
		return "", err
	}
	if err := w.Finish(replaceRanges(nil, u.Preamble, e.inPreamble(u))); err != nil {
		return "", err
	}
	return p.Name(), p.Commit()
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
