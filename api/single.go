package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"probity/api/httpd"
	"probity/api/listform"
	"probity/api/receipts"
	"probity/coordinator"
	"probity/coordinator/results"
	"probity/coordinator/singles"
	"probity/engine"
	"probity/store"
)

const (
	defaultTimeout = 10 // seconds that a single verification may take
	maxTimeout     = 30
)

// verifyOptions are how addresses are verified.
type verifyOptions struct {
	checkSMTP bool
	timeout   time.Duration
	maxAge    time.Duration
	details   bool
}

// singleRequest is the request of a single verification.
type singleRequest struct {
	email string
	verifyOptions
	receipt     bool
	callbackURL string // empty: no later answer is wanted
}

func readSingle(d *httpd.Document) (q singleRequest, err error) {
	if q.email, err = d.RequiredText("email"); err != nil {
		return q, err
	}
	q.verifyOptions, err = readOptions(d, defaultTimeout, maxTimeout)
	if err == nil {
		q.receipt, err = d.Boolean("receipt", false)
	}
	if err == nil && d.Has("callback_url") {
		q.callbackURL, err = d.RequiredText("callback_url")
		if err == nil && q.callbackURL == "" {
			err = httpd.Refuse(httpd.Unacceptable, "callback_url is empty: send an address, or leave it out.")
		}
	}
	return q, err
}

// readOptions reads how to verify, with the timeout of the route in seconds.
func readOptions(d *httpd.Document, timeout, longest int64) (q verifyOptions, err error) {
	if q.checkSMTP, err = d.Boolean("check_smtp", true); err != nil {
		return q, err
	}
	seconds, err := d.Number("timeout", timeout, 1, longest)
	if err != nil {
		return q, err
	}
	q.timeout = time.Duration(seconds) * time.Second
	if seconds, err = d.Number("max_age", int64(coordinator.DefaultMaxAge/time.Second), 0,
		listform.MaxAge); err != nil {
		return q, err
	}
	q.maxAge = time.Duration(seconds) * time.Second
	q.details, err = d.Boolean("details", false)
	return q, err
}

// digest identifies a request by its meaning, not by its bytes.
func (s *singleRequest) digest() store.KeyHash {
	return sha256.Sum256(fmt.Appendf(nil, "%+v", *s))
}

// verifySingle serves POST /v1/verify/single: it reserves the price, verifies and settles.
func verifySingle(c *call) error {
	d := c.Document()
	q, err := readSingle(d)
	if err != nil {
		return err
	}
	if q.receipt && c.identity.Test {
		return httpd.Refuse(httpd.Unacceptable, "A test key's verdicts are simulated, and no receipt is signed for them: leave receipt out, or use a live key.")
	}
	if c.identity.Test {
		if err := simulatedRefusal(c, q.email); err != nil {
			return err
		}
	}
	if q.callbackURL != "" {
		if err := checkLater(c, q.callbackURL); err != nil {
			return err
		}
	}
	keep, answered, err := beginOnce(c, q.digest)
	if err != nil || answered {
		return err
	}
	if keep != nil {
		defer c.srv.deps.Store.EndRequest(*keep)
	}
	ref := store.WithKey(c.ID, c.identity.Key)
	if !c.identity.Test {
		if err := c.srv.deps.Store.ReserveSingle(c.identity.User.ID, ref, 1); err != nil {
			return err
		}
	}
	started := time.Now()
	r := coordinator.Request{Email: q.email, NoSMTP: !q.checkSMTP, MaxAge: q.maxAge, Test: c.identity.Test,
		Details: q.details}
	ctx, release := c.srv.untilDeadline(q.verifyOptions, started)
	defer release()
	verdict, err := c.srv.verify(httpd.Traced(ctx, c.Call), started, r)
	if err != nil {
		return errors.Join(err, settle(c, ref, 0, c.srv.now(), nil))
	}
	c.verdicts = append(c.verdicts, verdict)
	a := &c.verdicts[0]
	if !c.identity.Test {
		a.Credits = results.Cost(a.Verdict.Status)
	}
	rememberSingle(c, a)
	now := c.srv.clock(started.Add(a.Took))
	a.Chance = chance(c, a, now)
	res := &c.Ctx.Response
	body := a.AppendJSON(res.SwapBody(nil)[:0], now) // reuses the buffer of the connection's last answer
	if q.receipt {
		if body, err = receipts.Add(c.srv.deps.Store, body, *a, now); err != nil {
			return errors.Join(err, settle(c, ref, 0, c.srv.now(), nil))
		}
	}
	var parts []store.Part
	var later *singles.Call
	if q.callbackURL != "" {
		if singles.IsOpen(&a.Verdict) {
			later = laterCall(c, &q, a)
			parts = append(parts, c.srv.deps.Late.Accept(later))
		}
		body = append(strconv.AppendBool(append(body[:len(body)-1], `,"callback_pending":`...), later != nil), '}')
	}
	if keep != nil && a.Verdict.Status != engine.Unknown {
		parts = append(parts, store.KeepAnswer(*keep, store.Answer{Status: httpd.StatusOK, Body: body}, now))
	}
	if err := settle(c, ref, a.Credits, now, parts); err != nil {
		return errors.Join(err, settle(c, ref, 0, c.srv.now(), nil)) // a failure costs nothing
	}
	if later != nil {
		c.srv.deps.Late.Add(*later, &a.Verdict)
	}
	res.SwapBody(body)
	res.Header.SetContentType("application/json")
	return nil
}

// beginOnce is claimKey; answered: the request was answered before, and again now.
func beginOnce(c *call, digest func() store.KeyHash) (keep *store.Request, answered bool, err error) {
	keep, kept, err := claimKey(c, digest)
	if kept == nil {
		return keep, false, err
	}
	return nil, true, c.SendBytes(kept.Status, kept.Body)
}

// claimKey claims the Idempotency-Key of a request, if it has one. keep is then the request, whose answer is to be
// stored in the commit that charges for it, and which the caller ends. kept is the answer that it had before.
func claimKey(c *call, digest func() store.KeyHash) (keep *store.Request, kept *store.Answer, err error) {
	key := c.idempotencyKey()
	if key == "" {
		return nil, nil, nil
	}
	keep = &store.Request{Account: c.identity.User.ID, Endpoint: c.route.Path, Key: key, Digest: digest()}
	answer, done, err := c.srv.deps.Store.BeginRequest(*keep, c.srv.now())
	if done {
		return nil, &answer, nil
	}
	return keep, nil, err
}

// settle charges what was used and releases the rest.
func settle(c *call, ref string, used int64, now time.Time, parts []store.Part) error {
	if c.identity.Test {
		if len(parts) == 0 {
			return nil
		}
		return c.srv.deps.Store.Commit(c.identity.User.ID, parts...)
	}
	return c.srv.deps.Store.SettleSingle(c.identity.User.ID, ref, used, now, parts...)
}

// untilDeadline returns the context of a verification that began at started.
func (s *Server) untilDeadline(q verifyOptions, started time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(s.http.StopContext(), started.Add(q.timeout))
}

// verify verifies an address before ctx ends.
func (s *Server) verify(ctx context.Context, started time.Time, r coordinator.Request) (results.Single, error) {
	return singles.Verify(ctx, s.deps.Coordinator, r, started, s.now())
}
