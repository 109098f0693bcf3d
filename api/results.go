package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"probity/coordinator"
	"probity/engine"
	"probity/store"
)

// isSigned reports that the request has the signature of a link instead of a key.
func isSigned(c *call) bool { return c.ctx.QueryArgs().Has("signature") }

// checkSignature authorizes a signed link to the results of one job.
func checkSignature(c *call) error {
	if c.srv.deps.Callbacks == nil {
		return coordinator.ErrLinkInvalid
	}
	j, err := c.srv.deps.Callbacks.VerifyLink(c.param, queryText(c, "expires"), queryText(c, "signature"))
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
	h := &c.ctx.Response.Header
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
	if matchesETag(string(c.ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), tag) {
		c.ctx.Response.SetStatusCode(statusNotModified)
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
func checkResultsReady(j *store.Job, f coordinator.Filter) error {
	switch {
	case j.State == store.JobExpired:
		return coordinator.ErrExpired
	case j.State == store.JobFailed:
		return refuse(conflict, "The job has failed and has no results: look at its error.")
	case !j.State.Finished() && !f.Partial:
		return coordinator.ErrNotReady
	}
	return nil
}

// readFilter reads which rows are wanted, and in which form.
func readFilter(c *call) (f coordinator.Filter, err error) {
	if err := c.checkQuery("status", "format", "compress", "partial", "expires", "signature"); err != nil {
		return f, err
	}
	f.Form = coordinator.Form{Format: coordinator.CSV, Compress: coordinator.None}
	args := c.ctx.QueryArgs()
	if args.Has("format") {
		if f.Format = coordinator.Format(queryText(c, "format")); f.Format != coordinator.CSV && f.Format != coordinator.JSONL {
			return f, refuse(unacceptable, "format must be csv or jsonl.")
		}
	}
	if args.Has("compress") {
		switch f.Compress = coordinator.Compress(queryText(c, "compress")); f.Compress {
		case coordinator.None, coordinator.Gzip, coordinator.Zstd:
		default:
			return f, refuse(unacceptable, "compress must be none, gzip or zstd.")
		}
	}
	if f.Partial, err = queryFlag(c, "partial"); err != nil {
		return f, err
	}
	if args.Has("status") {
		f.Status, err = readStatuses(queryText(c, "status"))
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
			return nil, refuse(unacceptable, "status must be some of VALID, RISKY, INVALID and UNKNOWN, separated by commas.")
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

func mediaTypeOf(f coordinator.Form) (kind, ending string) {
	kind, ending = "text/csv; charset=utf-8", ".csv"
	if f.Format == coordinator.JSONL {
		kind, ending = "application/x-ndjson", ".jsonl"
	}
	switch f.Compress {
	case coordinator.Gzip:
		return "application/gzip", ending + ".gz"
	case coordinator.Zstd:
		return "application/zstd", ending + ".zst"
	}
	return kind, ending
}

// contentDisposition names the file after the upload, in ASCII and unchanged (RFC 6266, appendix D).
func contentDisposition(j *store.Job, f coordinator.Filter, ending string) string {
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
func etagOf(j *store.Job, f coordinator.Filter, stored coordinator.Form) string {
	sum := j.ResultSHA[:min(len(j.ResultSHA), 32)]
	if f.Form == stored && len(f.Status) == 0 {
		return `"` + sum + `"`
	}
	tag := fmt.Sprintf("%s-%s-%s", sum, f.Format, f.Compress)
	for _, s := range f.Status {
		tag += "-" + s.String()
	}
	return `W/"` + tag + `"`
}

// matchesETag compares weakly (RFC 9110, section 13.1.2).
func matchesETag(header, tag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for one := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(one), "W/") == strings.TrimPrefix(tag, "W/") {
			return header != ""
		}
	}
	return false
}

// sendStored serves the stored file or the requested range of it.
func sendStored(c *call, j *store.Job, filter coordinator.Filter) error {
	f, j, err := c.srv.deps.Coordinator.OpenStored(c.ctx, j.ID)
	if err != nil {
		return fmt.Errorf("stored results: %w", err)
	}
	tag := etagOf(j, filter, filter.Form) // of these bytes
	c.ctx.Response.Header.Set("ETag", tag)
	part, err := requestedRange(c, j.ResultBytes, tag)
	if err == nil && !c.ctx.IsHead() {
		err = auditDownload(c, j, filter, part)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if part.isRange {
		c.ctx.Response.SetStatusCode(statusPartial)
		c.ctx.Response.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.from, part.to-1, j.ResultBytes))
	}
	body := struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, part.from, part.to-part.from), f}
	c.ctx.Response.SetBodyStream(body, int(part.to-part.from))
	return nil
}

// byteRange is the bytes [from, to) of a file: the requested ones, or all.
type byteRange struct {
	from, to int64
	isRange  bool
}

// requestedRange reads the Range header (RFC 9110, section 14.2): one range of bytes. It ignores a header that it cannot read,
// and any if If-Range names another tag.
func requestedRange(c *call, size int64, tag string) (byteRange, error) {
	all := byteRange{to: size}
	header := string(c.ctx.Request.Header.Peek(fasthttp.HeaderRange))
	if ifRange := string(c.ctx.Request.Header.Peek(fasthttp.HeaderIfRange)); ifRange != "" && ifRange != tag {
		return all, nil
	}
	from, to, ok := parseRange(header, size)
	if !ok {
		return all, nil
	}
	if from >= to {
		r := refuse(badRange, "The Range is outside of the file: ask for bytes below %d.", size)
		r.length = size
		return byteRange{}, r
	}
	return byteRange{from, to, true}, nil
}

// parseRange returns the bytes [from, to) of a file that a Range header requests; from is not below to if there are none.
func parseRange(header string, size int64) (from, to int64, ok bool) {
	spec, isBytes := strings.CutPrefix(header, "bytes=")
	first, last, isRange := strings.Cut(strings.TrimSpace(spec), "-")
	if !isBytes || !isRange || strings.Contains(spec, ",") {
		return 0, 0, false
	}
	if first == "" {
		n, err := strconv.ParseUint(last, 10, 62)
		return max(0, size-int64(n)), size, err == nil
	}
	begin, err := strconv.ParseUint(first, 10, 62)
	if err != nil {
		return 0, 0, false
	}
	if last == "" {
		return int64(begin), size, true
	}
	end, err := strconv.ParseUint(last, 10, 62)
	if err != nil || end < begin {
		return 0, 0, false
	}
	return int64(begin), min(int64(end)+1, size), true
}

// streamResults makes rows while they are sent. A failure before the first byte is answered; a later one breaks
// the connection, so that half a file never passes for a whole one.
func streamResults(c *call, j *store.Job, f coordinator.Filter) error {
	if c.ctx.IsHead() {
		c.ctx.Response.SetBodyStream(strings.NewReader(""), -1)
		return nil
	}
	s, id := c.srv, j.ID
	r, w := io.Pipe()
	s.streams.Go(func() {
		w.CloseWithError(s.deps.Coordinator.Results(s.stopCtx, id, f, w))
	})
	buffered := bufio.NewReaderSize(r, 64<<10)
	if _, err := buffered.Peek(1); err != nil && err != io.EOF {
		return errors.Join(err, r.Close())
	}
	if err := auditDownload(c, j, f, byteRange{}); err != nil {
		return errors.Join(err, r.Close())
	}
	c.ctx.Response.SetBodyStream(struct {
		io.Reader
		io.Closer
	}{buffered, r}, -1)
	return nil
}
