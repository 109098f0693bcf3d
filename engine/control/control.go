package control

import "time"

// Kind is the kind of a control. Of the kinds for one sort of reply, a later one proves more.
type Kind uint8

// The kinds. Nothing came after the reply with None.
const (
	None Kind = iota

	// For an acceptance. With Fact no refusal came after it, but a made-up recipient of the domain was refused there
	// before, and the host has refused nothing else in the last hour.
	Fact
	TargetRefused // the host refused another recipient of a list or call as unknown
	DecoyRefused  // the host refused the made-up recipient of the domain

	// For a refusal as unknown.
	AcceptedElsewhere      // the host accepted a recipient over another connection
	AcceptedSameConnection // and over the connection of the refusal
)

// kindNames are the names that the API shows.
var kindNames = [...]string{Fact: "made_up_refused_before", TargetRefused: "recipient_refused_after",
	DecoyRefused:      "made_up_refused_after",
	AcceptedElsewhere: "recipient_accepted_after", AcceptedSameConnection: "recipient_accepted_after_same_connection"}

// String is the kind as the API shows it; empty for None.
func (k Kind) String() string { return kindNames[k] }

// Control is what is known about one reply. The zero value is no control.
type Control struct {
	Kind Kind
	// Replies is the distance to the control in replies of the same route, at most 65,535. Where none came after the
	// reply it is the distance back to the last reply of the opposite sort; 0 is not known.
	Replies uint16
	After   time.Duration // the same distance in time
	// Refused and Accepted are how many recipients the host had refused as unknown and accepted before this one, decoys
	// left out, since the route came into use; at most 255.
	Refused, Accepted uint8
}

// By returns c with a control of this kind and distance.
func (c Control) By(k Kind, replies uint64, after time.Duration) Control {
	c.Kind, c.Replies, c.After = k, uint16(min(replies, 1<<16-1)), max(after, 0)
	return c
}
