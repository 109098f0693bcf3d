package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"regexp"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"

	"probity/coordinator/outward"
	"probity/coordinator/resultfile"
	"probity/internal/pipeline"
	"probity/internal/shownname"
	"probity/store"
	"probity/store/deliveries"
)

// refusedHost is the error of a host that nothing is sent to.
type refusedHost struct{ error }

// errGone ends an attempt whose delivery was dropped meanwhile.
var errGone = errors.New("the delivery was dropped")

// failure is an error with a text for the job's record.
type failure struct {
	text  string
	final bool // another attempt would fail too
}

func (f *failure) Error() string { return f.text }

// errNoUpload is the code of an upload that the storage does not know, or no longer.
const errNoUpload = "NoSuchUpload"

// deliver makes one attempt and records what became of it. Its error is one of the state store.
func (s *Sender) deliver(ctx context.Context, d *deliveries.Delivery) error {
	began := time.Now()
	err := s.attempt(ctx, d)
	switch {
	case errors.Is(err, store.ErrBroken), vfs.IsNoSpaceError(err):
		return err
	case errors.Is(err, errGone):
		return nil
	case err != nil && ctx.Err() != nil:
		return nil // it goes on after the next start
	}
	why, final := explain(err)
	now := time.Now()
	after, recordErr := deliveries.Update(s.cfg.Store.DB, d.Job, func(stored *deliveries.Delivery) {
		switch {
		case stored.State != deliveries.Pending: // it was ended meanwhile
			return
		case err == nil:
			stored.Complete(now)
			return
		case final:
			stored.Attempts++
			stored.Abandon(why, now)
			return
		case minio.ToErrorResponse(err).Code == errNoUpload:
			stored.LoseUpload()
		}
		stored.Fail(why, rand.Float64(), now)
	})
	if errors.Is(recordErr, deliveries.ErrNone) {
		return nil // the job was deleted meanwhile
	}
	if recordErr != nil {
		return recordErr
	}
	s.attempts.WithLabelValues(string(after.State)).Inc()
	s.cfg.Log.Info("delivery of results attempted", "job", d.Job, "attempt", after.Attempts, "state", after.State,
		"took", now.Sub(began), "error", after.Error, "cause", cause(err), "next", after.Next)
	return nil
}

// attempt sends what the bucket does not have yet. Each part that has arrived is recorded at once.
func (s *Sender) attempt(ctx context.Context, d *deliveries.Delivery) error {
	to, err := ParsePlace(d.URL)
	if err != nil {
		return err
	}
	u, err := s.cfg.Store.User(d.Account)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err != nil || u.Disabled || !allows(s.cfg.Allowed, u.Email, to) {
		return &failure{text: "the operator does not allow this bucket any more"}
	}
	core, err := s.client()
	if err != nil {
		s.cfg.Log.Error("results are not delivered", "error", err)
		return &failure{text: "the server's key for the bucket cannot be read"}
	}
	file, j, err := s.openResults(ctx, d.Job)
	if err != nil {
		return err
	}
	defer file.Close()

	if d.Upload == nil || d.Upload.ID == "" || d.Upload.File != j.ResultSHA { // a file that was made anew differs
		begin, done := context.WithTimeout(ctx, stepTimeout)
		id, err := core.NewMultipartUpload(begin, to.Bucket, to.Prefix, minio.PutObjectOptions{
			ContentType: "application/zstd", UserMetadata: map[string]string{"Sha256": j.ResultSHA}})
		done()
		if err != nil {
			return err
		}
		err = s.record(d, func(stored *deliveries.Delivery) {
			stored.BeginUpload(id, j.ResultSHA, s.cfg.PartBytes)
		})
		if err != nil {
			return err
		}
	}
	for {
		sent := int64(len(d.Upload.Parts)) * d.Upload.PartBytes
		if sent >= j.ResultBytes {
			break
		}
		part := io.NewSectionReader(file, sent, min(d.Upload.PartBytes, j.ResultBytes-sent))
		tag, err := putPart(ctx, core, to, d.Upload, part)
		if err != nil {
			return err
		}
		err = s.record(d, func(stored *deliveries.Delivery) { stored.AddPart(tag) })
		if err != nil {
			return err
		}
	}
	var parts []minio.CompletePart
	for i, tag := range d.Upload.Parts {
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: tag})
	}
	if _, err := deliveries.Of(s.cfg.Store.DB, d.Job); errors.Is(err, deliveries.ErrNone) {
		return errGone
	} else if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, stepTimeout)
	defer done()
	_, err = core.CompleteMultipartUpload(ctx, to.Bucket, to.Prefix, d.Upload.ID, parts, minio.PutObjectOptions{})
	return err
}

// openResults opens the result file of a job.
func (s *Sender) openResults(ctx context.Context, job string) (vfs.File, *store.Job, error) {
	file, j, err := s.cfg.Results.OpenStored(ctx, job)
	switch {
	case err == nil:
		return file, j, nil
	case errors.Is(err, store.ErrBroken):
		return nil, nil, err
	case errors.Is(err, store.ErrNotFound):
		return nil, nil, errors.Join(errGone, deliveries.Drop(s.cfg.Store.DB, job))
	case errors.Is(err, resultfile.ErrExpired):
		return nil, nil, &failure{text: "the results have expired", final: true}
	}
	s.cfg.Log.Error("results are not delivered", "job", job, "error", err)
	return nil, nil, &failure{text: "the result file cannot be read"}
}

// putPart sends the next part of an upload, and returns its ETag.
func putPart(ctx context.Context, core *minio.Core, to Place, u *deliveries.Upload,
	part *io.SectionReader) (string, error) {
	ctx, done := context.WithTimeout(ctx, stepTimeout)
	defer done()
	sum := sha256.New()
	if _, err := io.Copy(sum, pipeline.ContextReader{Context: ctx, Reader: part}); err != nil {
		return "", err
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sent, err := core.PutObjectPart(ctx, to.Bucket, to.Prefix, u.ID, len(u.Parts)+1, part, part.Size(),
		minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum.Sum(nil)), DisableContentSha256: true})
	if err == nil && sent.ETag == "" {
		err = &failure{text: "the bucket's server did not confirm a part with an ETag"}
	}
	return sent.ETag, err
}

// record changes a delivery, in the store and in d.
func (s *Sender) record(d *deliveries.Delivery, change func(*deliveries.Delivery)) error {
	now, err := deliveries.Update(s.cfg.Store.DB, d.Job, change)
	if errors.Is(err, deliveries.ErrNone) {
		return errGone
	}
	if err == nil {
		*d = now
	}
	return err
}

// errorCode is what an S3 error code looks like.
var errorCode = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// explain returns the text of an error for the job's record: without addresses, and without what the server wrote but
// its code.
func explain(err error) (why string, final bool) {
	if err == nil {
		return "", false
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.text, f.final
	}
	if r, ok := errors.AsType[minio.ErrorResponse](err); ok && r.StatusCode != 0 {
		if !errorCode.MatchString(r.Code) {
			return fmt.Sprintf("the bucket's server answers %d", r.StatusCode), false
		}
		return fmt.Sprintf("the bucket's server answers %d %s", r.StatusCode, r.Code), false
	}
	if _, ok := errors.AsType[*refusedHost](err); ok {
		return "the bucket's server: " + outward.ErrForbidden.Error(), false
	}
	for _, known := range []error{outward.ErrForbidden, outward.ErrNoName, outward.ErrConnect} {
		if errors.Is(err, known) {
			return "the bucket's server: " + known.Error(), false
		}
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return "the bucket's server took too long", false
	}
	return connectionLost, false
}

// connectionLost is the text of all other errors.
const connectionLost = "the connection to the bucket's server was lost, or it does not speak S3"

// shownAddress is what IP addresses look like, with or without a port.
var shownAddress = regexp.MustCompile(`[0-9]+(\.[0-9]+){3}(:[0-9]+)?|\[?[0-9a-fA-F]*(:[0-9a-fA-F.]*){2,}\]?(:[0-9]+)?`)

const maxCause = 300 // bytes

// cause returns for the log what the text of explain leaves out, such as what is wrong with a certificate; empty if
// that says it all. It has no address, and no URL.
func cause(err error) string {
	if why, _ := explain(err); why != connectionLost {
		return ""
	}
	for {
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err
		} else if connection, ok := errors.AsType[*net.OpError](err); ok {
			err = connection.Err
		} else {
			break
		}
	}
	return shownname.Clean(shownAddress.ReplaceAllString(err.Error(), "(address)"), maxCause)
}
