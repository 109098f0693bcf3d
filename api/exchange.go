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

	"probity/coordinator"
	"probity/engine"
	"probity/store"
)

// exchange is one request and its answer.
type exchange struct {
	srv   *Server
	ctx   *fasthttp.RequestCtx
	id    string // X-Request-Id, and the ledger's name of a single verification
	begun time.Time
	at    time.Time // when it is judged: begun, by the clock of limits and ledgers
	route *route    // nil when there is none
	param string
	who   store.Identity
	visit *visit          // the session that let the request in; nil for a key
	limit *store.Decision // of the window that this request counted in: allowed, or nil
	body  body

	allowed store.Decision
	denied  error // what admit found

	scratch [32]byte // for what is appended and copied at once

	// What most requests need, in one piece with the rest: a small body, its members, and the answer to a verification.
	// (BenchmarkHandle: three allocations less.)
	short   [shortBody]byte
	members document
	result  coordinator.Result
}

// shortBody is the bytes of a body that an exchange has room for: an address of the usual length, and some options.
const shortBody = 128

// newExchange is one of those that are over, or another.
func (s *Server) newExchange(ctx *fasthttp.RequestCtx) *exchange {
	x, ok := s.spare.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	x.srv, x.ctx, x.id, x.begun = s, ctx, s.rooms.Store.NewRequest(), time.Now()
	return x
}

// forget gives an exchange up, when it is over and its body is no stream: nothing else knows of it then.
func (x *exchange) forget() {
	spare := &x.srv.spare
	*x = exchange{}
	spare.Put(x)
}

// exchangeKey is where the exchange waits between "Expect: 100-continue" and the handler.
const exchangeKey = "exchange"

// begin admits a request, once.
func (s *Server) begin(ctx *fasthttp.RequestCtx) *exchange {
	if x, ok := ctx.UserValue(exchangeKey).(*exchange); ok {
		return x
	}
	x := s.newExchange(ctx)
	x.at = s.clock(x.begun)
	x.denied = x.admit()
	return x
}

// expect answers "Expect: 100-continue": what would be refused without its body is refused without asking for it.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	x := s.begin(ctx)
	if x.denied == nil {
		ctx.SetUserValue(exchangeKey, x)
		return statusContinue
	}
	// The body was never asked for and may come all the same: not reading it to its end closes the connection.
	x.body.r = strings.NewReader("unread")
	x.finish(x.denied)
	return ctx.Response.StatusCode()
}

// handle answers a request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	x := s.begin(ctx)
	ctx.RemoveUserValue(exchangeKey)
	x.openBody()
	err := x.denied
	if err == nil {
		err = x.run()
	}
	single := x.route != nil && x.route.counted == asSingle
	if single {
		// Others that have arrived are worked on first, and then all answers leave in a row: verification and the kernel's network
		// take turns in the processor's caches less often (`bench single`: a fifth less time in here, a sixth less in a write).
		runtime.Gosched()
	}
	x.finish(err)
	if single {
		x.forget()
	}
}

// run calls the handler. A panic is a bug of ours: it fails this request and no other.
func (x *exchange) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if lost, ok := p.(store.Lost); ok {
				panic(lost) // it is not known what is on the disk: the process ends, and the next start finds out
			}
			x.srv.log.Error("handler panicked", "request", x.id, "route", x.route.name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &refusal{kind: failed, detail: failedDetail, hangUp: true}
		}
	}()
	return x.route.serve(x)
}

func (x *exchange) openBody() {
	h := &x.ctx.Request.Header
	x.body = body{r: x.ctx.RequestBodyStream(), conn: x.ctx.Conn(), declared: int64(h.ContentLength()), limit: maxJSON}
	if x.body.declared == 0 {
		x.body.r = nil
	}
	if x.route != nil && x.route.payload == formPayload {
		x.body.limit, x.body.stall = x.srv.cfg.MaxUpload, x.srv.cfg.StallTimeout
	}
}

// finish writes what every answer has.
func (x *exchange) finish(err error) {
	if err != nil {
		x.refuse(refusalOf(err))
	}
	h := &x.ctx.Response.Header
	h.SetCanonical(headerRequestID, append(x.scratch[:0], x.id...))
	h.SetCanonical(headerSniff, noSniff)
	if len(h.PeekBytes(headerCaching)) == 0 {
		h.SetCanonical(headerCaching, noStore)
	}
	if x.srv.secure {
		h.SetCanonical(headerTransport, onlyTLS)
	}
	if x.limit != nil {
		x.setNumber(headerLimit, x.limit.Limit)
		x.setNumber(headerRemaining, x.limit.Remaining)
		x.setNumber(headerReset, int(x.limit.Reset.Seconds()+0.999))
	}
	if !x.body.ended() {
		x.skipBody()
	}
	x.record(err)
}

// What every answer has, in canonical form. It is never changed.
var (
	headerRequestID = []byte("X-Request-Id")
	headerSniff     = []byte("X-Content-Type-Options")
	headerCaching   = []byte("Cache-Control")
	headerLimit     = []byte("RateLimit-Limit")
	headerRemaining = []byte("RateLimit-Remaining")
	headerReset     = []byte("RateLimit-Reset")
	headerTransport = []byte("Strict-Transport-Security")
	onlyTLS         = []byte("max-age=31536000") // of this host: what else is below its domain is not ours to say (RFC 6797 section 6.1)
	noSniff         = []byte("nosniff")
	noStore         = []byte("no-store")
)

func (x *exchange) setNumber(header []byte, n int) {
	x.ctx.Response.Header.SetCanonical(header, strconv.AppendInt(x.scratch[:0], int64(n), 10))
}

// skipBody sees to a body that was not read: a short one that is there already is read away, any other costs the
// connection.
func (x *exchange) skipBody() {
	if x.body.err == nil && x.body.declared >= 0 && x.body.declared <= x.body.limit && x.body.declared <= maxJSON {
		if _, err := x.body.all(nil); err == nil {
			return
		}
	}
	x.ctx.Response.SetConnectionClose()
	hangUpGently(x.ctx.Conn())
}

// refuse writes an error.
func (x *exchange) refuse(r *refusal) {
	res := &x.ctx.Response
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
	if r.hangUp {
		res.SetConnectionClose()
		hangUpGently(x.ctx.Conn())
	}
}

// record counts and logs the exchange. The path itself is not logged: it may hold what a client should not have sent.
func (x *exchange) record(err error) {
	status, took := x.ctx.Response.StatusCode(), time.Since(x.begun)
	x.srv.meters.observe(x.route, status, took)
	r, refused := errors.AsType[*refusal](err)
	level := slog.LevelDebug
	if status >= kindStatus[failed] && !(refused && r.asked) {
		level = slog.LevelError
	}
	if !x.srv.log.Enabled(x.ctx, level) {
		return
	}
	name := "none"
	if x.route != nil {
		name = x.route.method + " " + x.route.name
	}
	attrs := []any{"request", x.id, "route", name, "status", status, "took", took, "account", x.who.User.ID}
	if refused && r.cause != nil {
		err = r.cause
	}
	if err != nil {
		attrs = append(attrs, "error", engine.Redact(err.Error(), engine.Address{}))
	}
	x.srv.log.Log(x.ctx, level, "request", attrs...)
}

// refuseUnread answers a request that could not be read: a broken or late header, or a body that breaks at once.
func (s *Server) refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	if isTimeout(err) && hangUpSilent(ctx.Conn()) {
		return
	}
	x := s.newExchange(ctx)
	r := refuse(malformed, "The request is malformed: check its first line, its header and the length of its body.")
	if _, ok := err.(*fasthttp.ErrSmallBuffer); ok {
		r = refuse(malformed, "The header is over %d bytes: send less.", s.cfg.MaxHeader)
	}
	if isTimeout(err) {
		r = refuse(malformed, "The request did not arrive in time: send it at once.")
	}
	r.hangUp, r.cause = true, err
	x.finish(r)
}

// send answers with JSON.
func (x *exchange) send(status int, json []byte) error {
	res := &x.ctx.Response
	res.SetStatusCode(status)
	res.Header.SetContentType("application/json")
	res.SetBodyRaw(json)
	return nil
}
