package api

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime/multipart"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/api/httpd"
	"probity/api/listform"
	"probity/api/record"
	"probity/coordinator"
	"probity/coordinator/bucket"
	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/store"
)

// upload is one list that becomes a job. The parts of a form come in any order, while the file must be read as it
// arrives: options that only go into the record are applied when the last part is read, just before the commit.
// If an option after the file changes how the file is read, it is read again from a scratch copy.
type upload struct {
	call       *call
	form       *listform.Form
	sum        hash.Hash // of the file's bytes, for the Idempotency-Key
	request    *store.Request
	keyClaimed bool
	answer     store.Answer // with the record of the accepted job
}

// The end of an acceptance that must be repeated.
var (
	errReadAgain = errors.New("options after the file change how it is read")
)

// storedAnswer ends the acceptance of a list that was accepted before, and has the stored answer.
type storedAnswer struct{ store.Answer }

func (*storedAnswer) Error() string { return "answered before" }

// createJob serves POST /v1/verify/bulk.
func createJob(c *call) error {
	if err := c.srv.checkDiskSpace(); err != nil {
		return err
	}
	u := &upload{call: c, form: listform.New(c.Call), sum: sha256.New()}
	if key := c.idempotencyKey(); key != "" {
		if len(key) > store.MaxName {
			return store.ErrIdempotencyKey
		}
		u.request = &store.Request{Account: c.identity.User.ID, Endpoint: c.route.Path, Key: key}
	}
	defer func() {
		if u.keyClaimed {
			c.srv.deps.Store.EndRequest(*u.request)
		}
	}()
	file, err := u.form.Next()
	if err != nil {
		return err
	}
	if file == nil && u.form.SourceURL == "" && u.form.UploadID == "" {
		return httpd.Refuse(httpd.Unacceptable, "file is missing: send the list as a part of that name, its URL as "+
			"source_url, or the upload_id of a resumable upload.")
	}
	if err := u.checkCallback(""); err != nil {
		return err
	}
	switch {
	case file == nil && u.form.UploadID != "":
		err = u.acceptUpload()
	case file == nil:
		err = u.acceptFromURL()
	case u.form.ReadingKnown() || c.srv.deps.FS == nil:
		err = u.accept(io.TeeReader(httpd.FormFile(file), u.sum), file.FileName())
	default:
		err = u.acceptWithCopy(file)
	}
	if kept, ok := errors.AsType[*storedAnswer](err); ok {
		return c.sendAccepted(kept.Answer)
	}
	if err != nil {
		return err
	}
	return c.sendAccepted(u.answer)
}

// sendAccepted serves the record of an accepted job. A preview is added now, so that no cell of a list is in a kept
// answer.
func (c *call) sendAccepted(a store.Answer) error {
	c.Ctx.Response.Header.Set("Location", a.Location)
	var r record.Job
	if err := json.Unmarshal(a.Body, &r); err != nil {
		return err
	}
	if r.Status != store.JobReady {
		return c.SendBytes(a.Status, a.Body)
	}
	if err := c.srv.addPreview(&r); err != nil && !errors.Is(err, store.ErrNotFound) { // it may be deleted by now
		return err
	}
	return c.SendJSON(a.Status, &r)
}

// addPreview adds the beginning of the list to the record of a job that is ready.
func (s *Server) addPreview(r *record.Job) error {
	j, err := s.deps.Coordinator.Job(r.ID)
	if err != nil || j.State != store.JobReady {
		return err
	}
	p, err := s.deps.Coordinator.Preview(s.http.DrainContext(), j)
	if err == nil {
		r.SetPreview(p)
	} else if now, again := s.deps.Coordinator.Job(r.ID); again != nil || now.State != store.JobReady {
		return again // it was started or deleted meanwhile
	}
	return err
}

// checkDiskSpace refuses uploads if less than DiskFloor bytes are free. If the file system cannot say, uploads are
// accepted.
func (s *Server) checkDiskSpace() error {
	if s.deps.FS == nil {
		return nil
	}
	if use, err := s.deps.FS.GetDiskUsage(s.deps.Scratch); err == nil && use.AvailBytes < uint64(s.cfg.DiskFloor) {
		return httpd.Busy("The disk is nearly full, so that no uploads are taken")
	}
	return nil
}

// acceptFromURL accepts the file at source_url. All options are known.
func (u *upload) acceptFromURL() error {
	s := u.call.srv
	file, err := s.deps.Fetcher.Open(s.http.StopContext(), u.call.identity.User.ID, u.form.SourceURL)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	return u.accept(io.TeeReader(file, u.sum), file.Name)
}

// acceptWithCopy accepts the file as it arrives, and again from a copy if options after it change how it is read.
func (u *upload) acceptWithCopy(file *multipart.Part) (err error) {
	fs := u.call.srv.deps.FS
	path := fs.PathJoin(u.call.srv.deps.Scratch, "upload-"+u.call.ID)
	if err := fs.MkdirAll(u.call.srv.deps.Scratch, 0o700); err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	scratch, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close(), fs.Remove(path)) }()
	copied := io.TeeReader(httpd.FormFile(file), io.MultiWriter(u.sum, &copyingWriter{f: scratch}))
	err = u.accept(copied, file.FileName())
	if e, ok := errors.AsType[*csvfile.Error](err); ok && e.Kind == csvfile.Unacceptable {
		// The rest of the refused file and the parts after it may change how it is read.
		was := u.form.Options
		if _, err := io.Copy(io.Discard, copied); err != nil {
			return err
		}
		if err := u.finishForm(); err != nil {
			return err
		}
		if was.Reading == u.form.Reading {
			return err
		}
	} else if !errors.Is(err, errReadAgain) {
		return err
	}
	whole, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	defer whole.Close()
	return u.accept(whole, file.FileName())
}

// copyingWriter writes a copy, because a vfs.File may change the buffer that it writes.
type copyingWriter struct {
	f   vfs.File
	buf []byte
}

func (w *copyingWriter) Write(b []byte) (int, error) {
	w.buf = append(w.buf[:0], b...)
	return w.f.Write(w.buf)
}

// finishForm reads the parts after the file.
func (u *upload) finishForm() error {
	before := u.form.CallbackURL
	if more, err := u.form.Next(); err != nil {
		return err
	} else if more != nil {
		panic("BUG: a second file was not refused as sent twice")
	}
	if err := u.form.CheckSources(); err != nil {
		return err
	}
	return u.checkCallback(before)
}

// checkCallback refuses a bad results_to, and a callback URL that differs from the one that was checked before.
func (u *upload) checkCallback(before string) error {
	if err := u.call.srv.deps.Deliveries.Check(u.call.identity.User.Email, u.form.ResultsTo); err != nil {
		return err
	}
	if u.form.CallbackURL == before {
		return nil
	}
	if u.call.srv.deps.Callbacks == nil {
		return httpd.Refuse(httpd.Unacceptable, "Callbacks are disabled on this server: send the list without callback_url.")
	}
	return u.call.srv.deps.Callbacks.CheckURL(u.call.srv.http.StopContext(), u.form.CallbackURL)
}

// accept makes the job of a file, read with the options known so far.
func (u *upload) accept(file io.Reader, filename string) error {
	o := u.form.Options
	_, err := u.call.srv.deps.Coordinator.Accept(u.call.srv.http.StopContext(),
		ingest.Upload{Body: file, Options: ingest.Options{
			Account: u.call.identity.User.ID, Key: u.call.identity.Key, Filename: listform.CleanFilename(filename),
			Reading: o.Reading, Test: u.call.identity.Test,
			Parts: func(j *store.Job) []store.Part { return u.commitParts(j, o) },
		}})
	u.call.setUploadDecision(err)
	return err
}

// commitParts returns what is committed with the job of a counted list: the record's options, the reservation and the
// stored answer. with are the options that the file was read with.
func (u *upload) commitParts(j *store.Job, with listform.Options) []store.Part {
	if err := u.finishForm(); err != nil {
		return fail(err)
	}
	o := u.form.Options
	if o.Reading != with.Reading {
		if u.call.srv.deps.FS == nil {
			return fail(httpd.Refuse(httpd.Unacceptable, "%s must come before file: send the parts in that order.",
				strings.Join(listform.ReadingFields, ", ")))
		}
		return fail(errReadAgain)
	}
	j.Name, j.MaxAge, j.Details = o.Name, o.MaxAge, o.Details
	j.CallbackURL, j.Traceparent = o.CallbackURL, httpd.Traceparent(u.call.Call)
	if o.MaxHours > 0 {
		j.MaxHours = o.MaxHours
	}
	if o.Hold {
		j.State, j.Unstarted = store.JobReady, true
	}
	if o.CallbackURL != "" {
		j.CallbackContent, j.CallbackInput, j.CallbackHeaders = o.CallbackContent, o.CallbackInput, o.CallbackHeaders
	} else if o.CallbackHeaders != nil {
		return fail(httpd.Refuse(httpd.Unacceptable, "callback_headers need a callback_url: send both, or none."))
	}
	r, err := record.NewJob(u.call.srv.cfg.PublicURL, u.call.srv.deps.Coordinator.ResultRetention(),
		coordinator.Snapshot{Job: *j}, nil)
	if err != nil {
		return fail(err)
	}
	parts := u.call.acceptanceParts(j)
	if o.ResultsTo != "" {
		parts = append(parts, r.Deliver(j, bucket.ObjectURL(j.ID, o.ResultsTo)))
	}
	u.answer = store.Answer{Status: httpd.StatusAccepted, Location: u.call.srv.jobURLPath(j.ID)}
	if u.answer.Body, err = json.Marshal(r); err != nil {
		return fail(err)
	}
	if u.request == nil {
		return parts
	}
	// The whole request is known now, so that its Idempotency-Key can be claimed.
	u.request.Digest = sha256.Sum256(fmt.Appendf(nil, "%x %q %+v", u.sum.Sum(nil), j.Filename, o))
	kept, done, err := u.call.srv.deps.Store.BeginRequest(*u.request, u.call.srv.now())
	if err != nil {
		return fail(err)
	}
	if done {
		return fail(&storedAnswer{kept})
	}
	u.keyClaimed = true
	return append(parts, store.KeepAnswer(*u.request, u.answer, j.CreatedAt))
}

// acceptanceParts are the parts of the commit that accepts a job: it is counted, and its price is reserved if it starts
// at once.
func (c *call) acceptanceParts(j *store.Job) []store.Part {
	parts := []store.Part{c.srv.deps.Store.CountUpload(j.Account, c.srv.now(), &c.counted)}
	if j.State == store.JobReady {
		return parts
	}
	return append(parts, store.ReserveJob(j.Account, j.ID, record.MaxCost(j), j.CreatedAt))
}

// setUploadDecision tells the client what is left of the hour's uploads after the commit of one: if that failed, it was
// not counted.
func (c *call) setUploadDecision(err error) {
	if _, over := errors.AsType[*store.OverLimitError](err); err == nil || over {
		c.decision = c.counted
	}
	c.setDecision(c.decision)
}

// fail is a part with which a commit fails.
func fail(err error) []store.Part { return []store.Part{func(*pebble.Batch) error { return err }} }
