package persona

// Statuses as a verifier spells them.
const (
	StatusValid   = "VALID"
	StatusRisky   = "RISKY"
	StatusInvalid = "INVALID"
	StatusUnknown = "UNKNOWN"
)

// expectation returns the honest outcomes for the shown state of a mailbox.
type expectation func(shown Mailbox) []Outcome

// truthful is for a server that accepts mailboxes that exist and permanently refuses the rest.
func truthful(shown Mailbox) []Outcome {
	switch shown {
	case Present:
		return []Outcome{{"VALID", ""}}
	case Full:
		return []Outcome{{"RISKY", "mailbox_full"}}
	case Disabled:
		return []Outcome{{"INVALID", "mailbox_disabled"}}
	case Moved:
		// 551 says that the mailbox is not here; a verifier need not know the new address.
		return []Outcome{{"INVALID", "mailbox_not_found"}, {"INVALID", "mailbox_disabled"},
			{"UNKNOWN", "unclear_refusal"}}
	default:
		return []Outcome{{"INVALID", "mailbox_not_found"}}
	}
}

// always returns the same outcomes for every mailbox.
func always(outcomes ...Outcome) expectation {
	return func(Mailbox) []Outcome { return outcomes }
}

// alsoAllow allows more outcomes in addition to those of base.
func alsoAllow(base expectation, more ...Outcome) expectation {
	return func(shown Mailbox) []Outcome { return append(base(shown), more...) }
}

// deferAbsent is for a server that accepts mailboxes that exist and defers the
// rest as unknown users: that confirms an acceptance, but no refusal.
func deferAbsent(shown Mailbox) []Outcome {
	if shown == Absent {
		return []Outcome{{"UNKNOWN", "temporary_error"}}
	}
	return truthful(shown)
}

// acceptMost is for a server that accepts every name but the disabled and the full.
func acceptMost(shown Mailbox) []Outcome {
	switch shown {
	case Absent, Present:
		return []Outcome{{"RISKY", "catch_all"}}
	case Disabled:
		return []Outcome{{"INVALID", "mailbox_not_found"}}
	default:
		return truthful(shown)
	}
}
