package smtpd

import (
	"bytes"
	"hash/maphash"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
)

// countedRcpt answers a recipient and counts it if the reply is a 5xx.
func (s *session) countedRcpt(cmd *command) bool {
	at := len(s.out)
	keepOpen := s.rcpt(cmd)
	if at > len(s.out) {
		at = 0 // earlier replies have been sent
	}
	if at < len(s.out) && s.out[at] == '5' {
		s.connection.CountDenied()
	}
	return keepOpen
}

// rcpt answers one recipient.
func (s *session) rcpt(cmd *command) bool {
	switch {
	case !s.inMail && s.behaviour.RequireTLS && !s.secure:
		return s.reply(persona.ReplyNeedTLS)
	case !s.inMail:
		return s.badCommand("503 5.5.1 MAIL first")
	case !cmd.wellFormed || len(cmd.path) == 0:
		return s.badCommand("501 5.1.3 Bad recipient address syntax")
	case !s.utf8 && !asciiOnly(cmd.local):
		return s.reply(persona.ReplyNeedsUTF8)
	}
	s.values.To, s.values.User, s.values.Domain = cmd.path, cmd.local, cmd.domain
	rule := s.connection.CountRcpt(s.now)
	if mailDomain := s.rcptDomain(cmd.domain); mailDomain != nil && mailDomain.Persona == s.host.Persona {
		s.connection.CountOnRoute(s.server.referee, s.values.IP, mailDomain, s.now)
	}
	if s.behaviour.Fault != persona.FaultNone {
		if said, keepOpen := s.breakProtocol(); said {
			return keepOpen
		}
	}
	if wait := s.behaviour.RcptWait + s.connection.ReplyDelay(&s.behaviour.HiddenLimits, s.now); wait > 0 &&
		!s.delayReply(cmd, wait) {
		return false
	}
	if rule == referee.RuleNone {
		rule = s.connection.CheckRecipient(&s.behaviour.HiddenLimits, s.now)
	}
	s.acceptAll = rule == referee.RuleAcceptAll
	if rule != referee.RuleNone && !s.acceptAll {
		return s.throttle(rule)
	}
	return s.answerRcpt(cmd)
}

// delayReply sends the earlier replies, and delays this one.
func (s *session) delayReply(cmd *command, wait time.Duration) bool {
	wait = s.server.scaled(wait)
	if wait == 0 {
		return true
	}
	// New input overwrites the line during the pause: copy it.
	*cmd = parse(append([]byte("RCPT "), cmd.arg...))
	s.values.To, s.values.User, s.values.Domain = cmd.path, cmd.local, cmd.domain
	return s.flush() && s.pause(wait)
}

// answerRcpt answers a recipient within the limits.
func (s *session) answerRcpt(cmd *command) bool {
	if s.behaviour.RefuseAt == persona.StageRcpt {
		return s.reply(persona.ReplyRefused)
	}
	mailDomain := s.rcptDomain(cmd.domain)
	switch {
	case mailDomain == nil || mailDomain.Persona != s.host.Persona:
		return s.reply(persona.ReplyRelayDenied)
	case s.behaviour.OneDomainOnly && s.firstDomain != nil && s.firstDomain != mailDomain:
		return s.reply(persona.ReplyOneDomain)
	case s.behaviour.MaxRcpts > 0 && s.connection.TransactionRcpts > s.behaviour.MaxRcpts:
		return s.reply(persona.ReplyTooManyRcpts)
	case s.behaviour.Greylisting != persona.GreyNone && !s.greyPasses(mailDomain, cmd):
		return s.reply(persona.ReplyGreylisted)
	}
	s.firstDomain = mailDomain
	turn, lasts := &s.behaviour.Turn, s.server.scaled(s.behaviour.Turn.For)
	if s.turn.active(s.now) {
		if turn.Accepts {
			return s.accept(persona.ReplyRcpt)
		}
		return s.refuse(persona.ReplyTurned)
	}
	before := s.accepted
	keepOpen := s.answer(s.behaviour.Shown(s.server.world.MailboxOf(mailDomain, cmd.local)))
	kind := persona.CountUnknown
	if s.accepted > before {
		kind = persona.CountAccepted
	}
	s.turn.count(turn, kind, s.now, lasts)
	return keepOpen
}

// answer replies with the state of a mailbox, as far as the persona reveals it.
func (s *session) answer(m persona.Mailbox) bool {
	if s.behaviour.RefusesName(s.values.User, s.otherBackEnd) {
		return s.refuse(persona.ReplyAbsent)
	}
	if s.behaviour.AcceptsAll || s.acceptAll || s.otherBackEnd && s.behaviour.BackEnds == persona.OneAcceptsAll {
		return s.accept(persona.ReplyRcpt)
	}
	if s.behaviour.AcceptsMost {
		switch m {
		case persona.Absent, persona.Present:
			return s.accept(persona.ReplyRcpt)
		case persona.Disabled:
			return s.refuse(persona.ReplyAbsent)
		}
	}
	switch m {
	case persona.Present:
		return s.accept(persona.ReplyRcpt)
	case persona.Full:
		return s.reply(persona.ReplyFull)
	case persona.Disabled:
		return s.refuse(persona.ReplyDisabled)
	case persona.Moved:
		return s.refuse(persona.ReplyMoved)
	}
	return s.refuse(persona.ReplyAbsent)
}

func (s *session) accept(kind persona.ReplyKind) bool {
	s.accepted++
	return s.reply(kind)
}

// refuse refuses a recipient, unless this is one refusal more than the persona
// tolerates.
func (s *session) refuse(kind persona.ReplyKind) bool {
	if s.behaviour.Reply(kind).Accepts {
		return s.accept(kind)
	}
	rule := s.connection.CountRefusal(s.now)
	if rule == referee.RuleNone {
		rule = s.connection.CheckRefusal(&s.behaviour.HiddenLimits, s.now)
	}
	switch rule {
	case referee.RuleNone:
		return s.reply(kind)
	case referee.RuleAcceptAll:
		return s.accept(persona.ReplyRcpt)
	}
	return s.throttle(rule)
}

// acceptAllAfterBlocks is how many recipients get the reply of a block before throttleAcceptAll accepts every
// recipient.
const acceptAllAfterBlocks = 5

// throttle answers a client that exceeds a limit. No reply looks like a missing
// mailbox.
func (s *session) throttle(rule referee.Rule) bool {
	switch rule {
	case referee.RuleConnectionUsed:
		return s.reply(persona.ReplyConnectionUsed) && false
	case referee.RuleTooManyRcpts:
		return s.reply(persona.ReplyTooManyRcpts)
	case referee.RuleTooFast:
		return s.reply(persona.ReplyTooFast)
	case referee.RuleTooManyRefusals:
		return s.reply(persona.ReplyTooManyErrors) && false
	}
	if s.behaviour.ThrottleMode == persona.ThrottleAcceptAll && s.connection.ThrottledCount() > acceptAllAfterBlocks {
		return s.accept(persona.ReplyRcpt)
	}
	return s.reply(persona.ReplyBlocked)
}

// rcptDomain finds the domain of a recipient. It remembers the last one, as
// recipients come sorted by domain.
func (s *session) rcptDomain(name []byte) *world.Domain {
	if len(s.rawDomain) > 0 && bytes.Equal(name, s.rawDomain) {
		return s.domain
	}
	s.rawDomain = append(s.rawDomain[:0], name...)
	s.domain = s.server.world.DomainOf(bytes.ToLower(name))
	return s.domain
}

// greyPasses reports whether a recipient was first tried long enough ago.
func (s *session) greyPasses(mailDomain *world.Domain, cmd *command) bool {
	var key maphash.Hash
	key.SetSeed(s.server.grey.seed)
	if s.behaviour.Greylisting == persona.GreySource {
		maphash.WriteComparable(&key, s.host.Cluster)
	} else {
		key.WriteString(mailDomain.Name)
		key.WriteByte('@')
		key.Write(bytes.ToLower(cmd.local))
	}
	if s.behaviour.Greylisting != persona.GreyAddress {
		maphash.WriteComparable(&key, s.values.IP)
		key.Write(bytes.ToLower(s.from))
	}
	return s.server.grey.passes(key.Sum64(), s.now, s.server.scaled(s.behaviour.GreyWait))
}
