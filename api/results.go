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

// isSigned reports that the request bears the signature of a link instead of a key.
func (x *exchange) isSigned() bool { return x.ctx.QueryArgs().Has("signature") }

// checkSignature lets the bearer of a signed link read the results of one job.
func (x *exchange) checkSignature() error {
	if x.srv.rooms.Callbacks == nil {
		return coordinator.ErrLinkWrong
	}
	j, err := x.srv.rooms.Callbacks.VerifyLink(x.param, x.query("expires"), x.query("signature"))
	if err != nil {
		return err
	}
	x.who.User.ID = j.Account
	return nil
}

// getResults serves the rows of a job.
func (x *exchange) getResults() error {
	f, err := x.readFilter()
	if err != nil {
		return err
	}
	j, err := x.job()
	if err != nil {
		return err
	}
	if err := readable(j, f); err != nil {
		return err
	}
	h := &x.ctx.Response.Header
	kind, ending := mediaTypeOf(f.Form)
	h.Set("Content-Disposition", disposition(j, f, ending))
	h.SetContentType(kind)
	if !j.State.Finished() {
		h.Set("Accept-Ranges", "none")
		return x.streamResults(j, f)
	}
	tag := tagOf(j, f, x.srv.rooms.Coordinator.StoredForm())
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if sameTag(string(x.ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), tag) {
		x.ctx.Response.SetStatusCode(statusNotModified)
		return nil
	}
	if f.Form == x.srv.rooms.Coordinator.StoredForm() && len(f.Status) == 0 {
		h.Set("Accept-Ranges", "bytes")
		return x.sendStored(j, f)
	}
	h.Set("Accept-Ranges", "none")
	return x.streamResults(j, f)
}

// readable refuses results that are not there.
func readable(j *store.Job, f coordinator.Filter) error {
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

// readFilter reads which rows are wanted, and how.
func (x *exchange) readFilter() (f coordinator.Filter, err error) {
	if err := x.onlyQuery("status", "format", "compress", "partial", "expires", "signature"); err != nil {
		return f, err
	}
	f.Form = coordinator.Form{Format: coordinator.CSV, Compress: coordinator.None}
	args := x.ctx.QueryArgs()
	if args.Has("format") {
		if f.Format = coordinator.Format(x.query("format")); f.Format != coordinator.CSV && f.Format != coordinator.JSONL {
			return f, refuse(unacceptable, "format must be csv or jsonl.")
		}
	}
	if args.Has("compress") {
		switch f.Compress = coordinator.Compress(x.query("compress")); f.Compress {
		case coordinator.None, coordinator.Gzip, coordinator.Zstd:
		default:
			return f, refuse(unacceptable, "compress must be none, gzip or zstd.")
		}
	}
	if f.Partial, err = x.queryFlag("partial"); err != nil {
		return f, err
	}
	if args.Has("status") {
		f.Status, err = readStatuses(x.query("status"))
	}
	return f, err
}

// readStatuses reads statuses separated by commas, each once, in an order of ours.
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

// disposition names the file after the upload, in ASCII and as it is (RFC 6266, appendix D).
func disposition(j *store.Job, f coordinator.Filter, ending string) string {
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

// tagOf names the bytes of a finished job in a form. Only the stored bytes are promised to stay the same to the last
// one; other forms are made anew by whatever version runs, and bear a weak tag.
func tagOf(j *store.Job, f coordinator.Filter, stored coordinator.Form) string {
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

// sameTag compares weakly (RFC 9110, section 13.1.2).
func sameTag(header, tag string) bool {
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

// sendStored serves the stored file, or the range of it that is asked for.
func (x *exchange) sendStored(j *store.Job, filter coordinator.Filter) error {
	f, j, err := x.srv.rooms.Coordinator.OpenStored(x.ctx, j.ID)
	if err != nil {
		return fmt.Errorf("stored results: %w", err)
	}
	tag := tagOf(j, filter, filter.Form) // of these bytes
	x.ctx.Response.Header.Set("ETag", tag)
	part, err := x.rangeOf(j.ResultBytes, tag)
	if err == nil && !x.ctx.IsHead() {
		err = x.auditDownload(j, filter, part)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if part.asked {
		x.ctx.Response.SetStatusCode(statusPartial)
		x.ctx.Response.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.from, part.to-1, j.ResultBytes))
	}
	body := struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, part.from, part.to-part.from), f}
	x.ctx.Response.SetBodyStream(body, int(part.to-part.from))
	return nil
}

// span is the bytes [from, to) of a file: those that were asked for, or all.
type span struct {
	from, to int64
	asked    bool
}

// rangeOf reads the Range header (RFC 9110, section 14.2): one range of bytes. What it cannot read it ignores, as it
// does when If-Range names other bytes.
func (x *exchange) rangeOf(size int64, tag string) (span, error) {
	all := span{to: size}
	header := string(x.ctx.Request.Header.Peek(fasthttp.HeaderRange))
	if only := string(x.ctx.Request.Header.Peek(fasthttp.HeaderIfRange)); only != "" && only != tag {
		return all, nil
	}
	from, to, ok := parseRange(header, size)
	if !ok {
		return all, nil
	}
	if from >= to {
		r := refuse(badRange, "The Range is outside of the file: ask for bytes below %d.", size)
		r.length = size
		return span{}, r
	}
	return span{from, to, true}, nil
}

// parseRange gives the bytes [from, to) of a file that a Range header asks for; from is not below to when there are none.
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

// streamResults makes rows while they are sent. What fails before the first byte is answered; what fails later breaks
// the connection, so that half a file is never taken for a whole one.
func (x *exchange) streamResults(j *store.Job, f coordinator.Filter) error {
	if x.ctx.IsHead() {
		x.ctx.Response.SetBodyStream(strings.NewReader(""), -1)
		return nil
	}
	s, id := x.srv, j.ID
	r, w := io.Pipe()
	s.streams.Go(func() {
		w.CloseWithError(s.rooms.Coordinator.Results(s.ending, id, f, w))
	})
	ahead := bufio.NewReaderSize(r, 64<<10)
	if _, err := ahead.Peek(1); err != nil && err != io.EOF {
		return errors.Join(err, r.Close())
	}
	if err := x.auditDownload(j, f, span{}); err != nil {
		return errors.Join(err, r.Close())
	}
	x.ctx.Response.SetBodyStream(struct {
		io.Reader
		io.Closer
	}{ahead, r}, -1)
	return nil
}
