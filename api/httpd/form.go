package httpd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of a form.
const (
	maxParts      = 64       // parts, unknown ones included
	maxPartText   = 4 << 10  // bytes of a part that is not the file
	maxPartHeader = 16 << 10 // bytes between two parts: the rest of one, the boundary, and the header of the next
)

// Form reads the parts of an upload one after another, in any order.
type Form struct {
	mr           *multipart.Reader
	body         tailReader
	lastBoundary []byte // the boundary that ends the form
	done         bool
	parts        int
	seen         []string
	known        []string                       // names of the parts; others are refused
	set          func(name, value string) error // takes a part that is not the file
}

// Form reads the request as a form of the route's parts. Each but the part named file is passed to set when it is read.
func (c *Call) Form(set func(name, value string) error) *Form {
	return newForm(&c.body, string(c.Ctx.Request.Header.ContentType()), c.route.Fields.Names, set)
}

func newForm(body io.Reader, contentType string, known []string, set func(name, value string) error) *Form {
	_, params, _ := mime.ParseMediaType(contentType) // admit has checked it
	f := &Form{body: tailReader{r: body}, lastBoundary: []byte("--" + params["boundary"] + "--"), known: known,
		set: set}
	f.mr = multipart.NewReader(&f.body, params["boundary"])
	return f
}

// tailBytes is larger than the read-ahead of the multipart reader.
const tailBytes = 8 << 10

// tailReader keeps the end of what was read. To the multipart reader, a form that is cut off in the header of a part
// looks like one that has ended; the last boundary distinguishes them. While a header is read, tailReader limits its
// size: the multipart reader would keep megabytes of it.
type tailReader struct {
	r          io.Reader
	tail       []byte
	inHeader   bool // a part's header is being read
	headerLeft int  // bytes that it may still have
}

func (t *tailReader) Read(p []byte) (int, error) {
	if t.inHeader {
		if t.headerLeft == 0 {
			return 0, &Refusal{Kind: Malformed, closeConn: true,
				Detail: fmt.Sprintf("The header of a part is longer than %d bytes: send only the headers of a form (RFC 7578).", maxPartHeader)}
		}
		p = p[:min(len(p), t.headerLeft)]
	}
	n, err := t.r.Read(p)
	if t.inHeader {
		t.headerLeft -= n
	}
	if over := len(t.tail) + n - tailBytes; over > 0 {
		t.tail = t.tail[:copy(t.tail, t.tail[min(over, len(t.tail)):])]
	}
	t.tail = append(t.tail, p[max(0, n-tailBytes):n]...)
	return n, err
}

// Has reports whether a part was read.
func (f *Form) Has(name string) bool { return slices.Contains(f.seen, name) }

// Next reads parts up to the file, which it returns, or to the end of the form, where it returns nil.
func (f *Form) Next() (*multipart.Part, error) {
	for !f.done {
		f.body.inHeader, f.body.headerLeft = true, maxPartHeader
		p, err := f.mr.NextRawPart()
		f.body.inHeader = false
		if err == io.EOF {
			f.done = true
			return nil, f.finish()
		}
		if err != nil {
			return nil, brokenForm(err)
		}
		f.parts++
		if f.parts > maxParts {
			return nil, Refuse(Unacceptable, "The form has more than %d parts: send only those that are described.",
				maxParts)
		}
		switch strings.ToLower(p.Header.Get("Content-Transfer-Encoding")) {
		case "", "7bit", "8bit", "binary":
		default: // would have to be decoded first; clients should not send it (RFC 7578, section 4.7)
			return nil, Refuse(mediaType, "A part has a Content-Transfer-Encoding: send parts as they are.")
		}
		name := p.FormName()
		if name != "" && f.Has(name) {
			return nil, Refuse(Unacceptable, "%s was sent twice: send it once.", quoteName(name))
		}
		f.seen = append(f.seen, name)
		if name == "file" {
			return p, nil
		}
		if err := f.option(name, p); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// finish checks that the last boundary is there and reads what follows it (RFC 2046, section 5.1.1), so that a body
// that is cut off does not pass for a whole one.
func (f *Form) finish() error {
	if !bytes.Contains(f.body.tail, f.lastBoundary) {
		return brokenForm(io.ErrUnexpectedEOF)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(&f.body, MaxJSON))
	if err != nil {
		return brokenForm(err)
	}
	if n == MaxJSON {
		return Refuse(Malformed, "Data found after the final multipart boundary: end the body there.")
	}
	return nil
}

// quoteName is a client's name, quoted and shortened for a detail.
func quoteName(name string) string {
	return strconv.QuoteToASCII(name[:min(len(name), 40)])
}

// brokenForm is the refusal of a form that cannot be read further; a refusal of the body itself stays as it is.
func brokenForm(err error) error {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	return &Refusal{Kind: Malformed, Detail: "The multipart body is malformed: it must begin and end with the boundary of the Content-Type.", closeConn: true, Cause: err}
}

// option reads one part that is not the file.
func (f *Form) option(name string, p *multipart.Part) error {
	if err := checkName(name, f.known); err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(p, maxPartText+1))
	if err != nil {
		return brokenForm(err)
	}
	if len(b) > maxPartText || !utf8.Valid(b) {
		return Refuse(Unacceptable, "%s must be UTF-8 text of at most %d bytes.", name, maxPartText)
	}
	return f.set(name, string(b))
}

// FormFile reads the file of a form; its errors are refusals of the form, not errors of what the file holds.
func FormFile(part io.Reader) io.Reader { return formFile{part} }

// PieceOf returns the body of a route that takes a piece of an upload. Its errors are refusals.
func PieceOf(c *Call) io.Reader { return &c.body }

type formFile struct{ part io.Reader }

func (f formFile) Read(p []byte) (int, error) {
	n, err := f.part.Read(p)
	if err != nil && err != io.EOF {
		err = brokenForm(err)
	}
	return n, err
}
