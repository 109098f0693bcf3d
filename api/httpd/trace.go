package httpd

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// Fixed places in a traceparent (W3C Trace Context, section 3.2.2): version, trace-id, parent-id and trace-flags in
// lower-case hexadecimal digits, separated by hyphens.
const (
	traceparentBytes = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	traceIDStart     = len("00-")
	traceIDEnd       = traceIDStart + 32
	parentIDStart    = traceIDEnd + 1
	parentIDEnd      = parentIDStart + 16
)

// Traceparent returns the request's place in its client's trace, or "" if the client sent none or an invalid one. The
// ids are those that were sent: this service records no spans that could be the parent of others.
func Traceparent(h *fasthttp.RequestHeader) string {
	sent := h.PeekAll("Traceparent")
	if len(sent) != 1 {
		return ""
	}
	return parseTraceparent(string(sent[0]))
}

// parseTraceparent returns a traceparent in the form of version 00, or "" if it is invalid. One of a later version
// begins in the same form (section 4.3).
func parseTraceparent(text string) string {
	if len(text) < traceparentBytes {
		return ""
	}
	version, rest := text[:2], text[traceparentBytes:]
	if version == "ff" || version == "00" && rest != "" || rest != "" && rest[0] != '-' {
		return ""
	}
	text = text[:traceparentBytes]
	for i, c := range []byte(text) {
		separates := i == traceIDStart-1 || i == traceIDEnd || i == parentIDEnd
		if separates != (c == '-') || !separates && !strings.ContainsRune("0123456789abcdef", rune(c)) {
			return ""
		}
	}
	trace, parent := text[traceIDStart:traceIDEnd], text[parentIDStart:parentIDEnd]
	if strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "" {
		return ""
	}
	return "00" + text[2:]
}
