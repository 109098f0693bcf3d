package doctor

import (
	"net/netip"
	"strconv"
	"strings"
)

// spfRecord is an SPF record read whole: a syntax error anywhere spoils all of it (RFC 7208 section 4.6).
type spfRecord struct {
	mechanisms []spfMechanism
	redirect   string // a domain-spec, empty for none
}

// spfMechanism is one directive.
type spfMechanism struct {
	verdict spfVerdict // by its qualifier
	name    string
	domain  string       // a domain-spec, empty for the current domain
	network netip.Prefix // of ip4 and ip6
	bits4   int          // prefix lengths of a and mx
	bits6   int
	text    string
}

// covers compares an address of a or mx with the client's under the prefix length of its family.
func (m *spfMechanism) covers(addr, ip netip.Addr) bool {
	bits := m.bits4
	if ip.Is6() {
		bits = m.bits6
	}
	p, err := addr.Prefix(bits)
	return err == nil && p.Contains(ip)
}

// parseSPF reads the terms behind the version (RFC 7208 section 12). Unknown modifiers are passed over (section 6).
func parseSPF(record string) (spfRecord, *spfError) {
	var r spfRecord
	redirects, exps := 0, 0
	for i, term := range strings.Fields(record) {
		if i == 0 {
			continue
		}
		if name, value, ok := modifier(term); ok {
			switch strings.ToLower(name) {
			case "redirect":
				r.redirect = value
				redirects++
			case "exp":
				exps++
			default:
				continue
			}
			if value == "" || redirects > 1 || exps > 1 || !validMacros(value) {
				return r, permError("bad term " + term)
			}
			continue
		}
		m, err := parseMechanism(term)
		if err != nil {
			return r, err
		}
		r.mechanisms = append(r.mechanisms, m)
	}
	return r, nil
}

// modifier splits name=value; a mechanism has a colon or slash before any equals sign.
func modifier(term string) (name, value string, ok bool) {
	i := strings.IndexAny(term, ":/=")
	if i <= 0 || term[i] != '=' {
		return "", "", false
	}
	return term[:i], term[i+1:], true
}

// qualifiers by their sign (RFC 7208 section 4.6.2).
func qualifier(c byte) (spfVerdict, bool) {
	switch c {
	case '+':
		return spfPass, true
	case '-':
		return spfFail, true
	case '~':
		return spfSoftFail, true
	case '?':
		return spfNeutral, true
	}
	return spfPass, false
}

func parseMechanism(term string) (spfMechanism, *spfError) {
	m := spfMechanism{text: term, bits4: 32, bits6: 128}
	rest := term
	var signed bool
	if m.verdict, signed = qualifier(rest[0]); signed {
		rest = rest[1:]
	}
	end := strings.IndexAny(rest, ":/")
	if end < 0 {
		end = len(rest)
	}
	m.name, rest = strings.ToLower(rest[:end]), rest[end:]
	if !m.readArgument(rest) {
		return m, permError("bad term " + term)
	}
	return m, nil
}

// readArgument reads what follows the name: ":..." or "/..." or nothing.
func (m *spfMechanism) readArgument(rest string) bool {
	arg, given := strings.CutPrefix(rest, ":")
	switch m.name {
	case "all":
		return rest == ""
	case "include", "exists":
		m.domain = arg
		return given && validDomainSpec(arg)
	case "ptr":
		m.domain = arg
		return rest == "" || given && validDomainSpec(arg)
	case "ip4", "ip6":
		return given && m.readNetwork(arg)
	case "a", "mx":
		return m.readHosts(rest)
	}
	return false
}

func (m *spfMechanism) readNetwork(arg string) bool {
	addr, bits, cut := strings.Cut(arg, "/")
	ip, err := netip.ParseAddr(addr)
	if err != nil || ip.Is4() != (m.name == "ip4") || ip.Zone() != "" {
		return false
	}
	length := ip.BitLen()
	if cut {
		var ok bool
		if length, ok = prefixLength(bits, ip.BitLen()); !ok {
			return false
		}
	}
	m.network = netip.PrefixFrom(ip, length).Masked()
	return true
}

// readHosts reads [":" domain-spec] ["/" ip4-length] ["//" ip6-length].
func (m *spfMechanism) readHosts(rest string) bool {
	rest, six, cut := strings.Cut(rest, "//")
	ok := true
	if cut {
		if m.bits6, ok = prefixLength(six, 128); !ok {
			return false
		}
	}
	if i := slashOutsideMacro(rest); i >= 0 {
		if m.bits4, ok = prefixLength(rest[i+1:], 32); !ok {
			return false
		}
		rest = rest[:i]
	}
	arg, given := strings.CutPrefix(rest, ":")
	m.domain = arg
	return rest == "" || given && validDomainSpec(arg)
}

// slashOutsideMacro finds the slash of a prefix length: a slash may also be a delimiter within %{...}.
func slashOutsideMacro(s string) int {
	i := strings.LastIndexByte(s, '/')
	if i >= 0 && strings.LastIndexByte(s, '}') > i {
		return -1
	}
	return i
}

func prefixLength(s string, most int) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && n <= most && s[0] != '+' && s[0] != '-' && (s[0] != '0' || len(s) == 1)
}

// validDomainSpec reports macros in order and an end that can be a name: a macro, or a label that is not all digits (section 7.1).
func validDomainSpec(s string) bool {
	if s == "" || !validMacros(s) {
		return false
	}
	if strings.HasSuffix(s, "}") {
		return true
	}
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	last := labels[len(labels)-1]
	return len(labels) > 1 && last != "" && strings.Trim(last, "0123456789") != "" && last[0] != '-' && last[len(last)-1] != '-'
}
