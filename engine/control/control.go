package control

import "time"

// Kind is the kind of a control. Of the kinds for one sort of reply, a later one proves more.
type Kind uint8

// The kinds. Nothing came after the reply with None.
const (
	None Kind = iota

	// For an acceptance. With Fact no refusal came after it, but a made-up recipient of the domain was refused there before, and the host
	// has refused nothing else in the last hour.
	Fact
	TargetRefused // the host refused another recipient of a list or call as unknown
	DecoyRefused  // the host refused the made-up recipient of the domain

	// For a refusal as unknown.
	AcceptedElsewhere      // the host accepted a recipient over another connection
	AcceptedSameConnection // and over the connection of the refusal
)

// Control is what is known about one reply. The zero value is no control.
type Control struct {
	Kind     Kind
	Replies  uint16        // from the reply to its control, both to recipients of the same route; at most 65,535
	After    time.Duration // how long after the reply the control came
	Refused  uint8         // recipients, decoys left out, that the host has refused as unknown since the route came into use; at most 255
	Accepted uint8         // the same for recipients that it accepted
}

// Of describes the control of a reply; the numbers are cut to what it holds.
func Of(k Kind, replies uint64, after time.Duration) Control {
	return Control{Kind: k, Replies: uint16(min(replies, 1<<16-1)), After: max(after, 0)}
}
