package httpd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/engine/redact"
	"probity/internal/spans"
)

// Call is one request and its answer.
type Call struct {
	Ctx     *fasthttp.RequestCtx
	ID      string // X-Request-Id
	Started time.Time
	Param   string // the parameter of the route's path
	Account string // for the log; set by Admit
	// App is what the application keeps of the request; set by Admit. A call that is used again has the reset one of an
	// earlier request.
	App App

	server   *Server
	body     body
	route    *servedRoute // nil when there is none
	admitErr error        // the result of admit
	limit    rateLimitState
	span     *spans.Span // nil: not recorded
	csv      bool        // the body is CSV

	scratch [32]byte // for what is appended and copied at once

	// A call that is used again has the memory of these (BenchmarkHandle in api).
	text bytes.Buffer // a JSON body, or CSV
	json Document     // its members
}

// App is what an application keeps of a request.
type App interface {
	// Reset drops all of it. The request is over.
	Reset()
}

// rateLimitState is what the headers of an answer say about a rate limit.
type rateLimitState struct {
	known            bool
	limit, remaining int
	reset            time.Duration
}

// SetRateLimit sets what the headers of the answer say about the rate limit that the request counts in.
func (c *Call) SetRateLimit(limit, remaining int, reset time.Duration) {
	c.limit = rateLimitState{true, limit, remaining, reset}
}

// maxPooledText bounds the bytes of a body in a call that is used again.
const maxPooledText = 4 << 10

// newCall takes a call from the pool or makes one.
func (s *Server) newCall(ctx *fasthttp.RequestCtx) *Call {
	c, ok := s.callPool.Get().(*Call)
	if !ok {
		c = new(Call)
	}
	c.server = s
	c.Ctx = ctx
	c.ID = s.deps.NewID()
	c.Started = time.Now()
	return c
}

// callKey is the user value that keeps the call between "Expect: 100-continue" and the handler.
const callKey = "call"

// beginCall admits a request, once.
func (s *Server) beginCall(ctx *fasthttp.RequestCtx) *Call {
	if c, ok := ctx.UserValue(callKey).(*Call); ok {
		return c
	}
	c := s.newCall(ctx)
	c.admitErr = c.admit()
	startSpan(c, s.cfg.Tracer)
	return c
}

// handleExpectContinue answers "Expect: 100-continue": a request that is refused anyway is refused without its body,
// except one of Front, whose body may contain the key.
func (s *Server) handleExpectContinue(ctx *fasthttp.RequestCtx) int {
	if s.frontOwns(ctx) {
		return statusContinue
	}
	c := s.beginCall(ctx)
	if c.admitErr == nil {
		ctx.SetUserValue(callKey, c)
		return statusContinue
	}
	// The body may come although it was not requested: the connection is closed because it is not read to its end.
	c.body.r = strings.NewReader("unread")
	c.finish(c.admitErr)
	return ctx.Response.StatusCode()
}

// frontOwns reports whether Front answers a request. A request whose framing is refused is not for it, because what it
// makes of the request could be framed well.
func (s *Server) frontOwns(ctx *fasthttp.RequestCtx) bool {
	return s.cfg.Front != nil && s.cfg.Front.Owns(ctx) && checkFraming(&ctx.Request.Header) == nil
}

// handleFront answers a request of a connection.
func (s *Server) handleFront(ctx *fasthttp.RequestCtx) {
	if s.frontOwns(ctx) {
		s.cfg.Front.Handle(ctx, s.Handle)
		return
	}
	s.Handle(ctx)
}

// Handle answers a request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	c := s.beginCall(ctx)
	ctx.RemoveUserValue(callKey)
	c.body = body{r: ctx.RequestBodyStream(), conn: ctx.Conn(),
		contentLength: int64(ctx.Request.Header.ContentLength()), limit: c.bodyLimit()}
	if c.body.contentLength == 0 {
		c.body.r = nil
	}
	if c.route != nil && c.route.Body.isStream() {
		c.body.stallTimeout = s.cfg.StallTimeout
	}
	err := c.admitErr
	if err == nil {
		err = c.readBody()
	}
	if err == nil {
		err = c.run()
	}
	if c.route == nil || !c.route.Frequent {
		c.finish(err)
		return
	}
	// Requests that have arrived are handled first, and then all answers are written in a row: that uses the
	// processor's caches better (`bench single`). Their calls go back to the pool, as no answer is a stream, which
	// could still use its call.
	runtime.Gosched()
	c.finish(err)
	if c.App != nil {
		c.App.Reset()
	}
	if c.text.Cap() <= maxPooledText {
		c.text.Reset()
		*c = Call{App: c.App, text: c.text, json: c.json}
		s.callPool.Put(c)
	}
}

// readBody reads the body if it is JSON, and refuses it if the route takes none. A form is read by the handler.
func (c *Call) readBody() error {
	switch {
	case c.route.Body == BodyJSON:
		return c.readJSON()
	case c.route.Body == BodyNone && c.body.r != nil:
		return c.refuseBody()
	}
	return nil
}

// Operation is the method and the path of the request's route, as the description has them.
func (c *Call) Operation() (method, path string) { return c.route.Method, c.route.Path }

// CSV is the body, if it is CSV.
func (c *Call) CSV() (text []byte, is bool) { return c.text.Bytes(), c.csv }

// Document is the request's JSON.
func (c *Call) Document() *Document { return &c.json }

// run calls the handler. A panic is our bug: it fails only this request.
func (c *Call) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if c.server.deps.Fatal != nil && c.server.deps.Fatal(p) {
				panic(p)
			}
			c.server.log.Error("handler panicked", "request", c.ID, "route", c.route.Path, "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			r := NewFailure(nil)
			r.closeConn = true
			err = r
		}
	}()
	return c.route.Handle(c)
}

// finish writes the headers that every answer has, handles a body that was not read, and counts and logs the request.
func (c *Call) finish(err error) {
	refusal, refused := errors.AsType[*Refusal](err)
	if err != nil {
		if !refused {
			refusal = c.server.deps.Refusal(err)
		}
		c.writeError(refusal)
	}
	h := &c.Ctx.Response.Header
	h.SetCanonical(headerRequestID, append(c.scratch[:0], c.ID...))
	h.SetCanonical(headerSniff, noSniff)
	if len(h.PeekBytes(headerCaching)) == 0 {
		h.SetCanonical(headerCaching, noStore)
	}
	if c.server.deps.Secure {
		h.SetCanonical(headerTransport, onlyTLS)
	}
	if c.limit.known {
		c.setNumber(headerLimit, c.limit.limit)
		c.setNumber(headerRemaining, c.limit.remaining)
		c.setNumber(headerReset, int(c.limit.reset.Seconds()+0.999))
	}
	if c.body.r != nil && c.body.err != io.EOF {
		c.skipBody()
	}

	status, took := c.Ctx.Response.StatusCode(), time.Since(c.Started)
	c.server.metrics.observe(c.route, status, took)
	if c.server.deps.Finished != nil && c.App != nil {
		done := Outcome{Status: status, Took: took}
		if err != nil {
			done.Detail = refusal.Detail
		}
		c.server.deps.Finished(c, done)
	}
	traceparent := c.span.Place().String()
	endSpan(c, status, took)
	level := slog.LevelDebug
	if status >= kindStatus[Failed] && !(refused && refusal.Simulated) {
		level = slog.LevelError
	}
	if !c.server.log.Enabled(c.Ctx, level) {
		return
	}
	name := "none" // the path itself is not logged: it may have data that a client should not have sent
	if c.route != nil {
		name = c.route.Method + " " + c.route.Path
	}
	attrs := []any{"request", c.ID, "route", name, "status", status, "took", took, "account", c.Account}
	traceparent = cmp.Or(traceparent, sentTraceparent(&c.Ctx.Request.Header))
	if traceparent != "" {
		attrs = append(attrs, "traceparent", traceparent)
	}
	if refused && refusal.Cause != nil {
		err = refusal.Cause
	}
	if err != nil {
		attrs = append(attrs, "error", redact.Text(err.Error(), ""))
	}
	c.server.log.Log(c.Ctx, level, "request", attrs...)
}

// The headers of every answer, in canonical form. They are never changed.
var (
	headerRequestID = []byte("X-Request-Id")
	headerSniff     = []byte("X-Content-Type-Options")
	headerCaching   = []byte("Cache-Control")
	headerLimit     = []byte("RateLimit-Limit")
	headerRemaining = []byte("RateLimit-Remaining")
	headerReset     = []byte("RateLimit-Reset")
	headerTransport = []byte("Strict-Transport-Security")
	// of this host only: its sub-domains may not be ours (RFC 6797 section 6.1)
	onlyTLS = []byte("max-age=31536000")
	noSniff = []byte("nosniff")
	noStore = []byte("no-store")
)

func (c *Call) setNumber(header []byte, n int) {
	c.Ctx.Response.Header.SetCanonical(header, strconv.AppendInt(c.scratch[:0], int64(n), 10))
}

// skipBody handles a body that was not read: a short one is read and dropped, for any other the connection is closed.
func (c *Call) skipBody() {
	if b := &c.body; b.err == nil && b.contentLength >= 0 && b.contentLength <= b.limit && b.contentLength <= MaxJSON {
		if _, err := io.Copy(io.Discard, b); err == nil {
			return
		}
	}
	c.Ctx.Response.SetConnectionClose()
	markLingering(c.Ctx.Conn())
}

// writeError writes an error.
func (c *Call) writeError(r *Refusal) {
	res := &c.Ctx.Response
	res.ResetBody()
	for _, name := range []string{"Content-Disposition", "ETag", "Content-Range", "Cache-Control", "Location"} {
		res.Header.Del(name) // a handler may have set them before it failed
	}
	res.SetStatusCode(r.status())
	res.Header.SetContentType("application/json")
	res.SetBodyRaw(r.body())
	for name, value := range r.headers() {
		res.Header.Set(name, value)
	}
	if r.closeConn {
		res.SetConnectionClose()
		markLingering(c.Ctx.Conn())
	}
}

// refuseUnreadable answers a request that could not be read: a broken or late header, or a body that breaks at once.
func (s *Server) refuseUnreadable(ctx *fasthttp.RequestCtx, err error) {
	if cc, ok := ctx.Conn().(*clientConn); ok && isTimeout(err) && !cc.received.Load() {
		// browsers open connections in advance: an answer without a request could be taken for that to the first one
		_ = cc.Close()
		return
	}
	c := s.newCall(ctx)
	r := Refuse(Malformed, "The request is malformed: check its first line, its header and the length of its body.")
	if _, ok := err.(*fasthttp.ErrSmallBuffer); ok {
		r = Refuse(Malformed, "The header is over %d bytes: send less.", s.cfg.MaxHeader)
	}
	if isTimeout(err) {
		r = Refuse(Malformed, "The request timed out: send it at once.")
	}
	r.closeConn, r.Cause = true, err
	c.finish(r)
}
