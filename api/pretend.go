package api

import (
	"strings"
	"time"

	"probity/engine"
	"probity/store"
)

// pretendDomain is where the local part tells a test key what to answer.
const pretendDomain = "example.com"

// Pretend is the verdict that a test key gets for an address: <reason>@example.com gets that reason, valid@example.com
// is VALID, and of all others it says that nobody was asked.
func Pretend(a engine.Address) engine.Verdict {
	reason := engine.ReasonSMTPNotChecked
	if a.Domain() == pretendDomain {
		reason = reasonNamed(strings.ToLower(a.Local()))
	}
	v := engine.Sure(reason, "test/key", 0, time.Now())
	v.SMTPValid = reason == engine.ReasonNone
	switch reason {
	case engine.ReasonDisposable:
		v.Flags = engine.FlagDisposable
	case engine.ReasonRoleAccount:
		v.Flags = engine.FlagRole
	}
	return v
}

// reasonNamed is the reason that a test address names.
func reasonNamed(local string) engine.Reason {
	if local == "valid" {
		return engine.ReasonNone
	}
	for _, r := range allReasons() {
		if r.String() == local && r != engine.ReasonNone {
			return r
		}
	}
	return engine.ReasonSMTPNotChecked
}

// pretendRefusal is the error that a test key asks for by an address, if it does.
func pretendRefusal(email string) error {
	a, err := engine.ParseTrimmed(email)
	if err != nil || a.Domain() != pretendDomain {
		return nil
	}
	switch strings.ToLower(a.Local()) {
	case "http_402":
		return &store.ErrInsufficientCredits{Balance: 0, Needed: 1}
	case "http_429":
		return overLimit(store.Decision{Limit: store.DefaultSinglePerMinute, RetryAfter: time.Minute})
	case "http_500":
		return refuse(failed, failedDetail)
	}
	return nil
}
