package smtpd

import (
	"time"

	"probity/bench/sim/persona"
)

// longReplyLines bounds a banner that never ends.
const longReplyLines = 1 << 14

// breakProtocol does at a recipient what a broken host does. If said is false,
// this recipient is answered normally.
func (s *session) breakProtocol() (said, keepOpen bool) {
	switch s.behaviour.Fault {
	case persona.FaultGarbage:
		s.out = append(s.out, "\x16\x03\xff\x00\x80 \xfe 2 5 O k?\r\n"...)
		return true, s.drain()
	case persona.FaultMidClose:
		if s.connection.Rcpts < 3 {
			return false, true
		}
		return true, false
	case persona.FaultReset:
		s.flush()
		s.connection.Close()
		s.resetConn = true
		if r, ok := s.rawConn.(interface{ SetLinger(int) error }); ok {
			_ = r.SetLinger(0) // the close that follows is a reset
		}
		return true, false
	case persona.FaultSilent:
		s.flush()
		s.pause(s.server.scaled(unresponsiveTime))
		return true, false
	}
	return false, true
}

// replyAgain sends a second reply in a segment of its own if that is the host's fault. Where the host waits before it,
// the client's next command may come first.
func (s *session) replyAgain(fault persona.Fault, kind persona.ReplyKind) bool {
	if s.behaviour.Fault != fault {
		return true
	}
	return s.flush() && s.pause(s.server.scaled(s.behaviour.FaultDelay)) && s.reply(kind) && s.flush()
}

// sendLongReply sends longReplyLines continuation lines.
func (s *session) sendLongReply() {
	for range longReplyLines {
		s.replyText("220-" + s.host.Name + " has something to say before it begins, and this is not the end of it")
		if !s.flush() || !s.pause(s.server.scaled(time.Second)) {
			return
		}
	}
}
