package reasons

import (
	"strings"
	"time"

	"probity/engine"
	"probity/engine/basis"
	"probity/engine/control"
)

// SimulatedDomain is the domain whose local part names the answer for a test key.
const SimulatedDomain = "example.com"

// simulatedRetry is the wait until the simulated retry of a greylisted address.
const simulatedRetry = 5 * time.Minute

// Simulate is the verdict that a test key gets for an address: <reason>@example.com gets that reason, valid@example.com
// is VALID, and all others get smtp_not_checked. Its flags and details agree with the reason as in a real verdict; it
// has no details of a server, because none was probed.
func Simulate(a engine.Address) engine.Verdict {
	reason := engine.ReasonSMTPNotChecked
	if a.Domain() == SimulatedDomain {
		reason = reasonNamed(strings.ToLower(a.Local()))
	}
	v := engine.VerdictFor(reason, "test/key", 0, time.Now())
	switch reason {
	case engine.ReasonNone, engine.ReasonPossibleTypo, engine.ReasonRoleAccount:
		v.SMTPValid, v.Details.CatchAll, v.Basis = true, engine.No, checkedNow
	case engine.ReasonLowQuality, engine.ReasonMailboxNotFound:
		v.Basis = checkedNow
	case engine.ReasonCatchAll:
		v.Details.CatchAll, v.Basis = engine.Yes, checkedNow
	case engine.ReasonMailboxFull:
		v.Details.Full = true
	case engine.ReasonMailboxDisabled:
		v.Details.Disabled, v.Basis = true, checkedNow
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

// checkedNow is the basis of answers that were checked and controlled at once, so that scores equal the figures of the
// reasons.
var checkedNow = basis.Basis{
	Check: basis.CheckSameConnection, CheckAge: 1, Control: control.DecoyRefused, Distance: basis.Distance8,
	Delay:   basis.Delay10s,
	Refused: basis.TallyOf(2), Accepted: basis.TallyOf(2),
}

// reasonNamed is the reason that a test address names.
func reasonNamed(local string) engine.Reason {
	if local == "valid" {
		return engine.ReasonNone
	}
	for _, r := range All() {
		if r.String() == local && r != engine.ReasonNone {
			return r
		}
	}
	return engine.ReasonSMTPNotChecked
}
