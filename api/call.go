package api

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/coordinator/results"
	"probity/engine"
	"probity/store"
)

// call is one request and its answer.
type call struct {
	srv       *Server
	ctx       *fasthttp.RequestCtx
	id        string // X-Request-Id, and the ledger's name of a single verification
	started   time.Time
	clockTime time.Time // started, by the clock of limits and ledgers
	route     *route    // nil when there is none
	param     string
	identity  store.Identity
	session   *loginSession   // the session that let the request in; nil for a key
	limit     *store.Decision // of the rate limit that this request counts in, or nil
	body      body

	decision store.Decision
	admitErr error // the result of admit

	scratch [32]byte // for what is appended and copied at once

	// What most requests need, in one allocation: a small body, its members, and the answer to a verification (BenchmarkHandle).
	smallBody [smallBodySize]byte
	jsonBody  document
	result    results.Single
}

// smallBodySize is how many bytes of a body fit into a call: an address of usual length, and some options.
const smallBodySize = 128

// newCall takes a call from the pool or makes one.
func (s *Server) newCall(ctx *fasthttp.RequestCtx) *call {
	c, ok := s.callPool.Get().(*call)
	if !ok {
		c = new(call)
	}
	c.srv, c.ctx, c.id, c.started = s, ctx, s.deps.Store.NewRequest(), time.Now()
	return c
}

// recycle returns a finished call to the pool. Its response must not be a stream, which could still use it.
func (c *call) recycle() {
	pool := &c.srv.callPool
	*c = call{}
	pool.Put(c)
}

// callKey is the user value that keeps the call between "Expect: 100-continue" and the handler.
const callKey = "exchange"

// beginCall admits a request, once.
func (s *Server) beginCall(ctx *fasthttp.RequestCtx) *call {
	if c, ok := ctx.UserValue(callKey).(*call); ok {
		return c
	}
	c := s.newCall(ctx)
	c.clockTime = s.clock(c.started)
	c.admitErr = c.admit()
	return c
}

// handleExpectContinue answers "Expect: 100-continue": a request that is refused anyway is refused without its body.
func (s *Server) handleExpectContinue(ctx *fasthttp.RequestCtx) int {
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

// handle answers a request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	c := s.beginCall(ctx)
	ctx.RemoveUserValue(callKey)
	c.openBody()
	err := c.admitErr
	if err == nil {
		err = c.run()
	}
	single := c.route != nil && c.route.rateLimit == singleLimit
	if single {
		// Requests that have arrived are handled first, and then all answers are written in a row: that uses the processor's caches
		// better (`bench single`).
		runtime.Gosched()
	}
	c.finish(err)
	if single {
		c.recycle()
	}
}

// run calls the handler. A panic is our bug: it fails only this request.
func (c *call) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if lost, ok := p.(store.Lost); ok {
				panic(lost) // the state on disk is unknown: the process must end, and the next start reads it again
			}
			c.srv.log.Error("handler panicked", "request", c.id, "route", c.route.name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &refusal{kind: failed, detail: failedDetail, closeConn: true}
		}
	}()
	return c.route.handler(c)
}

func (c *call) openBody() {
	h := &c.ctx.Request.Header
	c.body = body{r: c.ctx.RequestBodyStream(), conn: c.ctx.Conn(), contentLength: int64(h.ContentLength()), limit: maxJSON}
	if c.body.contentLength == 0 {
		c.body.r = nil
	}
	if c.route != nil && c.route.payload == formPayload {
		c.body.limit, c.body.stallTimeout = c.srv.cfg.MaxUpload, c.srv.cfg.StallTimeout
	}
}

// finish writes the headers that every answer has, and logs the request.
func (c *call) finish(err error) {
	if err != nil {
		c.writeError(refusalOf(err))
	}
	h := &c.ctx.Response.Header
	h.SetCanonical(headerRequestID, append(c.scratch[:0], c.id...))
	h.SetCanonical(headerSniff, noSniff)
	if len(h.PeekBytes(headerCaching)) == 0 {
		h.SetCanonical(headerCaching, noStore)
	}
	if c.srv.secure {
		h.SetCanonical(headerTransport, onlyTLS)
	}
	if c.limit != nil {
		c.setNumber(headerLimit, c.limit.Limit)
		c.setNumber(headerRemaining, c.limit.Remaining)
		c.setNumber(headerReset, int(c.limit.Reset.Seconds()+0.999))
	}
	if !c.body.fullyRead() {
		c.skipBody()
	}
	c.recordRequest(err)
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
	onlyTLS         = []byte("max-age=31536000") // of this host only: its sub-domains may not be ours (RFC 6797 section 6.1)
	noSniff         = []byte("nosniff")
	noStore         = []byte("no-store")
)

func (c *call) setNumber(header []byte, n int) {
	c.ctx.Response.Header.SetCanonical(header, strconv.AppendInt(c.scratch[:0], int64(n), 10))
}

// skipBody handles a body that was not read: a short one is read and dropped, for any other the connection is closed.
func (c *call) skipBody() {
	if c.body.err == nil && c.body.contentLength >= 0 && c.body.contentLength <= c.body.limit && c.body.contentLength <= maxJSON {
		if _, err := c.body.readAll(nil); err == nil {
			return
		}
	}
	c.ctx.Response.SetConnectionClose()
	markLingering(c.ctx.Conn())
}

// writeError writes an error.
func (c *call) writeError(r *refusal) {
	res := &c.ctx.Response
	res.ResetBody()
	for _, name := range []string{"Content-Disposition", "ETag", "Content-Range", "Cache-Control", "Location"} {
		res.Header.Del(name) // a handler may have set them before it failed
	}
	res.SetStatusCode(r.status())
	res.Header.SetContentType("application/json")
	res.SetBodyRaw(appendDetail(nil, r.detail))
	for name, value := range r.headers() {
		res.Header.Set(name, value)
	}
	if r.closeConn {
		res.SetConnectionClose()
		markLingering(c.ctx.Conn())
	}
}

// recordRequest counts and logs the request. The path itself is not logged: it may have data that a client should not have sent.
func (c *call) recordRequest(err error) {
	status, took := c.ctx.Response.StatusCode(), time.Since(c.started)
	c.srv.metrics.observe(c.route, status, took)
	r, refused := errors.AsType[*refusal](err)
	level := slog.LevelDebug
	if status >= kindStatus[failed] && !(refused && r.simulated) {
		level = slog.LevelError
	}
	if !c.srv.log.Enabled(c.ctx, level) {
		return
	}
	name := "none"
	if c.route != nil {
		name = c.route.method + " " + c.route.name
	}
	attrs := []any{"request", c.id, "route", name, "status", status, "took", took, "account", c.identity.User.ID}
	if refused && r.cause != nil {
		err = r.cause
	}
	if err != nil {
		attrs = append(attrs, "error", engine.Redact(err.Error(), engine.Address{}))
	}
	c.srv.log.Log(c.ctx, level, "request", attrs...)
}

// refuseUnreadable answers a request that could not be read: a broken or late header, or a body that breaks at once.
func (s *Server) refuseUnreadable(ctx *fasthttp.RequestCtx, err error) {
	if isTimeout(err) && closeIfSilent(ctx.Conn()) {
		return
	}
	c := s.newCall(ctx)
	r := refuse(malformed, "The request is malformed: check its first line, its header and the length of its body.")
	if _, ok := err.(*fasthttp.ErrSmallBuffer); ok {
		r = refuse(malformed, "The header is over %d bytes: send less.", s.cfg.MaxHeader)
	}
	if isTimeout(err) {
		r = refuse(malformed, "The request timed out: send it at once.")
	}
	r.closeConn, r.cause = true, err
	c.finish(r)
}

// sendBytes answers with JSON.
func (c *call) sendBytes(status int, body []byte) error {
	res := &c.ctx.Response
	res.SetStatusCode(status)
	res.Header.SetContentType("application/json")
	res.SetBodyRaw(body)
	return nil
}
