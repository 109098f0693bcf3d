package httpd

import (
	"context"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"probity/internal/spans"
)

// sentTraceparent returns the request's place in its client's trace, or "" if the client sent none or an invalid one.
func sentTraceparent(h *fasthttp.RequestHeader) string {
	sent := h.PeekAll("Traceparent")
	if len(sent) != 1 {
		return ""
	}
	return spans.Canonical(string(sent[0]))
}

// startSpan begins the span of the request, if it is recorded. The traceparent of one that is refused does not count:
// strangers could use up the traces that clients may ask for.
func startSpan(c *Call, t *spans.Tracer) {
	if t == nil {
		return
	}
	var parent spans.Place
	if c.admitErr == nil {
		parent = spans.ParsePlace(sentTraceparent(&c.Ctx.Request.Header))
	}
	c.span = t.Start(parent, "HTTP", spans.Server, c.Started)
}

// endSpan ends the span of the request. Of the request it has only what the route's pattern and the answer say: a path
// or a method may be anything that a client should not have sent.
func endSpan(c *Call, status int, took time.Duration) {
	s := c.span
	if s == nil {
		return
	}
	method := "_OTHER"
	if c.route != nil {
		method = c.route.Method
		s.Rename(method + " " + c.route.Path)
		s.Text("http.route", c.route.Path)
	}
	s.Text("http.request.method", method)
	s.Number("http.response.status_code", status)
	s.Text("user.id", c.Account)
	s.Text("probity.request", c.ID)
	if status >= kindStatus[Failed] {
		s.Text("error.type", strconv.Itoa(status))
		s.Fail()
	}
	s.End(c.Started.Add(took))
	c.span = nil
}

// Traced returns a context whose work is part of a request's span.
func Traced(ctx context.Context, c *Call) context.Context { return spans.With(ctx, c.span) }

// Traceparent is what continues the trace that the client of a request sent: the request's span, if that is recorded,
// or else what was sent; "" if that is nothing, or invalid. A callback carries it: it must not carry a trace that is
// only ours.
func Traceparent(c *Call) string {
	sent := sentTraceparent(&c.Ctx.Request.Header)
	if sent != "" && c.span != nil {
		return c.span.Place().String()
	}
	return sent
}
