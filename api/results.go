package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/valyala/fasthttp"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/coordinator/callback"
	"probity/coordinator/results"
	"probity/engine"
	"probity/store"
)

// isSigned reports whether the request has the signature of a link instead of a key.
func isSigned(c *call) bool { return c.Ctx.QueryArgs().Has("signature") }

// checkSignature authorizes a signed link to the results of one job.
func checkSignature(c *call) error {
	if c.srv.deps.Callbacks == nil {
		return callback.ErrLinkInvalid
	}
	j, err := c.srv.deps.Callbacks.VerifyLink(c.Param, c.QueryText("expires"), c.QueryText("signature"))
	if err != nil {
		return err
	}
	c.identity.User.ID = j.Account
	return nil
}

// getResults serves the rows of a job.
func getResults(c *call) error {
	f, err := readFilter(c)
	if err != nil {
		return err
	}
	j, err := job(c)
	if err != nil {
		return err
	}
	if err := checkResultsReady(j, f); err != nil {
		return err
	}
	h := &c.Ctx.Response.Header
	kind, ending := mediaTypeOf(f.Form)
	h.Set("Content-Disposition", contentDisposition(j, f, ending))
	h.SetContentType(kind)
	if !j.State.Finished() {
		h.Set("Accept-Ranges", "none")
		return streamResults(c, j, f)
	}
	tag := etagOf(j, f, c.srv.deps.Coordinator.StoredForm())
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if httpd.MatchesETag(string(c.Ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), tag) {
		c.Ctx.Response.SetStatusCode(httpd.StatusNotModified)
		return nil
	}
	if f.Form == c.srv.deps.Coordinator.StoredForm() && len(f.Status) == 0 {
		h.Set("Accept-Ranges", "bytes")
		return sendStored(c, j, f)
	}
	h.Set("Accept-Ranges", "none")
	return streamResults(c, j, f)
}

// checkResultsReady refuses results that are not available.
func checkResultsReady(j *store.Job, f results.Filter) error {
	switch {
	case j.State == store.JobExpired:
		return coordinator.ErrExpired
	case j.State == store.JobFailed:
		return httpd.Refuse(httpd.Conflict, "The job has failed and has no results: look at its error.")
	case !j.State.Finished() && !f.Partial:
		return coordinator.ErrNotReady
	}
	return nil
}

// readFilter reads which rows are wanted, and in which form.
func readFilter(c *call) (f results.Filter, err error) {
	f.Form = results.Form{Format: results.CSV, Compress: results.None}
	args := c.Ctx.QueryArgs()
	if args.Has("format") {
		f.Format = results.Format(c.QueryText("format"))
		if f.Format != results.CSV && f.Format != results.JSONL {
			return f, httpd.Refuse(httpd.Unacceptable, "format must be csv or jsonl.")
		}
	}
	if args.Has("compress") {
		f.Compress = results.Compress(c.QueryText("compress"))
		switch f.Compress {
		case results.None, results.Gzip, results.Zstd:
		default:
			return f, httpd.Refuse(httpd.Unacceptable, "compress must be none, gzip or zstd.")
		}
	}
	if f.BOM, err = c.QueryFlag("bom"); err != nil {
		return f, err
	}
	if f.BOM && f.Format != results.CSV {
		return f, httpd.Refuse(httpd.Unacceptable, "bom is for format=csv: JSON lines begin with no byte order mark.")
	}
	if f.Partial, err = c.QueryFlag("partial"); err != nil {
		return f, err
	}
	if args.Has("status") {
		f.Status, err = readStatuses(c.QueryText("status"))
	}
	return f, err
}

// readStatuses reads statuses separated by commas. The result has each once, in the order of their numbers.
func readStatuses(s string) ([]engine.Status, error) {
	var wanted [4]bool
	for name := range strings.SplitSeq(s, ",") {
		known := false
		for st := engine.Unknown; st <= engine.Invalid; st++ {
			if strings.TrimSpace(name) == st.String() {
				wanted[st], known = true, true
			}
		}
		if !known {
			return nil, httpd.Refuse(httpd.Unacceptable,
				"status must be some of VALID, RISKY, INVALID and UNKNOWN, separated by commas.")
		}
	}
	var list []engine.Status
	for st, on := range wanted {
		if on {
			list = append(list, engine.Status(st))
		}
	}
	return list, nil
}

func mediaTypeOf(f results.Form) (kind, ending string) {
	kind, ending = "text/csv; charset=utf-8", ".csv"
	if f.Format == results.JSONL {
		kind, ending = "application/x-ndjson", ".jsonl"
	}
	switch f.Compress {
	case results.Gzip:
		return "application/gzip", ending + ".gz"
	case results.Zstd:
		return "application/zstd", ending + ".zst"
	}
	return kind, ending
}

// contentDisposition names the file after the upload, in ASCII and unchanged (RFC 6266, appendix D).
func contentDisposition(j *store.Job, f results.Filter, ending string) string {
	base := j.Filename
	for _, e := range []string{".gz", ".zst", ".zip", ".csv", ".txt", ".tsv"} {
		if len(base) > len(e) && strings.EqualFold(path.Ext(base), e) {
			base = base[:len(base)-len(e)]
		}
	}
	if base == "" {
		base = j.ID
	}
	base += ".verified"
	for _, s := range f.Status {
		base += "." + strings.ToLower(s.String())
	}
	base += ending
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\/%;`, r) {
			return '_'
		}
		return r
	}, base)
	if plain == base {
		return fmt.Sprintf(`attachment; filename="%s"`, plain)
	}
	return fmt.Sprintf(`attachment; filename="%s"; filename*=UTF-8''%s`, plain, url.PathEscape(base))
}

// etagOf is the ETag of a finished job's results in a form. Only the stored bytes are sure to stay identical; other
// forms are made again by the running version and have a weak tag.
func etagOf(j *store.Job, f results.Filter, stored results.Form) string {
	sum := j.ResultSHA[:min(len(j.ResultSHA), 32)]
	if f.Form == stored && len(f.Status) == 0 {
		return `"` + sum + `"`
	}
	tag := fmt.Sprintf("%s-%s-%s", sum, f.Format, f.Compress)
	if f.BOM {
		tag += "-bom"
	}
	for _, s := range f.Status {
		tag += "-" + s.String()
	}
	return `W/"` + tag + `"`
}

// sendStored serves the stored file or the requested range of it.
func sendStored(c *call, j *store.Job, filter results.Filter) error {
	f, j, err := c.srv.deps.Coordinator.OpenStored(c.Ctx, j.ID)
	if err != nil {
		return fmt.Errorf("stored results: %w", err)
	}
	tag := etagOf(j, filter, filter.Form) // of these bytes
	c.Ctx.Response.Header.Set("ETag", tag)
	part, err := c.RequestedRange(j.ResultBytes, tag)
	if err == nil && !c.Ctx.IsHead() {
		err = auditDownload(c, j, filter, part)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if part.IsRange {
		c.Ctx.Response.SetStatusCode(httpd.StatusPartial)
		c.Ctx.Response.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.From, part.To-1, j.ResultBytes))
	}
	body := struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, part.From, part.To-part.From), f}
	c.Ctx.Response.SetBodyStream(body, int(part.To-part.From))
	return nil
}

// streamResults makes rows while they are sent. A failure before the first byte is answered; a later one breaks
// the connection, so that half a file never passes for a whole one.
func streamResults(c *call, j *store.Job, f results.Filter) error {
	if c.Ctx.IsHead() {
		c.Ctx.Response.SetBodyStream(strings.NewReader(""), -1)
		return nil
	}
	s, id := c.srv, j.ID
	r, w := io.Pipe()
	s.http.Stream(func() {
		w.CloseWithError(s.deps.Coordinator.Results(s.http.StopContext(), id, f, w))
	})
	buffered := bufio.NewReaderSize(r, 64<<10)
	if _, err := buffered.Peek(1); err != nil && err != io.EOF {
		return errors.Join(err, r.Close())
	}
	if err := auditDownload(c, j, f, httpd.ByteRange{}); err != nil {
		return errors.Join(err, r.Close())
	}
	c.Ctx.Response.SetBodyStream(struct {
		io.Reader
		io.Closer
	}{buffered, r}, -1)
	return nil
}
