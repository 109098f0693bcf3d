package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator"
	"probity/coordinator/csvfile"
	"probity/coordinator/fleet"
	"probity/store"
)

const badKeyDetail = "The API key is missing, wrong, revoked or expired: send Authorization: Bearer <API key>."

func noKey() *refusal { return refuse(unauthorized, badKeyDetail) }

// refusalOf is the answer to an error of any package. An unknown error is a failure on our side, and its text is only logged.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if r := refusalOfFile(err); r != nil {
		return r
	}
	if r := refusalOfCoordinator(err); r != nil {
		r.cause = err
		return r
	}
	if r := refusalOfStore(err); r != nil {
		r.cause = err
		return r
	}
	return newFailure(err)
}

func refusalOfFile(err error) *refusal {
	e, ok := errors.AsType[*csvfile.Error](err)
	if !ok {
		return nil
	}
	kind := unacceptable
	if e.Kind == csvfile.TooLarge {
		kind = tooLarge
	}
	if e.Line > 0 {
		return refuse(kind, "file: line %d: %s", e.Line, e.Detail)
	}
	return refuse(kind, "file: %s", e.Detail)
}

// refusalOfCoordinator is the answer to an error of the coordinator.
func refusalOfCoordinator(err error) *refusal {
	switch {
	case errors.Is(err, coordinator.ErrState):
		return refuse(conflict, "The job's state does not allow this: look at its status first.")
	case errors.Is(err, coordinator.ErrNotReady):
		r := refuse(conflict, "The job is not finished: retry after the Retry-After delay, or use partial=true for the finished rows.")
		r.retry = retryLater
		return r
	case errors.Is(err, coordinator.ErrExpired):
		return refuse(gone, "The results of this job have expired: upload the list again.")
	case errors.Is(err, coordinator.ErrDamaged):
		return &refusal{kind: failed, cause: err, detail: "A file of this job is damaged on the server's disk, so no results are given: restore a backup, or upload the list again."}
	case errors.Is(err, coordinator.ErrLinkInvalid), errors.Is(err, coordinator.ErrLinkExpired):
		return refuse(forbidden, "%s.", capitalize(err.Error()))
	case errors.Is(err, fleet.ErrNoProber):
		return busy("No prober is connected, so no mail server can be asked")
	case errors.Is(err, coordinator.ErrCallbackURL):
		return refuse(unacceptable, "%s.", err)
	case vfs.IsNoSpaceError(err):
		return busy("The disk is full")
	}
	return nil
}

// storeRefusals has the answer to each refusal of the store; the detail is the error's text and the advice.
var storeRefusals = []struct {
	err    error
	kind   refusalKind
	advice string
}{
	{store.ErrNoReset, gone, "ask an admin for another."},
	{store.ErrTOTPOn, conflict, "use those of its app, or switch TOTP off first."},
	{store.ErrTOTPOff, conflict, "look at the account, there is nothing to switch off."},
	{store.ErrNoTOTP, conflict, "ask for one first."},
	{store.ErrBadKey, unauthorized, "send Authorization: Bearer <API key>."},
	{store.ErrNotFound, notFound, "check the id."},
	{store.ErrNoCallback, notFound, "only a job that was uploaded with a callback_url has one."},
	{store.ErrMismatch, unacceptable, "use a new Idempotency-Key for a new request."},
	{store.ErrIdempotencyKey, malformed, "send a shorter one."},
	{store.ErrEmailTaken, conflict, "choose another address, or use that account."},
	{store.ErrTooManyKeys, conflict, "then try again."},
	{store.ErrLedgerConflict, conflict, "use a new grant_id for a new grant."},
	{store.ErrSuppressionsFull, conflict, "remove some first."},
	{store.ErrBadEmail, unacceptable, "email must be an address such as ann@example.com."},
	{store.ErrBadRole, unacceptable, "change role."},
	{store.ErrBadLimit, unacceptable, "change limits."},
	{store.ErrPasswordLength, unacceptable, fmt.Sprintf("send a password of %d to %d bytes.", store.MinPassword, store.MaxPassword)},
	{store.ErrBadName, unacceptable, "change name."},
	{store.ErrBadExpiry, unacceptable, "send a time such as 2027-01-31T12:00:00Z, or none for a key that does not expire."},
	{store.ErrCreditsRange, unacceptable, "change the amount of credits."},
	{store.ErrBadSuppression, unacceptable, "change kind or name."},
}

func refusalOfStore(err error) *refusal {
	if e, ok := errors.AsType[*store.ErrInsufficientCredits](err); ok {
		return refuse(paymentRequired, "You have %s; this needs %d: add credits and try again.", plural(e.Balance, "credit"), e.Needed)
	}
	if errors.Is(err, store.ErrInFlight) {
		r := refuse(conflict, "A request with this Idempotency-Key is still under way: repeat this one after it was answered.")
		r.retry = time.Second
		return r
	}
	if errors.Is(err, store.ErrPasswordsBusy) {
		return busy("Too many passwords are being checked")
	}
	if errors.Is(err, store.ErrTooManyInFlight) || errors.Is(err, context.Canceled) {
		return busy("The server is busy or shutting down")
	}
	if errors.Is(err, store.ErrBadScopes) || errors.Is(err, store.ErrBadNetwork) {
		return refuse(unacceptable, "%s.", err)
	}
	for _, s := range storeRefusals {
		if errors.Is(err, s.err) {
			return refuse(s.kind, "%s: %s", capitalize(s.err.Error()), s.advice)
		}
	}
	return nil
}

// plural is a number with its noun: 1 credit, 2 credits.
func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}

// overLimit is the refusal of a request beyond a rate limit.
func overLimit(d store.Decision) *refusal {
	r := &refusal{kind: tooMany, retry: d.RetryAfter}
	if r.retry <= 0 {
		r.retry = time.Second
	}
	r.detail = fmt.Sprintf("The limit of %s is reached: wait %s (Retry-After).", plural(int64(d.Limit), "request"), plural(r.retrySeconds(), "second"))
	return r
}

// capitalize turns the error text of another package into the beginning of a sentence.
func capitalize(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}
