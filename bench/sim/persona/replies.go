package persona

import (
	"net/netip"
	"strconv"
	"strings"
)

// ReplyKind is an occasion for which each persona has its own text.
type ReplyKind uint8

// The occasions.
const (
	ReplyBanner         ReplyKind = iota
	ReplyEhlo                     // first line of the EHLO reply, without code
	ReplyMail                     // MAIL FROM accepted
	ReplyRcpt                     // recipient accepted
	ReplyAbsent                   // no such mailbox
	ReplyFull                     // over quota
	ReplyDisabled                 // disabled mailbox
	ReplyMoved                    // moved mailbox
	ReplyRelayDenied              // not one of our domains
	ReplyTooManyRcpts             // no more recipients in this transaction
	ReplyOneDomain                // no second domain in this transaction
	ReplyTooManyErrors            // too many refusals on this connection; closes
	ReplyConnectionUsed           // enough transactions or recipients on this connection; closes
	ReplyTooManyConns             // too many connections; closes
	ReplyTooFast                  // too many recipients in this minute
	ReplyBlocked                  // too many unknown recipients in this hour
	ReplyGreylisted               // first contact, retry later
	ReplyNeedTLS                  // STARTTLS first
	ReplyRefused                  // the refusal at Behaviour.RefuseAt
	ReplyNoNullSender             // MAIL FROM:<> refused
	ReplyEarlyTalk                // the client spoke before the banner; closes
	ReplyNeedsUTF8                // non-ASCII recipient without SMTPUTF8
	ReplyTurned                   // the refusal of a host that has turned
	replyKinds                    // how many there are
)

// texts are a persona's replies: complete reply lines, "\n" between the lines
// of one reply. Words in braces are filled in: {to} {user} {domain} {from} {ip}
// {host} {id}.
type texts map[ReplyKind]string

// defaultTexts are the replies of a persona without its own.
func defaultTexts() texts {
	return texts{
		ReplyBanner:         "220 {host} ESMTP ready",
		ReplyEhlo:           "{host} greets you",
		ReplyMail:           "250 2.1.0 Sender accepted",
		ReplyRcpt:           "250 2.1.5 Recipient accepted",
		ReplyAbsent:         "550 5.1.1 <{to}>: no such user here",
		ReplyFull:           "552 5.2.2 <{to}>: mailbox is full",
		ReplyDisabled:       "550 5.2.1 <{to}>: this mailbox has been disabled",
		ReplyMoved:          "551 5.1.6 <{to}>: user has moved, please try <{user}@elsewhere.example>",
		ReplyRelayDenied:    "550 5.7.1 <{to}>: relaying denied",
		ReplyTooManyRcpts:   "452 4.5.3 Too many recipients",
		ReplyOneDomain:      "451 4.5.3 One recipient domain at a time, please send the rest separately",
		ReplyTooManyErrors:  "421 4.7.0 {host} Too many errors on this connection, closing",
		ReplyConnectionUsed: "421 4.7.0 {host} Enough for this connection, please open another",
		ReplyTooManyConns:   "421 4.7.0 {host} Too many connections from {ip}",
		ReplyTooFast:        "450 4.7.1 Recipient rate of {ip} is too high, please slow down",
		ReplyBlocked:        "554 5.7.1 Service refused: {ip} has asked for too many unknown recipients",
		ReplyGreylisted:     "450 4.7.1 <{to}>: greylisted, please come back later",
		ReplyNeedTLS:        "530 5.7.0 Must issue a STARTTLS command first",
		ReplyRefused:        "554 5.7.1 Client host [{ip}] refused",
		ReplyNoNullSender:   "550 5.7.1 Null sender is not accepted here",
		ReplyEarlyTalk:      "554 5.5.1 {host} Protocol error: you spoke before the banner",
		ReplyNeedsUTF8:      "553 5.6.7 Address needs SMTPUTF8",
		ReplyTurned:         "550 5.1.1 <{to}>: no such user here",
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

// Reply is a compiled text: appending one allocates nothing.
type Reply struct {
	pieces []piece
	Closes bool // 421: the server closes the connection (RFC 5321 section 3.8)
	// Accepts means that the code accepts (RFC 5321 section 4.2.1: 2yz), whatever the words say.
	Accepts bool
}

// compiledReplies are all compiled texts of a persona.
type compiledReplies [replyKinds]Reply

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
func compileReply(text string) Reply {
	text = strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"
	r := Reply{Closes: strings.HasPrefix(text, "421"), Accepts: strings.HasPrefix(text, "2")}
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

// ReplyValues are the values for the slots. The slices are borrowed from the
// session and valid until its next command.
type ReplyValues struct {
	To, User, Domain, From []byte
	IP                     netip.Addr
	Host                   string
	ID                     uint64
}

// Reply is the reply of a kind.
func (b *Behaviour) Reply(kind ReplyKind) *Reply { return &b.replies[kind] }

// Append appends r with its slots filled.
func (r *Reply) Append(dst []byte, f *ReplyValues) []byte {
	for i := range r.pieces {
		dst = append(dst, r.pieces[i].text...)
		switch r.pieces[i].slot {
		case slotTo:
			dst = append(dst, f.To...)
		case slotUser:
			dst = append(dst, f.User...)
		case slotDomain:
			dst = append(dst, f.Domain...)
		case slotFrom:
			dst = append(dst, f.From...)
		case slotIP:
			dst = f.IP.AppendTo(dst)
		case slotHost:
			dst = append(dst, f.Host...)
		case slotID:
			dst = strconv.AppendUint(append(dst, '4'), f.ID, 36) // the digit keeps it from looking like a word
		}
	}
	return dst
}

// Refuses reports whether the persona's final reply for a mailbox in state m is a permanent refusal (5xx) of the
// recipient.
func (p *Persona) Refuses(m Mailbox) bool {
	b := &p.Behaviour
	s := ReplyRcpt
	switch shown := b.Shown(m); {
	case b.AcceptsAll:
	case b.AcceptsMost && shown == Absent, shown == Present:
	case b.AcceptsMost && shown == Disabled, shown == Absent:
		s = ReplyAbsent
	case shown == Full:
		s = ReplyFull
	case shown == Disabled:
		s = ReplyDisabled
	case shown == Moved:
		s = ReplyMoved
	}
	return b.Reply(s).pieces[0].text[0] == '5'
}
