package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/coordinator/bucket"
	"probity/coordinator/callback"
	"probity/coordinator/csvfile"
	"probity/coordinator/fetch"
	"probity/coordinator/fleet"
	"probity/store"
)

const badKeyDetail = "The API key is missing, wrong, revoked or expired: send Authorization: Bearer <API key>."

func noKey() *httpd.Refusal { return httpd.Refuse(httpd.Unauthorized, badKeyDetail) }

// refusalOf is the answer to an error of any package. An unknown error is a failure on our side, and its text is only
// logged.
func refusalOf(err error) *httpd.Refusal {
	if r, ok := errors.AsType[*httpd.Refusal](err); ok {
		return r
	}
	if e, ok := errors.AsType[*csvfile.Error](err); ok {
		kind := httpd.Unacceptable
		if e.Kind == csvfile.TooLarge {
			kind = httpd.TooLarge
		}
		if e.Line > 0 {
			return httpd.Refuse(kind, "file: line %d: %s", e.Line, e.Detail)
		}
		return httpd.Refuse(kind, "file: %s", e.Detail)
	}
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		kind := httpd.Unacceptable
		if e.TooLarge {
			kind = httpd.TooLarge
		}
		return httpd.Refuse(kind, "source_url: %s.", e)
	}
	r := refusalOfCoordinator(err)
	if r == nil {
		r = refusalOfStore(err)
	}
	if r == nil {
		return httpd.NewFailure(err)
	}
	r.Cause = err
	return r
}

// refusalOfCoordinator is the answer to an error of the coordinator.
func refusalOfCoordinator(err error) *httpd.Refusal {
	switch {
	case errors.Is(err, coordinator.ErrState):
		return httpd.Refuse(httpd.Conflict, "The job's state does not allow this: look at its status first.")
	case errors.Is(err, coordinator.ErrNotReady):
		r := httpd.Refuse(httpd.Conflict, "The job is not finished: retry after the Retry-After delay, or use partial=true for the results so far.")
		r.Retry = httpd.RetryLater
		return r
	case errors.Is(err, coordinator.ErrExpired):
		return httpd.Refuse(httpd.Gone, "The results of this job have expired: upload the list again.")
	case errors.Is(err, coordinator.ErrDamaged):
		return &httpd.Refusal{Kind: httpd.Failed, Cause: err,
			Detail: "A file of this job is damaged on the server's disk, so no results are given: restore a backup, or upload the list again."}
	case errors.Is(err, callback.ErrLinkInvalid), errors.Is(err, callback.ErrLinkExpired):
		return httpd.Refuse(httpd.Forbidden, "%s.", capitalize(err.Error()))
	case errors.Is(err, fleet.ErrNoProber):
		return httpd.Busy("No prober is connected, so no mail server can be asked")
	case errors.Is(err, callback.ErrURL), errors.Is(err, callback.ErrHeaders), errors.Is(err, bucket.ErrURL):
		return httpd.Refuse(httpd.Unacceptable, "%s.", err)
	case errors.Is(err, fetch.ErrBusy):
		return httpd.Busy("Too many lists are being fetched by their URLs")
	case vfs.IsNoSpaceError(err):
		return httpd.Busy("The disk is full")
	}
	return nil
}

// storeRefusals has the answer to each refusal of the store; the detail is the error's text and the advice.
var storeRefusals = []struct {
	err    error
	kind   httpd.Kind
	advice string
}{
	{store.ErrNoReset, httpd.Gone, "ask an admin for another."},
	{store.ErrDisabled, httpd.Conflict, "an admin must enable it first."},
	{store.ErrTOTPOn, httpd.Conflict, "use those of its app, or switch TOTP off first."},
	{store.ErrTOTPOff, httpd.Conflict, "nothing needs to be switched off."},
	{store.ErrNoTOTP, httpd.Conflict, "ask for one first."},
	{store.ErrBadKey, httpd.Unauthorized, "send Authorization: Bearer <API key>."},
	{store.ErrNotFound, httpd.NotFound, "check the id."},
	{store.ErrNoCallback, httpd.NotFound, "only a job that was uploaded with a callback_url has one."},
	{store.ErrMismatch, httpd.Unacceptable, "use a new Idempotency-Key for a new request."},
	{store.ErrIdempotencyKey, httpd.Malformed, "send a shorter one."},
	{store.ErrEmailTaken, httpd.Conflict, "choose another address, or use that account."},
	{store.ErrTooManyKeys, httpd.Conflict, "then try again."},
	{store.ErrLedgerConflict, httpd.Conflict, "use a new grant_id for a new grant."},
	{store.ErrSuppressionsFull, httpd.Conflict, "remove some first."},
	{store.ErrBadEmail, httpd.Unacceptable, "email must be an address such as ann@example.com."},
	{store.ErrLastAdmin, httpd.Conflict, "add or enable another one first."},
	{store.ErrBadRole, httpd.Unacceptable, "change role."},
	{store.ErrBadLimit, httpd.Unacceptable, "change limits."},
	{store.ErrPasswordLength, httpd.Unacceptable, fmt.Sprintf("send a password of %d to %d bytes.", store.MinPassword,
		store.MaxPassword)},
	{store.ErrBadName, httpd.Unacceptable, "change name."},
	{store.ErrBadExpiry, httpd.Unacceptable, "send a time such as 2027-01-31T12:00:00Z, or none for a key that does not expire."},
	{store.ErrCreditsRange, httpd.Unacceptable, fmt.Sprintf("an account has from 0 to %d, so change the amount.",
		store.MaxCredits)},
	{store.ErrBadCursor, httpd.Unacceptable, "cursor must be the next_cursor of the page before."},
	{store.ErrCursorSort, httpd.Unacceptable, "send cursor with the sort that it came with, or without one begin anew."},
	{store.ErrBadSuppression, httpd.Unacceptable, "change kind or name."},
}

func refusalOfStore(err error) *httpd.Refusal {
	if e, ok := errors.AsType[*store.ErrInsufficientCredits](err); ok {
		return httpd.Refuse(httpd.PaymentRequired, "You have %s; this needs %d: add credits and try again.",
			plural(e.Balance, "credit"), e.Needed)
	}
	if e, ok := errors.AsType[*store.OverLimitError](err); ok {
		return overLimit(e.Decision, counted[bulkLimit])
	}
	if errors.Is(err, store.ErrInFlight) {
		r := httpd.Refuse(httpd.Conflict, "A request with this Idempotency-Key is still under way: repeat this one after it was answered.")
		r.Retry = time.Second
		return r
	}
	if errors.Is(err, store.ErrPasswordsBusy) {
		return httpd.Busy("Too many passwords are being checked")
	}
	if errors.Is(err, store.ErrTooManyInFlight) || errors.Is(err, context.Canceled) {
		return httpd.Busy("The server is busy or shutting down")
	}
	if errors.Is(err, store.ErrBeyondKey) {
		return httpd.Refuse(httpd.Forbidden, "%s: ask for less, or make the key in the dashboard.",
			capitalize(err.Error()))
	}
	if errors.Is(err, store.ErrBadScopes) || errors.Is(err, store.ErrBadNetwork) {
		return httpd.Refuse(httpd.Unacceptable, "%s.", err)
	}
	for _, s := range storeRefusals {
		if errors.Is(err, s.err) {
			return httpd.Refuse(s.kind, "%s: %s", capitalize(s.err.Error()), s.advice)
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

// spans are the spans of rate limits, in words.
var spans = map[time.Duration]string{time.Minute: "a minute", time.Hour: "an hour", 24 * time.Hour: "a day",
	7 * 24 * time.Hour: "a week"}

// overLimit is the refusal of a request beyond a rate limit. counted is what the limit counts.
func overLimit(d store.Decision, counted string) *httpd.Refusal {
	r := &httpd.Refusal{Kind: httpd.TooMany, Retry: d.RetryAfter}
	if r.Retry <= 0 {
		r.Retry = time.Second
	}
	r.Detail = fmt.Sprintf("The limit of %s %s is reached: wait %s (Retry-After).", plural(int64(d.Limit), counted),
		spans[d.Per], plural(r.RetrySeconds(), "second"))
	return r
}

// capitalize turns the error text of another package into the beginning of a sentence.
func capitalize(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}
