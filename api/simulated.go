package api

import (
	"strings"
	"time"

	"probity/engine"
	"probity/store"
)

// simulatedDomain is where the local part tells a test key what to answer.
const simulatedDomain = "example.com"

// simulatedRetry is when a greylisted address would be asked again.
const simulatedRetry = 5 * time.Minute

// SimulateVerdict is the verdict that a test key gets for an address: <reason>@example.com gets that reason, valid@example.com
// is VALID, and of all others it says that no server was asked. Its flags and details agree with the reason as those of a
// real verdict do; of a server it tells nothing, since none was asked.
func SimulateVerdict(a engine.Address) engine.Verdict {
	reason := engine.ReasonSMTPNotChecked
	if a.Domain() == simulatedDomain {
		reason = reasonNamed(strings.ToLower(a.Local()))
	}
	v := engine.VerdictFor(reason, "test/key", 0, time.Now())
	switch reason {
	case engine.ReasonNone, engine.ReasonPossibleTypo, engine.ReasonRoleAccount:
		v.SMTPValid, v.Details.CatchAll, v.Basis = true, engine.No, checkedNow
	case engine.ReasonLowQuality:
		v.Basis = checkedNow
	case engine.ReasonCatchAll:
		v.Details.CatchAll, v.Basis = engine.Yes, checkedNow
	case engine.ReasonMailboxFull:
		v.Details.Full = true
	case engine.ReasonMailboxDisabled:
		v.Details.Disabled = true
	case engine.ReasonGreylisted:
		v.Details.NextRetry = v.VerifiedAt.Add(simulatedRetry)
	}
	switch reason {
	case engine.ReasonDisposable:
		v.Flags = engine.FlagDisposable
	case engine.ReasonRoleAccount:
		v.Flags = engine.FlagRole
	}
	v.Score = engine.Score(&v, v.VerifiedAt)
	return v
}

// checkedNow is the basis of a catch-all check together with the answer: a test key gets the figures of the table of reasons.
var checkedNow = engine.Basis{Check: engine.CheckSameConnection, CheckAge: 1}

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

// simulatedRefusal is the error that a test key asks for by an address, if it does. Its headers say the same as its words.
func (c *call) simulatedRefusal(email string) error {
	a, err := engine.ParseTrimmed(email)
	if err != nil || a.Domain() != simulatedDomain {
		return nil
	}
	switch strings.ToLower(a.Local()) {
	case "http_402":
		return &store.ErrInsufficientCredits{Balance: 0, Needed: 1}
	case "http_429":
		c.limit = &store.Decision{Limit: c.limit.Limit, Reset: time.Minute, RetryAfter: time.Minute}
		return overLimit(*c.limit)
	case "http_500":
		return &refusal{kind: failed, detail: failedDetail, simulated: true}
	}
	return nil
}
