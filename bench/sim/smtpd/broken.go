package smtpd

import (
	"time"

	"probity/bench/sim/persona"
)

// longReplyLines bounds a banner that never ends.
const longReplyLines = 1 << 14

// breakProtocol does at a recipient what a broken host does. If said is false,
// this recipient is answered normally.
func (c *session) breakProtocol() (said, keepOpen bool) {
	switch c.behaviour.Fault {
	case persona.FaultGarbage:
		c.out = append(c.out, "\x16\x03\xff\x00\x80 \xfe 2 5 O k?\r\n"...)
		return true, c.drain()
	case persona.FaultMidClose:
		if c.connection.Rcpts < 3 {
			return false, true
		}
		return true, false
	case persona.FaultReset:
		c.flush()
		c.connection.Close()
		c.resetConn = true
		if r, ok := c.rawConn.(interface{ SetLinger(int) error }); ok {
			r.SetLinger(0) // the close that follows is a reset
		}
		return true, false
	case persona.FaultSilent:
		c.flush()
		c.pause(c.server.scaled(unresponsiveTime))
		return true, false
	}
	return false, true
}

// replyAgain sends a second reply in a segment of its own if that is the host's fault. Where the host waits before it, the client's
// next command may come first.
func (c *session) replyAgain(fault persona.Fault, s persona.ReplyKind) bool {
	if c.behaviour.Fault != fault {
		return true
	}
	return c.flush() && c.pause(c.server.scaled(c.behaviour.FaultDelay)) && c.reply(s) && c.flush()
}

// sendLongReply sends longReplyLines continuation lines.
func (c *session) sendLongReply() {
	for range longReplyLines {
		c.replyText("220-" + c.host.Name + " has something to say before it begins, and this is not the end of it")
		if !c.flush() || !c.pause(c.server.scaled(time.Second)) {
			return
		}
	}
}
