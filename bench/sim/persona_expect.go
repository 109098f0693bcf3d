package sim

// expectation gives the honest outcomes for what a persona shows of a mailbox.
type expectation func(shown Mailbox) []Outcome

// truthful is a server that accepts what exists and refuses the rest, for good.
func truthful(shown Mailbox) []Outcome {
	switch shown {
	case Present:
		return []Outcome{{"VALID", ""}}
	case Full:
		return []Outcome{{"RISKY", "mailbox_full"}}
	case Disabled:
		return []Outcome{{"INVALID", "mailbox_disabled"}}
	case Moved:
		// 551 says that no mailbox is here; no verifier is bound to know where it went.
		return []Outcome{{"INVALID", "mailbox_not_found"}, {"INVALID", "mailbox_disabled"}, {"UNKNOWN", "unclear_refusal"}}
	default:
		return []Outcome{{"INVALID", "mailbox_not_found"}}
	}
}

// always gives the same outcomes for every mailbox.
func always(outcomes ...Outcome) expectation {
	return func(Mailbox) []Outcome { return outcomes }
}

// alsoAllow allows more outcomes in addition to those of base.
func alsoAllow(base expectation, more ...Outcome) expectation {
	return func(shown Mailbox) []Outcome { return append(base(shown), more...) }
}

// deferAbsent accepts what exists and puts the rest off as unknown users: that
// confirms an acceptance, and condemns no mailbox.
func deferAbsent(shown Mailbox) []Outcome {
	if shown == Absent {
		return []Outcome{{"UNKNOWN", "temporary_error"}}
	}
	return truthful(shown)
}

// acceptMost accepts every name but those it has been told to refuse.
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
