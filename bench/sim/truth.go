package sim

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// byDNS holds the outcomes of the oddities that decide without SMTP.
var byDNS = map[Oddity][]Outcome{
	NXDomain:     {{statusInvalid, "domain_not_found"}},
	NoRecords:    {{statusInvalid, "no_mail_server"}},
	NullMX:       {{statusInvalid, "null_mx"}},
	ServFail:     {{statusUnknown, "dns_error"}},
	HostServFail: {{statusUnknown, "dns_error"}},
	CNAMELoop:    {{statusUnknown, "dns_error"}},
	Unroutable:   {{statusInvalid, "unroutable_mx"}},
	DanglingMX:   {{statusInvalid, "unroutable_mx"}},
}

var (
	badSyntax   = []Outcome{{statusInvalid, "invalid_syntax"}}
	noDomain    = []Outcome{{statusInvalid, "domain_not_found"}}
	noRecords   = []Outcome{{statusInvalid, "no_mail_server"}}
	noMailUsers = []Outcome{{statusUnknown, "relay_denied"}, {statusUnknown, "blocked"}}
)

// outcomesByMailbox lists the honest outcomes for each state of a mailbox at p.
func outcomesByMailbox(p *Persona) *[mailboxStates][]Outcome {
	var table [mailboxStates][]Outcome
	for m := range mailboxStates {
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
func (w *World) Truth(address string) []Outcome {
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
	m := w.mailboxOf(d, []byte(local))
	said := w.outcomes[d.Persona][m]
	if !plainASCII(local) && !d.Persona.SMTPUTF8 {
		said = withoutSMTPUTF8(said)
	}
	if breaksMailboxRule(d, local) {
		return append([]Outcome{{statusInvalid, "provider_syntax"}}, said...)
	}
	return d.byList(said, []byte(local))
}

// withoutSMTPUTF8 keeps the outcomes that need no reply of the server: without
// SMTPUTF8 (RFC 6531 section 3.1) it cannot be probed.
func withoutSMTPUTF8(said []Outcome) []Outcome {
	left := []Outcome{}
	for _, o := range said {
		switch o.Reason {
		case "", "mailbox_not_found", "mailbox_disabled", "mailbox_full", "catch_all", "accepted_unconfirmed":
		default:
			left = append(left, o)
		}
	}
	if len(left) == len(said) && said[0].Status != statusUnknown {
		return said
	}
	return append([]Outcome{{statusUnknown, "smtputf8_unsupported"}}, left...)
}

// unknownDomain lists the outcomes for a name without mailboxes: most do not exist.
func (w *World) unknownDomain(domain string) []Outcome {
	switch r, has := w.names[domain]; {
	case has && len(r.addrs) > 0:
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
func (d *Domain) byList(said []Outcome, local []byte) []Outcome {
	role := isRole(local)
	if !d.disposable && !d.typo && !role {
		return said
	}
	said = slices.Clone(said)
	for i, o := range said {
		switch {
		case d.disposable && o.Status != statusInvalid:
			said[i] = Outcome{statusRisky, "disposable"}
		case role && o.Status == statusValid:
			said[i] = Outcome{statusRisky, "role_account"}
		case d.typo && o.Status == statusValid:
			said[i] = Outcome{statusRisky, "possible_typo"}
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
