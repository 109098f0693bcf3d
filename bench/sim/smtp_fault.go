package sim

import "time"

// rambleLines bounds a banner that never ends.
const rambleLines = 1 << 14

// misbehave does at a recipient what a broken host does. said is false when
// this recipient is answered after all.
func (c *session) misbehave() (said, goOn bool) {
	switch c.habit.fault {
	case faultGarbage:
		c.out = append(c.out, "\x16\x03\xff\x00\x80 \xfe 2 5 O k?\r\n"...)
		return true, c.drain()
	case faultMidClose:
		if c.visit.rcpts < 3 {
			return false, true
		}
		return true, false
	case faultReset:
		c.flush()
		c.visit.leave()
		c.torn = true
		if r, ok := c.wire.(interface{ SetLinger(int) error }); ok {
			r.SetLinger(0) // the close that follows is a reset
		}
		return true, false
	case faultSilent:
		c.flush()
		c.pause(c.server.scaled(muteTime))
		return true, false
	}
	return false, true
}

// ramble sends continuation lines for ever, or nearly so.
func (c *session) ramble() {
	for range rambleLines {
		c.line("220-" + c.host.Name + " has something to say before it begins, and this is not the end of it")
		if !c.flush() || !c.pause(c.server.scaled(time.Second)) {
			return
		}
	}
}
