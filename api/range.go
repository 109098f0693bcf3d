package api

import (
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// byteRange is the bytes [from, to) of a file: the requested ones, or all.
type byteRange struct {
	from, to int64
	isRange  bool
}

// requestedRange reads the Range header (RFC 9110, section 14.2): one range of bytes. It ignores a header that it cannot read,
// and any if If-Range names another tag.
func (c *Call) requestedRange(size int64, tag string) (byteRange, error) {
	all := byteRange{to: size}
	header := string(c.Ctx.Request.Header.Peek(fasthttp.HeaderRange))
	if ifRange := string(c.Ctx.Request.Header.Peek(fasthttp.HeaderIfRange)); ifRange != "" && ifRange != tag {
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
