package sim

import (
	"net/netip"
	"strconv"
	"strings"
)

// replyKind is an occasion for which each persona has its own text.
type replyKind uint8

const (
	replyBanner         replyKind = iota
	replyEhlo                     // first line of the EHLO reply, without code
	replyMail                     // MAIL FROM accepted
	replyRcpt                     // recipient accepted
	replyAbsent                   // no such mailbox
	replyFull                     // over quota
	replyDisabled                 // disabled mailbox
	replyMoved                    // moved mailbox
	replyRelayDenied              // not one of our domains
	replyTooManyRcpts             // no more recipients in this transaction
	replyOneDomain                // no second domain in this transaction
	replyTooManyErrors            // too many refusals on this connection; closes
	replyConnectionUsed           // enough transactions or recipients on this connection; closes
	replyTooManyConns             // too many connections; closes
	replyTooFast                  // too many recipients in this minute
	replyBlocked                  // too many unknown recipients in this hour
	replyGreylisted               // first contact, retry later
	replyNeedTLS                  // STARTTLS first
	replyRefused                  // the refusal at behaviour.refuseAt
	replyNoNullSender             // MAIL FROM:<> refused
	replyEarlyTalk                // the client spoke before the banner; closes
	replyNeedsUTF8                // non-ASCII recipient without SMTPUTF8
	replyKinds
)

// texts are a persona's replies: complete reply lines, "\n" between the lines
// of one reply. Words in braces are filled in: {to} {user} {domain} {from} {ip}
// {host} {id}.
type texts map[replyKind]string

// defaultTexts are the replies of a persona without its own.
func defaultTexts() texts {
	return texts{
		replyBanner:         "220 {host} ESMTP ready",
		replyEhlo:           "{host} greets you",
		replyMail:           "250 2.1.0 Sender accepted",
		replyRcpt:           "250 2.1.5 Recipient accepted",
		replyAbsent:         "550 5.1.1 <{to}>: no such user here",
		replyFull:           "552 5.2.2 <{to}>: mailbox is full",
		replyDisabled:       "550 5.2.1 <{to}>: this mailbox has been disabled",
		replyMoved:          "551 5.1.6 <{to}>: user has moved, please try <{user}@elsewhere.example>",
		replyRelayDenied:    "550 5.7.1 <{to}>: relaying denied",
		replyTooManyRcpts:   "452 4.5.3 Too many recipients",
		replyOneDomain:      "451 4.5.3 One recipient domain at a time, please send the rest separately",
		replyTooManyErrors:  "421 4.7.0 {host} Too many errors on this connection, closing",
		replyConnectionUsed: "421 4.7.0 {host} Enough for this connection, please open another",
		replyTooManyConns:   "421 4.7.0 {host} Too many connections from {ip}",
		replyTooFast:        "450 4.7.1 Recipient rate of {ip} is too high, please slow down",
		replyBlocked:        "554 5.7.1 Service refused: {ip} has asked for too many unknown recipients",
		replyGreylisted:     "450 4.7.1 <{to}>: greylisted, please come back later",
		replyNeedTLS:        "530 5.7.0 Must issue a STARTTLS command first",
		replyRefused:        "554 5.7.1 Client host [{ip}] refused",
		replyNoNullSender:   "550 5.7.1 Null sender is not accepted here",
		replyEarlyTalk:      "554 5.5.1 {host} Protocol error: you spoke before the banner",
		replyNeedsUTF8:      "553 5.6.7 Address needs SMTPUTF8",
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

// compiledReplies are all compiled texts of a persona.
type compiledReplies [replyKinds]reply

// slotOf returns the slot of a name in braces.
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

// compileReply turns a text into a reply. An unknown slot is a bug of the table.
func compileReply(text string) reply {
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

// compileReplies compiles t, with defaultTexts for what it lacks.
func compileReplies(t texts) *compiledReplies {
	var all compiledReplies
	for s, text := range defaultTexts() {
		all[s] = compileReply(text)
	}
	for s, text := range t {
		all[s] = compileReply(text)
	}
	return &all
}

// replyValues are the values for the slots. The slices are borrowed from the
// session and valid until its next command.
type replyValues struct {
	to, user, domain, from []byte
	ip                     netip.Addr
	host                   string
	id                     uint64
}

// reply is the reply of a kind.
func (b *behaviour) reply(kind replyKind) *reply { return &b.replies[kind] }

// append appends r with its slots filled.
func (r *reply) append(dst []byte, f *replyValues) []byte {
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
			dst = strconv.AppendUint(append(dst, '4'), f.id, 36) // the digit keeps it from looking like a word
		}
	}
	return dst
}

// Refuses reports that the persona's final reply for a mailbox in state m is a permanent refusal (5xx) of the recipient.
func (p *Persona) Refuses(m Mailbox) bool {
	b := &p.behaviour
	s := replyRcpt
	switch shown := b.shown(m); {
	case b.acceptsAll:
	case b.acceptsMost && shown == Absent, shown == Present:
	case b.acceptsMost && shown == Disabled, shown == Absent:
		s = replyAbsent
	case shown == Full:
		s = replyFull
	case shown == Disabled:
		s = replyDisabled
	case shown == Moved:
		s = replyMoved
	}
	return b.reply(s).pieces[0].text[0] == '5'
}
