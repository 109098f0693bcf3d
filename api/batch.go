package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/coordinator/results"
	"probity/engine"
	"probity/store"
)

const (
	maxBatch            = 1000    // addresses of a batch
	maxBatchBody        = 1 << 20 // bytes
	defaultBatchTimeout = 20      // seconds
	maxBatchTimeout     = 60
)

// verifyBatch serves POST /v1/verify/batch: it reserves the price of all distinct addresses, verifies each once, and
// settles.
func verifyBatch(c *call) error {
	d := c.Document()
	emails, err := d.TextList("emails")
	if err != nil {
		return err
	}
	if len(emails) == 0 || len(emails) > maxBatch {
		return httpd.Refuse(httpd.Unacceptable, "emails must be a list of 1 to %d strings; for more, upload a list.",
			maxBatch)
	}
	q, err := readOptions(d, defaultBatchTimeout, maxBatchTimeout)
	if err != nil {
		return err
	}
	if c.identity.Test {
		for _, email := range emails {
			if err := simulatedRefusal(c, email); err != nil {
				return err
			}
		}
	}
	digest := func() store.KeyHash { return sha256.Sum256(fmt.Appendf(nil, "%q %+v", emails, q)) }
	keep, answered, err := beginOnce(c, digest)
	if err != nil || answered {
		return err
	}
	if keep != nil {
		defer c.srv.deps.Store.EndRequest(*keep)
	}
	b := newBatch(c.srv, emails)
	ref := store.WithKey(c.ID, c.identity.Key)
	if !c.identity.Test {
		if err := c.srv.deps.Store.ReserveSingle(c.identity.User.ID, ref, int64(len(b.distinct))); err != nil {
			return err
		}
	}
	started := time.Now()
	r := coordinator.Request{
		NoSMTP: !q.checkSMTP, MaxAge: q.maxAge, Test: c.identity.Test, Details: q.details, Batch: true,
	}
	if err := b.verify(q, started, r); err != nil {
		return errors.Join(err, settle(c, ref, 0, c.srv.now(), nil))
	}
	now := c.srv.clock(time.Now())
	for i := range b.verdicts {
		b.verdicts[i].Chance = chance(c, &b.verdicts[i], now)
	}
	body, used, known := b.answer(emails, c.identity.Test, now)
	c.verdicts = b.answered
	var parts []store.Part
	if keep != nil && known {
		parts = append(parts, store.KeepAnswer(*keep, store.Answer{Status: httpd.StatusOK, Body: body}, now))
	}
	if err := settle(c, ref, used, now, parts); err != nil {
		return errors.Join(err, settle(c, ref, 0, c.srv.now(), nil)) // a failure costs nothing
	}
	return c.SendBytes(httpd.StatusOK, body)
}

// batch is the addresses of a call, of which each is verified once.
type batch struct {
	srv      *Server
	distinct []string         // the first spelling of each
	of       []int            // of each address of the call, its index in distinct
	verdicts []results.Single // of distinct
	answered []results.Single // of each address of the call
}

// newBatch finds the distinct addresses: those with one folded form, or with one text where it is not an address.
func newBatch(s *Server, emails []string) *batch {
	b := &batch{srv: s, of: make([]int, len(emails))}
	seen := make(map[string]int, len(emails))
	for i, email := range emails {
		key := " " + email // no folded address begins so
		if a, err := engine.ParseTrimmed(email); err == nil {
			key = a.Folded()
		}
		n, ok := seen[key]
		if !ok {
			n = len(b.distinct)
			seen[key] = n
			b.distinct = append(b.distinct, email)
		}
		b.of[i] = n
	}
	b.verdicts = make([]results.Single, len(b.distinct))
	return b
}

// verify verifies the distinct addresses at one time, until the deadline. One failure of ours fails the call.
func (b *batch) verify(q verifyOptions, started time.Time, r coordinator.Request) error {
	ctx, release := b.srv.untilDeadline(q, started)
	defer release()
	errs := make([]error, len(b.distinct))
	var all sync.WaitGroup
	for i, email := range b.distinct {
		all.Go(func() {
			one := r
			one.Email = email
			b.verdicts[i], errs[i] = b.srv.verify(ctx, started, one)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// answer returns the body of the answer and the credits that it costs: those of each distinct address, where it is
// named first. known reports whether any address has a verdict other than UNKNOWN.
func (b *batch) answer(emails []string, free bool, now time.Time) (body []byte, used int64, known bool) {
	body = append(make([]byte, 0, 512*len(emails)), `{"results":[`...)
	first := -1 // the last distinct address that was named
	b.answered = make([]results.Single, 0, len(emails))
	for i, email := range emails {
		if i > 0 {
			body = append(body, ',')
		}
		a := b.verdicts[b.of[i]]
		known = known || a.Verdict.Status != engine.Unknown
		if b.of[i] > first {
			first = b.of[i]
			if !free {
				a.Credits = results.Cost(a.Verdict.Status)
				used += a.Credits
			}
		} else if address, err := engine.ParseTrimmed(email); err == nil && email != a.Email {
			flags, suggestion := b.srv.deps.Coordinator.OwnFacts(address)
			a.Verdict.Flags, a.DidYouMean = flags|a.Verdict.Flags&engine.FlagNoDomain, suggestion
		}
		a.Email = email
		b.answered = append(b.answered, a)
		body = a.AppendJSON(body, now)
	}
	return fmt.Appendf(body, `],"credits_used":%d}`, used), used, known
}
