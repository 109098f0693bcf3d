package world

import (
	"slices"
	"strings"
	"unicode/utf8"

	"probity/bench/sim/persona"
)

// byDNS holds the outcomes of the oddities that decide without SMTP.
var byDNS = map[persona.Oddity][]persona.Outcome{
	persona.NXDomain:     {{Status: persona.StatusInvalid, Reason: "domain_not_found"}},
	persona.NoRecords:    {{Status: persona.StatusInvalid, Reason: "no_mail_server"}},
	persona.NullMX:       {{Status: persona.StatusInvalid, Reason: "null_mx"}},
	persona.ServFail:     {{Status: persona.StatusUnknown, Reason: "dns_error"}},
	persona.HostServFail: {{Status: persona.StatusUnknown, Reason: "dns_error"}},
	persona.CNAMELoop:    {{Status: persona.StatusUnknown, Reason: "dns_error"}},
	persona.Unroutable:   {{Status: persona.StatusInvalid, Reason: "unroutable_mx"}},
	persona.DanglingMX:   {{Status: persona.StatusInvalid, Reason: "unroutable_mx"}},
}

var (
	badSyntax   = []persona.Outcome{{Status: persona.StatusInvalid, Reason: "invalid_syntax"}}
	noDomain    = []persona.Outcome{{Status: persona.StatusInvalid, Reason: "domain_not_found"}}
	noRecords   = []persona.Outcome{{Status: persona.StatusInvalid, Reason: "no_mail_server"}}
	noMailUsers = []persona.Outcome{{Status: persona.StatusUnknown, Reason: "relay_denied"},
		{Status: persona.StatusUnknown, Reason: "blocked"}}
)

// outcomesByMailbox lists the honest outcomes for each state of a mailbox at p.
func outcomesByMailbox(p *persona.Persona) *[persona.MailboxStates][]persona.Outcome {
	var table [persona.MailboxStates][]persona.Outcome
	for m := range persona.MailboxStates {
		if decided, ok := byDNS[p.Oddity]; ok {
			table[m] = decided
			continue
		}
		table[m] = p.Expect(m)
	}
	return &table
}

// Truth lists the outcomes that an honest verifier may give for an address of a
// list. White space around it and case are ignored. Nil for a blank address,
// which has no verdict. The slice must not be changed.
func (w *World) Truth(address string) []persona.Outcome {
	address = strings.TrimFunc(address, isPadding)
	if address == "" {
		return nil
	}
	local, domain, ok := split(address)
	if !ok {
		return badSyntax
	}
	d := w.byName[domain]
	if d == nil {
		return w.unknownDomain(domain)
	}
	m := w.MailboxOf(d, []byte(local))
	said := w.outcomes[d.Persona][m]
	if !plainASCII(local) && !d.Persona.SMTPUTF8 {
		said = withoutSMTPUTF8(said)
	}
	if breaksMailboxRule(d, local) {
		return append([]persona.Outcome{{Status: persona.StatusInvalid, Reason: "provider_syntax"}}, said...)
	}
	return d.byList(said, []byte(local))
}

// withoutSMTPUTF8 keeps the outcomes that need no reply of the server: without
// SMTPUTF8 (RFC 6531 section 3.1) it cannot be probed.
func withoutSMTPUTF8(said []persona.Outcome) []persona.Outcome {
	left := []persona.Outcome{}
	for _, o := range said {
		switch o.Reason {
		case "", "mailbox_not_found", "mailbox_disabled", "mailbox_full", "catch_all", "accepted_unconfirmed":
		default:
			left = append(left, o)
		}
	}
	if len(left) == len(said) && said[0].Status != persona.StatusUnknown {
		return said
	}
	return append([]persona.Outcome{{Status: persona.StatusUnknown, Reason: "smtputf8_unsupported"}}, left...)
}

// unknownDomain lists the outcomes for a name without mailboxes: most do not exist.
func (w *World) unknownDomain(domain string) []persona.Outcome {
	switch r, has := w.names[domain]; {
	case has && len(r.Addrs) > 0:
		return noMailUsers
	case has:
		return noRecords
	}
	if _, nonTerminal := w.nonTerminals[domain]; nonTerminal {
		return noRecords
	}
	return noDomain
}

// byList changes outcomes by the lists of domains and role names: disposable wins
// over all but INVALID; role and typo need an acceptance.
func (d *Domain) byList(said []persona.Outcome, local []byte) []persona.Outcome {
	role := isRole(local)
	if !d.disposable && !d.typo && !role {
		return said
	}
	said = slices.Clone(said)
	for i, o := range said {
		switch {
		case d.disposable && o.Status != persona.StatusInvalid:
			said[i] = persona.Outcome{Status: persona.StatusRisky, Reason: "disposable"}
		case role && o.Status == persona.StatusValid:
			said[i] = persona.Outcome{Status: persona.StatusRisky, Reason: "role_account"}
		case d.typo && o.Status == persona.StatusValid:
			said[i] = persona.Outcome{Status: persona.StatusRisky, Reason: "possible_typo"}
		}
	}
	return said
}

// breaksMailboxRule reports local parts that gmail.com does not allow: without
// the tag, a name has 6 to 30 letters, digits and dots.
func breaksMailboxRule(d *Domain, local string) bool {
	if !d.foldsDots {
		return false
	}
	name, _, _ := strings.Cut(strings.ToLower(local), "+")
	n := 0
	for _, c := range []byte(name) {
		switch {
		case c == '.':
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			n++
		default:
			return true
		}
	}
	return n < 6 || n > 30
}

// isPadding reports characters that list editors leave around an address.
func isPadding(r rune) bool {
	switch r {
	case ' ', '\t', '\r', '\n', '\v', '\f', 0x85, 0xA0, 0xFEFF, 0x200B, 0x200C, 0x200D, 0x2060, 0x3000:
		return true
	}
	return false
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
