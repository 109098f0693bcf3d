package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"probity/coordinator/outward"
)

// File is a file that is being fetched. It is an io.ReadCloser.
type File struct {
	Name string // the last element of the URL's path

	fetcher   *Fetcher
	account   string
	url       string
	ctx       context.Context // of the file
	cancel    context.CancelFunc
	validator string // for If-Range: a strong one; empty if there is none
	size      int64  // negative if the server does not say it
	offset    int64  // of what is read next
	idle      int    // attempts to go on since the last byte
	body      *body  // nil between two connections
	err       error  // that ended the file
}

// body is the body of one answer, which ends if it comes too slowly.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc // ends the request
	stall  *time.Timer
	bytes  int // since the timer was set
}

// arrived gives the body more time once enough bytes have come.
func (b *body) arrived(n int) {
	b.bytes += n
	if b.bytes >= stallBytes {
		b.bytes = 0
		b.stall.Reset(stallTimeout)
	}
}

func (b *body) close() {
	b.stall.Stop()
	b.cancel()
	_ = b.Close() // of a connection that is not used again
}

// errLost is a connection that ended before the file did.
var errLost = errors.New("the connection was lost")

// begin sends the first request.
func (f *File) begin() error {
	resp, err := f.send(nil)
	if err != nil {
		return f.failure(err)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return refuse("its server answers %s; check the URL", status(resp))
	case resp.ContentLength < 0 && len(resp.TransferEncoding) == 0:
		return refuse("its server does not say how long the file is (Content-Length), so that a part would pass for " +
			"all of it; use another server")
	case resp.ContentLength > f.fetcher.cfg.MaxBytes:
		return f.tooLarge()
	}
	f.size, f.validator = resp.ContentLength, strongValidator(resp.Header)
	return nil
}

// Read reads the file, and goes on after a lost connection.
func (f *File) Read(p []byte) (n int, err error) {
	if f.err != nil {
		return 0, f.err
	}
	for n == 0 && err == nil {
		n, err = f.read(p)
		if errors.Is(err, errLost) {
			err = f.resume()
		}
	}
	if f.offset > f.fetcher.cfg.MaxBytes {
		n, err = 0, f.tooLarge()
	}
	f.err = err
	return n, err
}

// read reads from the open body. A lost connection is errLost.
func (f *File) read(p []byte) (int, error) {
	if f.body == nil {
		return 0, errLost
	}
	n, err := f.body.Read(p)
	if n > 0 {
		f.body.arrived(n)
		f.offset += int64(n)
		f.idle = 0
		return n, nil // an error comes again
	}
	whole := f.size < 0 || f.offset == f.size
	if err == nil || errors.Is(err, io.EOF) && whole {
		return 0, err
	}
	f.body.close()
	f.body = nil
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	return 0, errLost
}

// resume opens a new connection at the offset.
func (f *File) resume() error {
	if f.validator == "" {
		return refuse("the connection to its server was lost after %d bytes, and without an ETag it cannot be resumed; "+
			"try again", f.offset)
	}
	for ; f.idle < maxResumes; f.idle++ {
		select {
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-time.After(resumePause << f.idle):
		}
		err := f.request()
		if err == nil {
			f.idle++
			return nil
		}
		if !errors.Is(err, errLost) && !errors.Is(err, outward.ErrConnect) {
			return f.failure(err)
		}
	}
	return refuse("the connection to its server was lost after %d bytes, and could not be resumed; try again", f.offset)
}

// request asks for the rest of the file (RFC 9110, section 13.1.5). An answer that comes of another version, or from
// the beginning, is not taken.
func (f *File) request() error {
	resp, err := f.send(http.Header{"Range": {"bytes=" + strconv.FormatInt(f.offset, 10) + "-"},
		"If-Range": {f.validator}})
	if err != nil {
		return err
	}
	same := strongValidator(resp.Header)
	switch {
	case resp.StatusCode == http.StatusPartialContent && (same == "" || same == f.validator) && f.isRest(resp):
		return nil
	case resp.StatusCode == http.StatusOK && same == f.validator:
		return refuse("the connection to its server was lost after %d bytes, and it cannot resume (Range); try again",
			f.offset)
	case resp.StatusCode >= http.StatusInternalServerError, resp.StatusCode == http.StatusTooManyRequests:
		f.body.close()
		f.body = nil
		return errLost
	case resp.StatusCode/100 <= 2, resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return refuse("its server changed the file while it was read; try again once it stays the same")
	}
	return refuse("its server answers %s after %d bytes; check the URL", status(resp), f.offset)
}

// isRest reports whether an answer is of the bytes from the offset to the end.
func (f *File) isRest(resp *http.Response) bool {
	of, isBytes := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
	span, size, hasSize := strings.Cut(of, "/")
	from, to, isSpan := strings.Cut(span, "-")
	first, errFirst := strconv.ParseInt(from, 10, 64)
	last, errLast := strconv.ParseInt(to, 10, 64)
	if !isBytes || !hasSize || !isSpan || errors.Join(errFirst, errLast) != nil || first != f.offset {
		return false
	}
	if f.size < 0 {
		f.size = last + 1
	}
	whole := strconv.FormatInt(f.size, 10)
	return last == f.size-1 && (size == whole || size == "*")
}

// send sends a request, and sets the body.
func (f *File) send(header http.Header) (*http.Response, error) {
	ctx, cancel := context.WithCancel(f.ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		cancel()
		return nil, refuse("it is not a URL")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "Probity")
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.fetcher.client.Do(req)
	if err != nil {
		cancel()
		return nil, requestError(f.ctx, err)
	}
	f.body = &body{ReadCloser: resp.Body, cancel: cancel, stall: time.AfterFunc(stallTimeout, cancel)}
	return resp, nil
}

// requestError is the error of a request that has no answer, without its URL and addresses.
func requestError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if sent, ok := errors.AsType[*url.Error](err); ok {
		err = sent.Err
	}
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return refuse("its server has no good certificate: %v", bad.Err)
	}
	if isOutward(err) {
		return err
	}
	return errLost
}

// isOutward reports whether err is of outward, whose texts may be shown.
func isOutward(err error) bool {
	return errors.Is(err, outward.ErrForbidden) || errors.Is(err, outward.ErrNoName) ||
		errors.Is(err, outward.ErrConnect)
}

// failure is the error of a request for those who named the URL.
func (f *File) failure(err error) error {
	if errors.Is(err, errLost) {
		return refuse("its server did not answer with HTTP over TLS; check the URL")
	}
	if isOutward(err) {
		return refuse("%v", err)
	}
	return err
}

func (f *File) tooLarge() error {
	return &Error{TooLarge: true, text: fmt.Sprintf("the file is over %d bytes; send it in parts", f.fetcher.cfg.MaxBytes)}
}

// Close ends the file. It returns no error.
func (f *File) Close() error {
	if f.body != nil {
		f.body.close()
		f.body = nil
	}
	f.cancel()
	f.fetcher.release(f.account)
	return nil
}

// strongValidator returns what If-Range may have: a strong ETag, or a Last-Modified that is strong since the answer was
// made at least a second later (RFC 9110, sections 8.8.2.2 and 13.1.5).
func strongValidator(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	modified, errModified := http.ParseTime(h.Get("Last-Modified"))
	made, errMade := http.ParseTime(h.Get("Date"))
	if errors.Join(errModified, errMade) == nil && made.Sub(modified) >= time.Second {
		return h.Get("Last-Modified")
	}
	return ""
}

// status is the status of an answer in words that we choose.
func status(resp *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode))
}
