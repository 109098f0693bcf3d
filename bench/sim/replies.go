package sim

import (
	"net/netip"
	"strconv"
	"strings"
)

// say names the occasions on which a server speaks in words of its own.
type say uint8

const (
	sayBanner   say = iota
	sayEhlo         // first line of the EHLO reply, without code
	sayMail         // MAIL FROM accepted
	sayRcpt         // recipient accepted
	sayAbsent       // no such mailbox
	sayFull         // over quota
	sayDisabled     // switched off
	sayMoved        // lives elsewhere
	sayRelay        // not one of our domains
	sayTooMany      // no more recipients in this transaction
	sayDomains      // no second domain in this transaction
	sayErrors       // too many refusals on this connection; closes
	saySpent        // enough transactions or recipients on this connection; closes
	sayCrowded      // too many connections; closes
	sayRate         // too many recipients in this minute
	sayBlocked      // too many unknown recipients in this hour
	sayGrey         // first contact, come back later
	sayNeedTLS      // STARTTLS first
	sayRefused      // the refusal of habit.refuseAt
	sayNoNull       // MAIL FROM:<> refused
	sayEarly        // the client spoke before the banner; closes
	sayUTF8         // non-ASCII recipient without SMTPUTF8
	says
)

// texts is what a persona says on each occasion: complete reply lines, "\n"
// between the lines of one reply. Words in braces are filled in: {to} {user}
// {domain} {from} {ip} {host} {id}.
type texts map[say]string

// plainTexts is what a persona says where it has no words of its own.
func plainTexts() texts {
	return texts{
		sayBanner:   "220 {host} ESMTP ready",
		sayEhlo:     "{host} greets you",
		sayMail:     "250 2.1.0 Sender accepted",
		sayRcpt:     "250 2.1.5 Recipient accepted",
		sayAbsent:   "550 5.1.1 <{to}>: no such user here",
		sayFull:     "552 5.2.2 <{to}>: mailbox is full",
		sayDisabled: "550 5.2.1 <{to}>: this mailbox has been disabled",
		sayMoved:    "551 5.1.6 <{to}>: user has moved, please try <{user}@elsewhere.example>",
		sayRelay:    "550 5.7.1 <{to}>: relaying denied",
		sayTooMany:  "452 4.5.3 Too many recipients",
		sayDomains:  "451 4.5.3 One recipient domain at a time, please send the rest separately",
		sayErrors:   "421 4.7.0 {host} Too many errors on this connection, closing",
		saySpent:    "421 4.7.0 {host} Enough for this connection, please open another",
		sayCrowded:  "421 4.7.0 {host} Too many connections from {ip}",
		sayRate:     "450 4.7.1 Recipient rate of {ip} is too high, please slow down",
		sayBlocked:  "554 5.7.1 Service refused: {ip} has asked for too many unknown recipients",
		sayGrey:     "450 4.7.1 <{to}>: greylisted, please come back later",
		sayNeedTLS:  "530 5.7.0 Must issue a STARTTLS command first",
		sayRefused:  "554 5.7.1 Client host [{ip}] refused",
		sayNoNull:   "550 5.7.1 Null sender is not accepted here",
		sayEarly:    "554 5.5.1 {host} Protocol error: you spoke before the banner",
		sayUTF8:     "553 5.6.7 Address needs SMTPUTF8",
	}
}

// slot is a place in a reply that the session fills in.
type slot uint8

const (
	slotNone slot = iota
	slotTo
	slotUser
	slotDomain
	slotFrom
	slotIP
	slotHost
	slotID
)

// piece is literal text and the slot that follows it.
type piece struct {
	text string
	slot slot
}

// reply is a compiled text: appending one allocates nothing.
type reply struct {
	pieces []piece
	closes bool // 421: the server closes the connection (RFC 5321 section 3.8)
}

// phrases are all compiled texts of a persona.
type phrases [says]reply

// slotOf names the slots as they stand in a text.
func slotOf(name string) (slot, bool) {
	switch name {
	case "to":
		return slotTo, true
	case "user":
		return slotUser, true
	case "domain":
		return slotDomain, true
	case "from":
		return slotFrom, true
	case "ip":
		return slotIP, true
	case "host":
		return slotHost, true
	case "id":
		return slotID, true
	}
	return slotNone, false
}

// compile turns a text into a reply. The table is ours, so an unknown slot is
// our bug.
func compile(text string) reply {
	text = strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"
	r := reply{closes: strings.HasPrefix(text, "421")}
	for {
		literal, rest, found := strings.Cut(text, "{")
		if !found {
			r.pieces = append(r.pieces, piece{text: text})
			return r
		}
		name, after, _ := strings.Cut(rest, "}")
		s, ok := slotOf(name)
		if !ok {
			panic("BUG: no such slot in a persona's text: {" + name + "}")
		}
		r.pieces = append(r.pieces, piece{literal, s})
		text = after
	}
}

// compileAll fills the gaps of t with the plain texts.
func compileAll(t texts) *phrases {
	var all phrases
	for s, text := range plainTexts() {
		all[s] = compile(text)
	}
	for s, text := range t {
		all[s] = compile(text)
	}
	return &all
}

// fillings are the values for the slots. The slices are borrowed from the
// session and valid until its next command.
type fillings struct {
	to, user, domain, from []byte
	ip                     netip.Addr
	host                   string
	id                     uint64
}

// appendReply appends r with its slots filled.
func appendReply(dst []byte, r *reply, f *fillings) []byte {
	for i := range r.pieces {
		dst = append(dst, r.pieces[i].text...)
		switch r.pieces[i].slot {
		case slotTo:
			dst = append(dst, f.to...)
		case slotUser:
			dst = append(dst, f.user...)
		case slotDomain:
			dst = append(dst, f.domain...)
		case slotFrom:
			dst = append(dst, f.from...)
		case slotIP:
			dst = f.ip.AppendTo(dst)
		case slotHost:
			dst = append(dst, f.host...)
		case slotID:
			dst = strconv.AppendUint(append(dst, '4'), f.id, 36) // the digit keeps it from being a word
		}
	}
	return dst
}

// Refuses tells whether the persona's last word on a mailbox in state m is a permanent refusal (5xx) of the recipient.
func (p *Persona) Refuses(m Mailbox) bool {
	h := &p.habit
	s := sayRcpt
	switch shown := h.shown(m); {
	case h.takesAll:
	case h.picky && shown == Absent, shown == Present:
	case h.picky && shown == Disabled, shown == Absent:
		s = sayAbsent
	case shown == Full:
		s = sayFull
	case shown == Disabled:
		s = sayDisabled
	case shown == Moved:
		s = sayMoved
	}
	return h.said[s].pieces[0].text[0] == '5'
}
