package engine

import "time"

// Policy is what the asker wants: how far to go, and how patient to be.
type Policy struct {
	NoSMTP   bool            // syntax, DNS, lists and knowledge only
	Schedule []time.Duration // waits after each deferred attempt; its length bounds the retries
}

// StepKind says what to do next for one address.
type StepKind uint8

// The steps; the zero value ends.
const (
	StepDone    StepKind = iota
	StepResolve          // find the route of the domain
	StepAsk              // RCPT TO the target at Step.Host
	StepDecoy            // RCPT TO a decoy of the domain at Step.Host, in the same session
	StepWait             // come back at Step.Until
)

// Step is the next thing to do for one address.
type Step struct {
	Kind  StepKind
	Host  string
	Until time.Time
}
