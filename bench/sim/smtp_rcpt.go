package sim

import (
	"bytes"
	"time"
)

// rcpt answers one recipient: the command that all this is about.
func (c *session) rcpt(cmd *command) bool {
	switch {
	case !c.inMail && c.habit.needTLS && !c.secure:
		return c.say(sayNeedTLS)
	case !c.inMail:
		return c.senseless("503 5.5.1 MAIL first")
	case !cmd.wellFormed || len(cmd.path) == 0:
		return c.senseless("501 5.1.3 Bad recipient address syntax")
	case !c.utf8 && !asciiOnly(cmd.local):
		return c.say(sayUTF8)
	}
	c.fill.to, c.fill.user, c.fill.domain = cmd.path, cmd.local, cmd.domain
	ruled := c.visit.rcpt(c.now)
	if home := c.homeOf(cmd.domain); home != nil && home.Persona == c.host.Persona {
		c.visit.asks(c.server.referee, c.fill.ip, home, c.now)
	}
	if c.habit.fault != faultNone {
		if said, goOn := c.misbehave(); said {
			return goOn
		}
	}
	if wait := c.habit.rcptWait + c.visit.stickiness(&c.habit.temper, c.now); wait > 0 && !c.dawdle(cmd, wait) {
		return false
	}
	if ruled == fine {
		ruled = c.visit.endure(&c.habit.temper, c.server, c.now)
	}
	if c.silent = ruled == silent; ruled != fine && !c.silent {
		return c.punish(ruled)
	}
	return c.consider(cmd)
}

// dawdle keeps the client waiting for one reply, after it has the earlier ones.
func (c *session) dawdle(cmd *command, wait time.Duration) bool {
	if wait = c.server.scaled(wait); wait == 0 {
		return true
	}
	// The line is about to be overwritten by what comes in meanwhile.
	*cmd = parse(append([]byte("RCPT "), cmd.arg...))
	c.fill.to, c.fill.user, c.fill.domain = cmd.path, cmd.local, cmd.domain
	return c.flush() && c.pause(wait)
}

// consider answers a recipient whose client has behaved.
func (c *session) consider(cmd *command) bool {
	if c.habit.refuseAt == stageRcpt {
		return c.say(sayRefused)
	}
	home := c.homeOf(cmd.domain)
	switch {
	case home == nil || home.Persona != c.host.Persona:
		return c.say(sayRelay)
	case c.habit.oneDomain && c.firstHome != nil && c.firstHome != home:
		return c.say(sayDomains)
	case c.habit.maxRcpts > 0 && c.visit.group > c.habit.maxRcpts:
		return c.say(sayTooMany)
	case c.habit.grey != greyNone && !c.greyPasses(home, cmd):
		return c.say(sayGrey)
	}
	c.firstHome = home
	return c.answer(c.habit.shown(c.server.world.mailboxOf(home, cmd.local)))
}

// answer tells the state of a mailbox, as far as the persona does.
func (c *session) answer(m Mailbox) bool {
	if c.habit.takesAll || c.silent {
		return c.accept()
	}
	if c.habit.picky {
		switch m {
		case Absent, Present:
			return c.accept()
		case Disabled:
			return c.refuse(sayAbsent)
		}
	}
	switch m {
	case Present:
		return c.accept()
	case Full:
		return c.say(sayFull)
	case Disabled:
		return c.refuse(sayDisabled)
	case Moved:
		return c.refuse(sayMoved)
	}
	return c.refuse(sayAbsent)
}

func (c *session) accept() bool {
	c.taken++
	return c.say(sayRcpt)
}

// refuse says that a recipient is not to be had, unless this is one refusal
// more than the persona bears.
func (c *session) refuse(s say) bool {
	ruled := c.visit.refuse(c.now, c.server.scaled(time.Hour))
	if ruled == fine {
		ruled = c.visit.resent(&c.habit.temper, c.server, c.now)
	}
	switch ruled {
	case fine:
		return c.say(s)
	case silent:
		return c.accept()
	}
	return c.punish(ruled)
}

// silentAfter is how many blocks a persona that then accepts silently admits to.
const silentAfter = 5

// punish answers a client that asks for more than the persona tolerates. None
// of it looks like a missing mailbox.
func (c *session) punish(ruled ruling) bool {
	switch ruled {
	case spent:
		return c.say(saySpent) && false
	case tooMany:
		return c.say(sayTooMany)
	case tooFast:
		return c.say(sayRate)
	case tooManyBad:
		return c.say(sayErrors) && false
	}
	if c.habit.punishment == punishAccept && c.visit.punishedSoFar() > silentAfter {
		return c.accept()
	}
	return c.say(sayBlocked)
}

// homeOf finds the domain of a recipient; the last one is remembered, as lists
// come sorted by domain.
func (c *session) homeOf(name []byte) *Domain {
	if len(c.rawDomain) > 0 && bytes.Equal(name, c.rawDomain) {
		return c.domain
	}
	c.rawDomain = append(c.rawDomain[:0], name...)
	c.domain = c.server.world.domainOf(bytes.ToLower(name))
	return c.domain
}

// greyPasses tells whether a recipient has been asked for before, long enough ago.
func (c *session) greyPasses(home *Domain, cmd *command) bool {
	key := hashFold(home.key, cmd.local)
	if c.habit.grey == greySource {
		key = uint64(c.host.Cluster)
	}
	if c.habit.grey != greyAddress {
		source := c.fill.ip.As16()
		key = hashFold(key, c.from)
		for _, b := range source {
			key = step(key, b)
		}
	}
	return c.server.grey.passes(mix(key), c.now, c.server.scaled(c.habit.greyWait))
}
