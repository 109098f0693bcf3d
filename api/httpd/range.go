package httpd

import (
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// ByteRange is the bytes [from, to) of a file: the requested ones, or all.
type ByteRange struct {
	From, To int64
	IsRange  bool
}

// RequestedRange reads the Range header (RFC 9110, section 14.2): one range of bytes. It ignores a header that it
// cannot read, and any if If-Range names another tag.
func (c *Call) RequestedRange(size int64, tag string) (ByteRange, error) {
	all := ByteRange{To: size}
	header := string(c.Ctx.Request.Header.Peek(fasthttp.HeaderRange))
	if ifRange := string(c.Ctx.Request.Header.Peek(fasthttp.HeaderIfRange)); ifRange != "" && ifRange != tag {
		return all, nil
	}
	from, to, ok := parseRange(header, size)
	if !ok {
		return all, nil
	}
	if from >= to {
		r := Refuse(badRange, "The Range is outside of the file: ask for bytes below %d.", size)
		r.length = size
		return ByteRange{}, r
	}
	return ByteRange{from, to, true}, nil
}

// parseRange returns the bytes [from, to) of a file that a Range header requests; from is not below to if there are
// none.
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
