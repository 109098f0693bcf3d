package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"probity/coordinator"
	"probity/engine"
	"probity/store"
)

const (
	defaultTimeout = 10 // seconds that a single verification may take
	maxTimeout     = 30
	maxMaxAge      = 10 * 365 * 86400 // seconds
)

// singleRequest is what a single verification asks for.
type singleRequest struct {
	email     string
	checkSMTP bool
	timeout   time.Duration
	maxAge    time.Duration
	details   bool
}

// singleNames are the members of a single verification's body.
var singleNames = []string{"email", "check_smtp", "timeout", "max_age", "details"}

func readSingle(d *document) (q singleRequest, err error) {
	if err = d.refuseMisspelt(singleNames); err != nil {
		return q, err
	}
	if q.email, err = d.needText("email"); err != nil {
		return q, err
	}
	if q.checkSMTP, err = d.flag("check_smtp", true); err != nil {
		return q, err
	}
	seconds, err := d.number("timeout", defaultTimeout, 1, maxTimeout)
	if err != nil {
		return q, err
	}
	q.timeout = time.Duration(seconds) * time.Second
	if seconds, err = d.number("max_age", int64(coordinator.DefaultMaxAge/time.Second), 0, maxMaxAge); err != nil {
		return q, err
	}
	q.maxAge = time.Duration(seconds) * time.Second
	q.details, err = d.flag("details", false)
	return q, err
}

// digest tells requests apart by what they mean, not by how they were written.
func (q *singleRequest) digest() store.KeyHash {
	return sha256.Sum256(fmt.Appendf(nil, "%q %t %d %d %t", q.email, q.checkSMTP, q.timeout, q.maxAge, q.details))
}

// verifySingle serves POST /v1/verify/single.
func (x *exchange) verifySingle() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	q, err := readSingle(d)
	if err != nil {
		return err
	}
	if x.who.Test {
		if err := x.pretendRefusal(q.email); err != nil {
			return err
		}
	}
	key := string(x.ctx.Request.Header.Peek("Idempotency-Key"))
	if key == "" {
		return x.answerSingle(q, nil)
	}
	r := store.Request{Account: x.who.User.ID, Endpoint: x.route.name, Key: key, Digest: q.digest()}
	kept, done, err := x.srv.rooms.Store.BeginRequest(r, x.srv.now())
	if err != nil {
		return err
	}
	if done {
		return x.send(kept.Status, kept.Body)
	}
	defer x.srv.rooms.Store.EndRequest(r)
	return x.answerSingle(q, &r)
}

// answerSingle verifies between reservation and settlement. The answer to a request with an Idempotency-Key is kept in
// the commit that charges for it.
func (x *exchange) answerSingle(q singleRequest, keep *store.Request) error {
	ref := store.WithKey(x.id, x.who.Key)
	if err := x.reserve(ref); err != nil {
		return err
	}
	began := time.Now()
	a, err := x.verify(q, began, coordinator.Request{Email: q.email, NoSMTP: !q.checkSMTP, MaxAge: q.maxAge, Test: x.who.Test, Brief: !q.details})
	if err != nil {
		return errors.Join(err, x.settle(ref, 0, x.srv.now(), nil))
	}
	if !x.who.Test {
		a.Credits = coordinator.Cost(a.Verdict.Status)
	}
	x.saw(a)
	now := x.srv.clock(began.Add(a.Took))
	res := &x.ctx.Response
	body := a.AppendJSON(res.SwapBody(nil)[:0], now) // into the buffer of the connection's last answer
	var parts []store.Part
	if keep != nil && a.Verdict.Status != engine.Unknown {
		parts = append(parts, store.KeepAnswer(*keep, store.Answer{Status: statusOK, Body: body}, now))
	}
	if err := x.settle(ref, a.Credits, now, parts); err != nil {
		return errors.Join(err, x.settle(ref, 0, x.srv.now(), nil)) // a failure costs nothing
	}
	res.SwapBody(body)
	res.Header.SetContentType("application/json")
	return nil
}

// reserve sets the price of a verification aside before any work. ref is the ledger's name of it.
func (x *exchange) reserve(ref string) error {
	if x.who.Test {
		return nil
	}
	return x.srv.rooms.Store.ReserveSingle(x.who.User.ID, ref, 1, x.at)
}

// settle charges what was used and gives the rest back.
func (x *exchange) settle(ref string, used int64, now time.Time, parts []store.Part) error {
	if x.who.Test {
		if len(parts) == 0 {
			return nil
		}
		return x.srv.rooms.Store.Commit(x.who.User.ID, parts...)
	}
	return x.srv.rooms.Store.SettleSingle(x.who.User.ID, ref, used, now, parts...)
}

// verify asks the coordinator; the result is the exchange's own. A deadline that passed on the way is a timeout like any other.
func (x *exchange) verify(q singleRequest, began time.Time, r coordinator.Request) (*coordinator.Result, error) {
	ctx := newDeadline(x.srv.ending, began.Add(q.timeout))
	defer ctx.end()
	got, err := x.srv.rooms.Coordinator.Single(ctx, r)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		got, err = coordinator.Answer{Verdict: engine.Sure(engine.ReasonTimeout, "request/deadline", 0, x.srv.now())}, nil
		got.Address, _ = engine.ParseTrimmed(q.email)
	}
	if err != nil {
		return nil, fmt.Errorf("single verification: %w", err)
	}
	a := &x.result
	*a = coordinator.Result{Email: q.email, Verdict: got.Verdict, DidYouMean: got.Suggestion, Node: got.Node, Took: time.Since(began), Details: q.details}
	if !got.Address.IsZero() {
		a.Normalized = got.Address.Folded()
	}
	return a, nil
}
