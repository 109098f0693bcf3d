package spans

import (
	"context"
	"encoding/hex"
	"strings"
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

// Header is the name of the header, and of the field of a gRPC call, that has a traceparent.
const Header = "traceparent"

const sampledFlag = 1 // of trace-flags: the span is recorded

// Place is the place of a span in a trace. The zero value is none.
type Place struct {
	trace [16]byte
	span  [8]byte
	flags byte
}

// ParsePlace returns the place that a traceparent names, none if it is invalid.
func ParsePlace(traceparent string) (p Place) {
	text := Canonical(traceparent)
	if text == "" {
		return p
	}
	trace, _ := hex.DecodeString(text[traceIDStart:traceIDEnd])
	span, _ := hex.DecodeString(text[parentIDStart:parentIDEnd])
	flags, _ := hex.DecodeString(text[parentIDEnd+1:])
	copy(p.trace[:], trace)
	copy(p.span[:], span)
	p.flags = flags[0]
	return p
}

// String returns the traceparent of a place; "" for none.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return "00-" + hex.EncodeToString(p.trace[:]) + "-" + hex.EncodeToString(p.span[:]) + "-" +
		hex.EncodeToString([]byte{p.flags})
}

func (p Place) sampled() bool { return p.flags&sampledFlag != 0 }

// Canonical returns a traceparent in the form of version 00, or "" if it is invalid. One of a later version begins in
// the same form (section 4.3).
func Canonical(traceparent string) string {
	if len(traceparent) < traceparentBytes {
		return ""
	}
	version, rest := traceparent[:2], traceparent[traceparentBytes:]
	if version == "ff" || version == "00" && rest != "" || rest != "" && rest[0] != '-' {
		return ""
	}
	text := traceparent[:traceparentBytes]
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

type contextKey struct{}

// With returns a context for the work of a span; ctx itself if that is not recorded.
func With(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s)
}

// From returns the span whose work ctx is for; nil if none is recorded.
func From(ctx context.Context) *Span {
	s, _ := ctx.Value(contextKey{}).(*Span)
	return s
}
