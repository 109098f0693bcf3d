package dns

import (
	"encoding/binary"
	"net/netip"

	"github.com/miekg/dns"

	"probity/engine"
)

const (
	typeA     = dns.TypeA
	typeMX    = dns.TypeMX
	typeAAAA  = dns.TypeAAAA
	headerLen = 12
	udpSize   = 1232 // fits an IPv6 path without fragments; what EDNS0 offers (RFC 6891 section 6.2.5)

	maxMX      = 16
	maxAddrs   = 16
	maxAliases = 8
	maxRecords = 4096
)

// question is a name and the type of record wanted of it. The name is lower-case, without a final dot.
type question struct {
	name string
	kind uint16
}

// outcome is what one server's answer amounts to. The zero value is an answer that is of no use.
type outcome uint8

const (
	broken    outcome = iota // malformed, lame, refused: says nothing about the name
	servFail                 // the server says that it failed
	timedOut                 // nothing came in time
	truncated                // to be asked again over TCP
	noEDNS                   // the server does not understand EDNS0 (RFC 6891 section 7)
	found
	noData
	nxDomain
)

// failed reports that nothing is known of the name.
func (o outcome) failed() bool { return o < found }

// answer is what a message says about a question.
type answer struct {
	outcome outcome
	mx      []engine.MX // best first by preference, then name; at most maxMX. Host "." is the null MX
	badMX   int         // MX records whose host is no host name
	addrs   []netip.Addr
	alias   string // where a chain of CNAMEs leads when the message does not say what is there
	alone   bool   // NODATA that a second server was asked about in vain
	ttl     uint32 // seconds; the least of all records used, or that of RFC 2308 section 5
}

// onlyBadHosts reports MX records of which none names a host.
func (a *answer) onlyBadHosts() bool {
	return a.badMX > 0 && (len(a.mx) == 0 || len(a.mx) == 1 && a.mx[0].Host == ".")
}

// fact is the answer as the engine knows it, for a question about addresses or a failed one about MX.
func (a *answer) fact() engine.Fact {
	switch a.outcome {
	case found:
		return engine.FactImplicit
	case noData:
		return engine.FactNoServer
	case nxDomain:
		return engine.FactNoDomain
	case timedOut:
		return engine.FactDNSTimeout
	}
	return engine.FactServFail
}

// appendQuery appends a recursive query, with EDNS0 where asked. q.name is valid.
func appendQuery(dst []byte, id uint16, q question, edns bool) []byte {
	var extra byte
	if edns {
		extra = 1
	}
	dst = binary.BigEndian.AppendUint16(dst, id)
	dst = append(dst, 1 /* RD */, 0, 0, 1, 0, 0, 0, 0, 0, extra)
	dst = appendName(dst, q.name)
	dst = binary.BigEndian.AppendUint16(dst, q.kind)
	dst = append(dst, 0, dns.ClassINET)
	if edns { // root name, OPT, size, extended rcode, version, flags, length (RFC 6891 section 6.1.2)
		dst = append(dst, 0, 0, byte(dns.TypeOPT), udpSize>>8, udpSize&0xff, 0, 0, 0, 0, 0, 0)
	}
	return dst
}

// answers reports that msg is a reply to q, whatever it says (RFC 5452 section 9.1). The id has been looked at.
// A server that could not read the query may leave the question out.
func answers(msg []byte, q question) bool {
	if len(msg) < headerLen || msg[2]&0x80 == 0 || msg[2]>>3&0xf != dns.OpcodeQuery {
		return false
	}
	rcode := int(msg[3] & 0xf)
	switch binary.BigEndian.Uint16(msg[4:]) {
	case 0:
		return rcode == dns.RcodeFormatError || rcode == dns.RcodeNotImplemented
	case 1:
		name, off, ok := nameAt(msg, headerLen)
		return ok && name.is(q.name) && off+4 <= len(msg) &&
			binary.BigEndian.Uint16(msg[off:]) == q.kind && binary.BigEndian.Uint16(msg[off+2:]) == dns.ClassINET
	}
	return false
}

// parse reads a reply to q: any bytes give an answer, and nothing of msg is kept. answers(msg, q) holds.
func parse(msg []byte, q question) answer {
	switch rcode := int(msg[3] & 0xf); {
	case rcode == dns.RcodeFormatError || rcode == dns.RcodeNotImplemented:
		return answer{outcome: noEDNS}
	case rcode == dns.RcodeServerFailure:
		return answer{outcome: servFail}
	case rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError:
		return answer{}
	case msg[2]&2 != 0:
		return answer{outcome: truncated}
	case rcode == dns.RcodeNameError:
		return parseNegative(msg, nxDomain)
	}
	return parseAnswer(msg, q)
}

// parseAnswer reads a reply without an error code.
func parseAnswer(msg []byte, q question) answer {
	end, ok := followAliases(msg, q)
	if !ok {
		return answer{}
	}
	a := answer{ttl: end.ttl}
	rs := recordsOf(msg)
	for rs.next() {
		if rs.section == sectionAnswer && rs.kind == q.kind && rs.ownerIs(end.owner) && !a.take(msg, &rs.record) {
			return answer{}
		}
	}
	switch {
	case rs.bad:
		return answer{}
	case len(a.mx)+len(a.addrs)+a.badMX > 0:
		a.outcome = found
		return a
	}
	negative := parseNegative(msg, noData)
	if end.hops > 0 && negative.ttl == 0 && !negative.outcome.failed() {
		return answer{outcome: found, alias: end.owner, ttl: end.ttl}
	}
	return negative
}

// take adds what a record of the wanted type says. It reports false for data that is no such record.
func (a *answer) take(msg []byte, r *record) bool {
	a.ttl = min(a.ttl, r.ttl)
	switch data := msg[r.data:r.end]; {
	case r.kind == typeMX && len(data) > 2:
		host, end, ok := nameAt(msg, r.data+2)
		if !ok || end != r.end || !host.isHost() {
			a.badMX++
			break
		}
		a.addMX(binary.BigEndian.Uint16(data), &host)
	case r.kind == typeA && len(data) == 4:
		a.addAddr(netip.AddrFrom4([4]byte(data)))
	case r.kind == typeAAAA && len(data) == 16:
		a.addAddr(netip.AddrFrom16([16]byte(data)))
	default:
		return false
	}
	return true
}

func (a *answer) addAddr(addr netip.Addr) {
	if len(a.addrs) < maxAddrs {
		a.addrs = append(a.addrs, addr)
	}
}

// addMX keeps the best maxMX records in order, so that a zone with thousands costs no more than one with sixteen.
func (a *answer) addMX(preference uint16, host *wireName) {
	at := len(a.mx)
	for at > 0 && worse(&a.mx[at-1], preference, host) {
		at--
	}
	if at > 0 && a.mx[at-1].Preference == preference && host.is(a.mx[at-1].Host) || at >= maxMX {
		return
	}
	if a.mx == nil {
		a.mx = make([]engine.MX, 0, 4) // few domains have more
	}
	a.mx = append(a.mx, engine.MX{})
	copy(a.mx[at+1:], a.mx[at:])
	a.mx[at] = engine.MX{Preference: preference, Host: host.String()}
	a.mx = a.mx[:min(len(a.mx), maxMX)]
}

func worse(have *engine.MX, preference uint16, host *wireName) bool {
	if have.Preference != preference {
		return have.Preference > preference
	}
	return have.Host > string(host.bytes())
}

// parseNegative finds how long "no" may be believed: the lesser of the SOA's own TTL and its MINIMUM (RFC 2308 section 5).
// Without a SOA it is not kept. A NODATA that only names other servers is a lame server's referral (RFC 2308 section 2.2).
func parseNegative(msg []byte, o outcome) answer {
	referral := false
	rs := recordsOf(msg)
	for rs.next() {
		if rs.section != sectionAuthority {
			continue
		}
		referral = referral || rs.kind == dns.TypeNS
		if rs.kind == dns.TypeSOA && rs.end-rs.data >= 22 {
			return answer{outcome: o, ttl: min(rs.ttl, binary.BigEndian.Uint32(msg[rs.end-4:]))}
		}
	}
	authoritative, recursive := msg[2]&4 != 0, msg[3]&0x80 != 0
	if rs.bad || o == noData && referral && !authoritative && !recursive {
		return answer{}
	}
	return answer{outcome: o}
}
