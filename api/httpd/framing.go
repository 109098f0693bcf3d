package httpd

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// checkFraming refuses a header that a proxy in front of us may have parsed differently from fasthttp: if the two
// disagree about the end of a request, the rest of it passes for the next request, of another client. fasthttp accepts
// what RFC 9112 allows a server to repair: a length next to a transfer coding (section 6.3), a line that is folded
// (5.2) or ends in a bare LF (2.2).
func checkFraming(h *fasthttp.RequestHeader) error {
	length, coding := false, false
	for rest := h.RawHeaders(); len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		switch {
		case len(line) == 0 || line[len(line)-1] != '\r':
			return badFraming("a line of it ends without CR")
		case line[0] == ' ' || line[0] == '\t':
			return badFraming("a line of it is folded")
		case line[0]|0x20 == 'c':
			length = length || isField(line, fasthttp.HeaderContentLength)
		case line[0]|0x20 == 't':
			coding = coding || isField(line, fasthttp.HeaderTransferEncoding)
		}
		rest = after
	}
	switch {
	case length && coding:
		return badFraming("it has both Content-Length and Transfer-Encoding")
	case coding && h.ContentLength() != chunkedLength:
		return badFraming("its Transfer-Encoding is not chunked")
	}
	return nil
}

// chunkedLength is the length that fasthttp reports for a chunked body.
const chunkedLength = -1

// isField reports whether a header line is the named field, case ignored.
func isField(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name))
}

func badFraming(reason string) error {
	r := Refuse(Malformed, "The header is ambiguous: %s. Let your HTTP client write it, or mend the proxy before us.",
		reason)
	r.closeConn = true
	return r
}
