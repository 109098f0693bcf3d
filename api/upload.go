package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime/multipart"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator"
	"probity/coordinator/csvfile"
	"probity/store"
)

// upload is one list on its way to becoming a job. The parts of a form come in any order, while the file must be read
// as it arrives: options that only go into the record are taken when the last part is read, just before the commit.
// Those that change how the file is read may prove to have come too late; then it is read again from a scratch copy.
type upload struct {
	x       *exchange
	form    *form
	sum     hash.Hash // of the file's bytes, for the Idempotency-Key
	request *store.Request
	claimed bool
	job     *store.Job
	body    []byte // the record of the accepted job
}

// The ends of an acceptance that are not its refusal.
var (
	errReadAgain = errors.New("options after the file change how it is read")
)

// keptAnswer ends the acceptance of a list that was accepted before.
type keptAnswer struct{ store.Answer }

func (*keptAnswer) Error() string { return "answered before" }

// createJob serves POST /v1/verify/bulk.
func (x *exchange) createJob() error {
	if err := x.srv.roomOnDisk(); err != nil {
		return err
	}
	u := &upload{x: x, form: newForm(&x.body, string(x.ctx.Request.Header.ContentType())), sum: sha256.New()}
	if key := string(x.ctx.Request.Header.Peek("Idempotency-Key")); key != "" {
		if len(key) > store.MaxName {
			return store.ErrIdempotencyKey
		}
		u.request = &store.Request{Account: x.who.User.ID, Endpoint: x.route.name, Key: key}
	}
	defer u.release()
	err := u.receive()
	if kept, ok := errors.AsType[*keptAnswer](err); ok {
		x.ctx.Response.Header.Set("Location", kept.Location)
		return x.send(kept.Status, kept.Body)
	}
	if err != nil {
		return err
	}
	x.ctx.Response.Header.Set("Location", u.x.srv.jobPath(u.job.ID))
	return x.send(statusAccepted, u.body)
}

// roomOnDisk refuses uploads below the floor of free space. A file system that cannot tell is believed to have room.
func (s *Server) roomOnDisk() error {
	if s.rooms.FS == nil {
		return nil
	}
	if use, err := s.rooms.FS.GetDiskUsage(s.rooms.Scratch); err == nil && use.AvailBytes < uint64(s.cfg.DiskFloor) {
		return busy("The disk is nearly full, so that no uploads are taken")
	}
	return nil
}

func (u *upload) release() {
	if u.claimed {
		u.x.srv.rooms.Store.EndRequest(*u.request)
	}
}

// receive reads the form and makes the job.
func (u *upload) receive() error {
	file, err := u.form.next()
	if err != nil {
		return err
	}
	if file == nil {
		return refuse(unacceptable, "file is missing: send the list as a part of that name.")
	}
	if err := u.checkCallback(); err != nil {
		return err
	}
	settled := u.form.has("email_column") && u.form.has("has_header")
	if settled || u.x.srv.rooms.FS == nil {
		return u.accept(io.TeeReader(file, u.sum), file.FileName())
	}
	return u.receiveTwice(file)
}

// receiveTwice accepts the file as it arrives, and again from a copy if options behind it change how it is read.
func (u *upload) receiveTwice(file *multipart.Part) (err error) {
	fs := u.x.srv.rooms.FS
	path := fs.PathJoin(u.x.srv.rooms.Scratch, "upload-"+u.x.id)
	if err := fs.MkdirAll(u.x.srv.rooms.Scratch, 0o700); err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	scratch, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close(), fs.Remove(path)) }()
	copied := io.TeeReader(file, io.MultiWriter(u.sum, &quietWriter{f: scratch}))
	err = u.accept(copied, file.FileName())
	if e, ok := errors.AsType[*csvfile.Error](err); ok && e.Kind == csvfile.Unacceptable {
		again, later := u.readOn(copied)
		if later != nil {
			return later
		}
		if !again {
			return err
		}
		err = errReadAgain
	}
	if !errors.Is(err, errReadAgain) {
		return err
	}
	whole, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	defer whole.Close()
	return u.accept(whole, file.FileName())
}

// quietWriter writes what must not be changed by being written: a file may do so to its buffer.
type quietWriter struct {
	f   vfs.File
	own []byte
}

func (w *quietWriter) Write(b []byte) (int, error) {
	w.own = append(w.own[:0], b...)
	return w.f.Write(w.own)
}

// readOn reads the rest of a file that was refused and the parts behind it; again tells that they change how it is read.
func (u *upload) readOn(file io.Reader) (again bool, err error) {
	was := u.form.bulkOptions
	if _, err := io.Copy(io.Discard, file); err != nil {
		return false, brokenForm(err)
	}
	if err := u.finishForm(); err != nil {
		return false, err
	}
	return was.column != u.form.column || was.noHeader != u.form.noHeader, nil
}

// finishForm reads the parts behind the file.
func (u *upload) finishForm() error {
	before := u.form.callbackURL
	more, err := u.form.next()
	if err != nil {
		return err
	}
	if more != nil {
		panic("BUG: a second file was not refused as sent twice")
	}
	if u.form.callbackURL != before {
		return u.checkCallback()
	}
	return nil
}

func (u *upload) checkCallback() error {
	if u.form.callbackURL == "" {
		return nil
	}
	if u.x.srv.rooms.Callbacks == nil {
		return refuse(unacceptable, "callback_url cannot be used here: this server sends no callbacks.")
	}
	return u.x.srv.rooms.Callbacks.CheckCallbackURL(u.x.srv.ending, u.form.callbackURL)
}

// accept makes the job of a file as it is read with the options known so far.
func (u *upload) accept(file io.Reader, filename string) error {
	o := u.form.bulkOptions
	j, err := u.x.srv.rooms.Coordinator.Accept(u.x.srv.ending, coordinator.Upload{Body: formFile{file}, Options: coordinator.Options{
		Account: u.x.who.User.ID, Key: u.x.who.Key, Filename: cleanFilename(filename), Column: o.column, NoHeader: o.noHeader, Test: u.x.who.Test,
		Parts: func(j *store.Job) []store.Part {
			parts, err := u.parts(j, o)
			if err != nil {
				return []store.Part{func(*pebble.Batch) error { return err }}
			}
			return parts
		},
	}})
	u.job = j
	return err
}

// formFile reads a part; a part that breaks off is the form's fault, not the sheet's.
type formFile struct{ r io.Reader }

func (f formFile) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		err = brokenForm(err)
	}
	return n, err
}

// parts is what the acceptance of a counted list commits with the job: the record's options, the reservation and the kept
// answer. with are the options that the file was read with.
func (u *upload) parts(j *store.Job, with bulkOptions) ([]store.Part, error) {
	if err := u.finishForm(); err != nil {
		return nil, err
	}
	o := u.form.bulkOptions
	if o.column != with.column || o.noHeader != with.noHeader {
		if u.x.srv.rooms.FS == nil {
			return nil, refuse(unacceptable, "email_column and has_header must come before file: send the parts in that order.")
		}
		return nil, errReadAgain
	}
	j.Name, j.MaxAge, j.CallbackURL = o.name, o.maxAge, o.callbackURL
	if o.hours > 0 {
		j.MaxHours = o.hours
	}
	if o.callbackURL != "" {
		j.CallbackContent, j.CallbackInput = o.callbackContent, o.callbackInput
	}
	var err error
	if u.body, err = u.x.srv.recordOf(coordinator.Snapshot{Job: *j}, nil); err != nil {
		return nil, err
	}
	parts := []store.Part{store.ReserveJob(j.Account, j.ID, costOf(j), j.CreatedAt)}
	if u.request == nil {
		return parts, nil
	}
	if err := u.claim(o, j.Filename); err != nil {
		return nil, err
	}
	answer := store.Answer{Status: statusAccepted, Location: u.x.srv.jobPath(j.ID), Body: u.body}
	return append(parts, store.KeepAnswer(*u.request, answer, j.CreatedAt)), nil
}

// claim takes the Idempotency-Key, now that it is known what the request says.
func (u *upload) claim(o bulkOptions, filename string) error {
	u.request.Digest = sha256.Sum256(fmt.Appendf(nil, "%x %q %+v", u.sum.Sum(nil), filename, o))
	kept, done, err := u.x.srv.rooms.Store.BeginRequest(*u.request, u.x.srv.now())
	if err != nil {
		return err
	}
	if done {
		return &keptAnswer{kept}
	}
	u.claimed = true
	return nil
}

// costOf is what a job may cost at most.
func costOf(j *store.Job) int64 {
	if j.Test {
		return 0
	}
	return j.Unique
}
