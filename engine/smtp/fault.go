package smtp

import (
	"context"
	"errors"

	"probity/engine"
)

// Fault is what ended a dialogue early. The zero value is no fault.
//
// Event is engine.EventReply if the server refused us with a reply (at the banner, EHLO or STARTTLS); else what
// happened, and Reply is then the reply that came with it, if any: the 421 before a close, the one that was out of
// step.
type Fault struct {
	Event  engine.Event
	Stage  engine.Stage
	Reply  engine.Reply
	Detail string // for the log, in our words; nothing that the peer sent
	// RetryPlain says that opportunistic TLS failed on this connection: another one with engine.TLSNever may work.
	RetryPlain bool
}

// None reports whether nothing went wrong.
func (f Fault) None() bool { return f.Event == engine.EventReply && f.Reply.Code == 0 }

// refusalFault is a reply that ends the dialogue. 421 says that the server closes (RFC 5321 section 3.8).
func refusalFault(r engine.Reply) Fault { return Fault{Stage: r.Stage, Reply: r} }

// closingFault is a 421 in mid-session: what was pending was not answered.
func closingFault(r engine.Reply) Fault {
	return Fault{Event: engine.EventClosed, Stage: r.Stage, Reply: r, Detail: "the server closes with 421"}
}

func protocolFault(stage engine.Stage, detail string) Fault {
	return Fault{Event: engine.EventOutOfStep, Stage: stage, Detail: detail}
}

// ourFault is a fault on our side: nothing was sent to the peer, or its reply was not waited for.
func ourFault(stage engine.Stage, detail string) Fault {
	return Fault{Event: engine.EventInternal, Stage: stage, Detail: detail}
}

// connectionFault is an error of the connection as a fault. A caller that gives up before its deadline is not a fault
// of the peer.
func connectionFault(ctx context.Context, stage engine.Stage, err error) Fault {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ourFault(stage, "the caller gave up")
	case ctx.Err() != nil, isTimeout(err):
		return Fault{Event: engine.EventTimeout, Stage: stage, Detail: "no reply in time"}
	case stage == engine.StageBanner:
		return Fault{Event: engine.EventConnectFailed, Stage: stage, Detail: "closed before the banner"}
	}
	return Fault{Event: engine.EventClosed, Stage: stage, Detail: "the connection was closed"}
}
