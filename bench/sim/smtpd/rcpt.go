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
func (c *session) countedRcpt(cmd *command) bool {
	at := len(c.out)
	keepOpen := c.rcpt(cmd)
	if at > len(c.out) {
		at = 0 // earlier replies have been sent
	}
	if at < len(c.out) && c.out[at] == '5' {
		c.connection.CountDenied()
	}
	return keepOpen
}

// rcpt answers one recipient.
func (c *session) rcpt(cmd *command) bool {
	switch {
	case !c.inMail && c.behaviour.RequireTLS && !c.secure:
		return c.reply(persona.ReplyNeedTLS)
	case !c.inMail:
		return c.badCommand("503 5.5.1 MAIL first")
	case !cmd.wellFormed || len(cmd.path) == 0:
		return c.badCommand("501 5.1.3 Bad recipient address syntax")
	case !c.utf8 && !asciiOnly(cmd.local):
		return c.reply(persona.ReplyNeedsUTF8)
	}
	c.values.To, c.values.User, c.values.Domain = cmd.path, cmd.local, cmd.domain
	rule := c.connection.CountRcpt(c.now)
	if mailDomain := c.rcptDomain(cmd.domain); mailDomain != nil && mailDomain.Persona == c.host.Persona {
		c.connection.CountOnRoute(c.server.referee, c.values.IP, mailDomain, c.now)
	}
	if c.behaviour.Fault != persona.FaultNone {
		if said, keepOpen := c.breakProtocol(); said {
			return keepOpen
		}
	}
	if wait := c.behaviour.RcptWait + c.connection.ReplyDelay(&c.behaviour.HiddenLimits, c.now); wait > 0 && !c.delayReply(cmd, wait) {
		return false
	}
	if rule == referee.RuleNone {
		rule = c.connection.CheckRecipient(&c.behaviour.HiddenLimits, c.now)
	}
	c.acceptAll = rule == referee.RuleAcceptAll
	if rule != referee.RuleNone && !c.acceptAll {
		return c.throttle(rule)
	}
	return c.answerRcpt(cmd)
}

// delayReply sends the earlier replies, and delays this one.
func (c *session) delayReply(cmd *command, wait time.Duration) bool {
	wait = c.server.scaled(wait)
	if wait == 0 {
		return true
	}
	// New input overwrites the line during the pause: copy it.
	*cmd = parse(append([]byte("RCPT "), cmd.arg...))
	c.values.To, c.values.User, c.values.Domain = cmd.path, cmd.local, cmd.domain
	return c.flush() && c.pause(wait)
}

// answerRcpt answers a recipient within the limits.
func (c *session) answerRcpt(cmd *command) bool {
	if c.behaviour.RefuseAt == persona.StageRcpt {
		return c.reply(persona.ReplyRefused)
	}
	mailDomain := c.rcptDomain(cmd.domain)
	switch {
	case mailDomain == nil || mailDomain.Persona != c.host.Persona:
		return c.reply(persona.ReplyRelayDenied)
	case c.behaviour.OneDomainOnly && c.firstDomain != nil && c.firstDomain != mailDomain:
		return c.reply(persona.ReplyOneDomain)
	case c.behaviour.MaxRcpts > 0 && c.connection.TransactionRcpts > c.behaviour.MaxRcpts:
		return c.reply(persona.ReplyTooManyRcpts)
	case c.behaviour.Greylisting != persona.GreyNone && !c.greyPasses(mailDomain, cmd):
		return c.reply(persona.ReplyGreylisted)
	}
	c.firstDomain = mailDomain
	turn, lasts := &c.behaviour.Turn, c.server.scaled(c.behaviour.Turn.For)
	if c.turn.active(c.now) {
		if turn.Accepts {
			return c.accept(persona.ReplyRcpt)
		}
		return c.refuse(persona.ReplyTurned)
	}
	before := c.accepted
	keepOpen := c.answer(c.behaviour.Shown(c.server.world.MailboxOf(mailDomain, cmd.local)))
	kind := persona.CountUnknown
	if c.accepted > before {
		kind = persona.CountAccepted
	}
	c.turn.count(turn, kind, c.now, lasts)
	return keepOpen
}

// answer replies with the state of a mailbox, as far as the persona reveals it.
func (c *session) answer(m persona.Mailbox) bool {
	if c.behaviour.RefusesName(c.values.User, c.otherBackEnd) {
		return c.refuse(persona.ReplyAbsent)
	}
	if c.behaviour.AcceptsAll || c.acceptAll || c.otherBackEnd && c.behaviour.BackEnds == persona.OneAcceptsAll {
		return c.accept(persona.ReplyRcpt)
	}
	if c.behaviour.AcceptsMost {
		switch m {
		case persona.Absent, persona.Present:
			return c.accept(persona.ReplyRcpt)
		case persona.Disabled:
			return c.refuse(persona.ReplyAbsent)
		}
	}
	switch m {
	case persona.Present:
		return c.accept(persona.ReplyRcpt)
	case persona.Full:
		return c.reply(persona.ReplyFull)
	case persona.Disabled:
		return c.refuse(persona.ReplyDisabled)
	case persona.Moved:
		return c.refuse(persona.ReplyMoved)
	}
	return c.refuse(persona.ReplyAbsent)
}

func (c *session) accept(s persona.ReplyKind) bool {
	c.accepted++
	return c.reply(s)
}

// refuse refuses a recipient, unless this is one refusal more than the persona
// tolerates.
func (c *session) refuse(s persona.ReplyKind) bool {
	if c.behaviour.Reply(s).Accepts {
		return c.accept(s)
	}
	rule := c.connection.CountRefusal(c.now)
	if rule == referee.RuleNone {
		rule = c.connection.CheckRefusal(&c.behaviour.HiddenLimits, c.now)
	}
	switch rule {
	case referee.RuleNone:
		return c.reply(s)
	case referee.RuleAcceptAll:
		return c.accept(persona.ReplyRcpt)
	}
	return c.throttle(rule)
}

// acceptAllAfterBlocks is how many recipients get the reply of a block before throttleAcceptAll accepts every recipient.
const acceptAllAfterBlocks = 5

// throttle answers a client that exceeds a limit. No reply looks like a missing
// mailbox.
func (c *session) throttle(rule referee.Rule) bool {
	switch rule {
	case referee.RuleConnectionUsed:
		return c.reply(persona.ReplyConnectionUsed) && false
	case referee.RuleTooManyRcpts:
		return c.reply(persona.ReplyTooManyRcpts)
	case referee.RuleTooFast:
		return c.reply(persona.ReplyTooFast)
	case referee.RuleTooManyRefusals:
		return c.reply(persona.ReplyTooManyErrors) && false
	}
	if c.behaviour.ThrottleMode == persona.ThrottleAcceptAll && c.connection.ThrottledCount() > acceptAllAfterBlocks {
		return c.accept(persona.ReplyRcpt)
	}
	return c.reply(persona.ReplyBlocked)
}

// rcptDomain finds the domain of a recipient. It remembers the last one, as
// recipients come sorted by domain.
func (c *session) rcptDomain(name []byte) *world.Domain {
	if len(c.rawDomain) > 0 && bytes.Equal(name, c.rawDomain) {
		return c.domain
	}
	c.rawDomain = append(c.rawDomain[:0], name...)
	c.domain = c.server.world.DomainOf(bytes.ToLower(name))
	return c.domain
}

// greyPasses reports that a recipient was first tried long enough ago.
func (c *session) greyPasses(mailDomain *world.Domain, cmd *command) bool {
	var key maphash.Hash
	key.SetSeed(c.server.grey.seed)
	if c.behaviour.Greylisting == persona.GreySource {
		maphash.WriteComparable(&key, c.host.Cluster)
	} else {
		key.WriteString(mailDomain.Name)
		key.WriteByte('@')
		key.Write(bytes.ToLower(cmd.local))
	}
	if c.behaviour.Greylisting != persona.GreyAddress {
		maphash.WriteComparable(&key, c.values.IP)
		key.Write(bytes.ToLower(c.from))
	}
	return c.server.grey.passes(key.Sum64(), c.now, c.server.scaled(c.behaviour.GreyWait))
}
