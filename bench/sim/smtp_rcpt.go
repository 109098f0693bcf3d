package sim

import (
	"bytes"
	"time"
)

// countedRcpt answers a recipient and counts it if the reply is a 5xx.
func (c *session) countedRcpt(cmd *command) bool {
	at := len(c.out)
	keepOpen := c.rcpt(cmd)
	if at > len(c.out) {
		at = 0 // earlier replies have been sent
	}
	if at < len(c.out) && c.out[at] == '5' {
		c.connection.countDenied()
	}
	return keepOpen
}

// rcpt answers one recipient.
func (c *session) rcpt(cmd *command) bool {
	switch {
	case !c.inMail && c.behaviour.requireTLS && !c.secure:
		return c.reply(replyNeedTLS)
	case !c.inMail:
		return c.badCommand("503 5.5.1 MAIL first")
	case !cmd.wellFormed || len(cmd.path) == 0:
		return c.badCommand("501 5.1.3 Bad recipient address syntax")
	case !c.utf8 && !asciiOnly(cmd.local):
		return c.reply(replyNeedsUTF8)
	}
	c.values.to, c.values.user, c.values.domain = cmd.path, cmd.local, cmd.domain
	rule := c.connection.countRcpt(c.now)
	if mailDomain := c.rcptDomain(cmd.domain); mailDomain != nil && mailDomain.Persona == c.host.Persona {
		c.connection.countOnRoute(c.server.referee, c.values.ip, mailDomain, c.now)
	}
	if c.behaviour.fault != faultNone {
		if said, keepOpen := c.breakProtocol(); said {
			return keepOpen
		}
	}
	if wait := c.behaviour.rcptWait + c.connection.replyDelay(&c.behaviour.hiddenLimits, c.now); wait > 0 && !c.delayReply(cmd, wait) {
		return false
	}
	if rule == ruleNone {
		rule = c.connection.checkRecipient(&c.behaviour.hiddenLimits, c.now)
	}
	if c.acceptAll = rule == ruleAcceptAll; rule != ruleNone && !c.acceptAll {
		return c.throttle(rule)
	}
	return c.answerRcpt(cmd)
}

// delayReply sends the earlier replies, and delays this one.
func (c *session) delayReply(cmd *command, wait time.Duration) bool {
	if wait = c.server.scaled(wait); wait == 0 {
		return true
	}
	// New input overwrites the line during the pause: copy it.
	*cmd = parse(append([]byte("RCPT "), cmd.arg...))
	c.values.to, c.values.user, c.values.domain = cmd.path, cmd.local, cmd.domain
	return c.flush() && c.pause(wait)
}

// answerRcpt answers a recipient within the limits.
func (c *session) answerRcpt(cmd *command) bool {
	if c.behaviour.refuseAt == stageRcpt {
		return c.reply(replyRefused)
	}
	mailDomain := c.rcptDomain(cmd.domain)
	switch {
	case mailDomain == nil || mailDomain.Persona != c.host.Persona:
		return c.reply(replyRelayDenied)
	case c.behaviour.oneDomainOnly && c.firstDomain != nil && c.firstDomain != mailDomain:
		return c.reply(replyOneDomain)
	case c.behaviour.maxRcpts > 0 && c.connection.txRcpts > c.behaviour.maxRcpts:
		return c.reply(replyTooManyRcpts)
	case c.behaviour.greylisting != greyNone && !c.greyPasses(mailDomain, cmd):
		return c.reply(replyGreylisted)
	}
	c.firstDomain = mailDomain
	return c.answer(c.behaviour.shown(c.server.world.mailboxOf(mailDomain, cmd.local)))
}

// answer replies with the state of a mailbox, as far as the persona reveals it.
func (c *session) answer(m Mailbox) bool {
	if c.behaviour.acceptsAll || c.acceptAll {
		return c.accept()
	}
	if c.behaviour.acceptsMost {
		switch m {
		case Absent, Present:
			return c.accept()
		case Disabled:
			return c.refuse(replyAbsent)
		}
	}
	switch m {
	case Present:
		return c.accept()
	case Full:
		return c.reply(replyFull)
	case Disabled:
		return c.refuse(replyDisabled)
	case Moved:
		return c.refuse(replyMoved)
	}
	return c.refuse(replyAbsent)
}

func (c *session) accept() bool {
	c.accepted++
	return c.reply(replyRcpt)
}

// refuse refuses a recipient, unless this is one refusal more than the persona
// tolerates.
func (c *session) refuse(s replyKind) bool {
	rule := c.connection.countRefusal(c.now)
	if rule == ruleNone {
		rule = c.connection.checkRefusal(&c.behaviour.hiddenLimits, c.now)
	}
	switch rule {
	case ruleNone:
		return c.reply(s)
	case ruleAcceptAll:
		return c.accept()
	}
	return c.throttle(rule)
}

// acceptAllAfterBlocks is how many recipients get the reply of a block before throttleAcceptAll accepts every recipient.
const acceptAllAfterBlocks = 5

// throttle answers a client that exceeds a limit. No reply looks like a missing
// mailbox.
func (c *session) throttle(rule replyRule) bool {
	switch rule {
	case ruleConnectionUsed:
		return c.reply(replyConnectionUsed) && false
	case ruleTooManyRcpts:
		return c.reply(replyTooManyRcpts)
	case ruleTooFast:
		return c.reply(replyTooFast)
	case ruleTooManyRefusals:
		return c.reply(replyTooManyErrors) && false
	}
	if c.behaviour.throttleMode == throttleAcceptAll && c.connection.throttledCount() > acceptAllAfterBlocks {
		return c.accept()
	}
	return c.reply(replyBlocked)
}

// rcptDomain finds the domain of a recipient. It remembers the last one, as
// recipients come sorted by domain.
func (c *session) rcptDomain(name []byte) *Domain {
	if len(c.rawDomain) > 0 && bytes.Equal(name, c.rawDomain) {
		return c.domain
	}
	c.rawDomain = append(c.rawDomain[:0], name...)
	c.domain = c.server.world.domainOf(bytes.ToLower(name))
	return c.domain
}

// greyPasses reports that a recipient was first tried long enough ago.
func (c *session) greyPasses(mailDomain *Domain, cmd *command) bool {
	key := hashFold(mailDomain.key, cmd.local)
	if c.behaviour.greylisting == greySource {
		key = uint64(c.host.Cluster)
	}
	if c.behaviour.greylisting != greyAddress {
		source := c.values.ip.As16()
		key = hashFold(key, c.from)
		for _, b := range source {
			key = hashByte(key, b)
		}
	}
	return c.server.grey.passes(mixBits(key), c.now, c.server.scaled(c.behaviour.greyWait))
}
