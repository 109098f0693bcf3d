package dns

import (
	"cmp"
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

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
)

// question is a name and the type of record wanted of it. The name is lower-case, without a final dot.
type question struct {
	name string
	kind uint16
}

// outcome is the kind of one server's answer. The zero value is a useless answer.
type outcome uint8

const (
	broken    outcome = iota // malformed, lame, refused: says nothing about the name
	servFail                 // the server failed
	timedOut                 // no answer in time
	truncated                // to be asked again over TCP
	noEDNS                   // the server does not understand EDNS0 (RFC 6891 section 7)
	found
	noData
	nxDomain
)

// failed reports whether the answer says nothing about the name.
func (o outcome) failed() bool { return o < found }

// answer is what a message says about a question.
type answer struct {
	outcome     outcome
	mx          []engine.MX // best first by preference, then name; at most maxMX. Host "." is the null MX
	badMX       int         // MX records whose host is not a host name
	addrs       []netip.Addr
	alias       string // the end of a chain of CNAMEs if the message has no records of it
	unconfirmed bool   // NODATA that no second server confirmed
	ttl         uint32 // seconds; the lowest of all records used, or that of RFC 2308 section 5
}

// onlyBadHosts reports whether there are MX records, but none with a valid host.
func (a *answer) onlyBadHosts() bool {
	return a.badMX > 0 && (len(a.mx) == 0 || len(a.mx) == 1 && a.mx[0].Host == ".")
}

// fact is the engine's fact for an answer about addresses, or a failed one about MX.
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

// queryPacker packs queries. It uses one message again and again, so that a query costs little.
type queryPacker struct {
	msg  dns.Msg
	edns []dns.RR
}

func newQueryPacker() *queryPacker {
	return &queryPacker{
		msg:  dns.Msg{MsgHdr: dns.MsgHdr{RecursionDesired: true}, Question: []dns.Question{{Qclass: dns.ClassINET}}},
		edns: new(dns.Msg).SetEdns0(udpSize, false).Extra,
	}
}

// edns says whether a query has an EDNS0 record (RFC 6891), which some servers do not understand.
type edns bool

const (
	withEDNS    edns = true
	withoutEDNS edns = false
)

// append appends a recursive query. q.name is valid: it panics for another.
func (qp *queryPacker) append(dst []byte, id uint16, q question, with edns) []byte {
	qp.msg.Id, qp.msg.Extra = id, nil
	if with {
		qp.msg.Extra = qp.edns
	}
	qp.msg.Question[0].Name, qp.msg.Question[0].Qtype = dns.Fqdn(q.name), q.kind
	packed, err := qp.msg.PackBuffer(dst[len(dst):cap(dst)]) // in place if there is room
	if err != nil {
		panic("BUG: dns: a query for " + q.name + ": " + err.Error())
	}
	return append(dst, packed...)
}

// reply is a parsed message.
type reply struct {
	dns.Msg
	whole bool // its answer and authority sections are as long as its header says
}

// read parses a message; false if it has no header or question. Errors in the additional section do not matter.
func (r *reply) read(msg []byte) bool {
	*r = reply{}
	err := r.Unpack(msg)
	if len(msg) < headerLen || err != nil && r.Question == nil {
		return false
	}
	r.whole = len(r.Answer) == int(binary.BigEndian.Uint16(msg[6:])) &&
		len(r.Ns) == int(binary.BigEndian.Uint16(msg[8:]))
	return true
}

// answers reports whether m is a reply to q (RFC 5452 section 9.1). The caller has compared the id.
// A server that could not read the query may leave the question out.
func (r *reply) answers(q question) bool {
	if !r.Response || r.Opcode != dns.OpcodeQuery {
		return false
	}
	switch len(r.Question) {
	case 0:
		return r.Rcode == dns.RcodeFormatError || r.Rcode == dns.RcodeNotImplemented
	case 1:
		asked := r.Question[0]
		return same(asked.Name, q.name) && asked.Qtype == q.kind && asked.Qclass == dns.ClassINET
	}
	return false
}

// same compares a name of a message, in which dots within labels are escaped, with one of ours: lower-case, without a
// final dot.
func same(name, plain string) bool {
	return strings.EqualFold(strings.TrimSuffix(name, "."), strings.TrimSuffix(plain, "."))
}

// parse reads the answer from a reply; answers(q) holds.
func (r *reply) parse(q question) answer {
	switch r.Rcode {
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		return answer{outcome: noEDNS}
	case dns.RcodeServerFailure:
		return answer{outcome: servFail}
	case dns.RcodeSuccess, dns.RcodeNameError:
	default:
		return answer{}
	}
	switch {
	case r.Truncated:
		return answer{outcome: truncated}
	case !r.whole:
		return answer{}
	case r.Rcode == dns.RcodeNameError:
		return r.negative(nxDomain)
	}
	return r.positive(q)
}

// positive reads a reply without an error code.
func (r *reply) positive(q question) answer {
	owner, a := q.name, answer{ttl: math.MaxUint32}
	for hops := 0; ; hops++ {
		alias := r.aliasOf(owner)
		if alias == nil {
			break
		}
		target := strings.ToLower(strings.TrimSuffix(alias.Target, "."))
		if hops == maxAliases || !validName(target) { // too long, or a loop (RFC 1034 section 3.6.2)
			return answer{}
		}
		owner, a.ttl = target, min(a.ttl, ttlOf(alias))
	}
	aliasTTL := a.ttl
	for _, rr := range r.Answer {
		if h := rr.Header(); h.Rrtype == q.kind && h.Class == dns.ClassINET && same(h.Name, owner) && !a.addRecord(rr) {
			return answer{}
		}
	}
	if len(a.mx)+len(a.addrs)+a.badMX > 0 {
		a.outcome = found
		return a
	}
	negative := r.negative(noData)
	if owner != q.name && negative.ttl == 0 && !negative.outcome.failed() {
		return answer{outcome: found, alias: owner, ttl: aliasTTL}
	}
	return negative
}

func (r *reply) aliasOf(name string) *dns.CNAME {
	for _, rr := range r.Answer {
		if c, ok := rr.(*dns.CNAME); ok && c.Hdr.Class == dns.ClassINET && same(c.Hdr.Name, name) {
			return c
		}
	}
	return nil
}

// ttlOf is a record's TTL in seconds; one with the highest bit set counts as 0 (RFC 2181 section 8).
func ttlOf(rr dns.RR) uint32 {
	if ttl := rr.Header().Ttl; ttl <= math.MaxInt32 {
		return ttl
	}
	return 0
}

// addRecord adds a record of the wanted type. It returns false for one without data.
func (a *answer) addRecord(rr dns.RR) bool {
	a.ttl = min(a.ttl, ttlOf(rr))
	switch rr := rr.(type) {
	case *dns.MX:
		if rr.Mx == "" {
			return false
		}
		a.addMX(rr.Preference, rr.Mx)
	case *dns.A:
		return a.addAddr(rr.A.To4())
	case *dns.AAAA:
		return a.addAddr(rr.AAAA.To16())
	}
	return true
}

func (a *answer) addAddr(ip net.IP) bool {
	addr, ok := netip.AddrFromSlice(ip)
	if ok && len(a.addrs) < maxAddrs {
		a.addrs = append(a.addrs, addr)
	}
	return ok
}

// addMX keeps the best maxMX records in order, so that a zone with thousands costs no more than one with sixteen.
func (a *answer) addMX(preference uint16, name string) {
	host := strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "." { // the null MX (RFC 7505)
		host = name
	} else if !validName(host) {
		a.badMX++
		return
	}
	at, twice := slices.BinarySearchFunc(a.mx, engine.MX{Preference: preference, Host: host}, func(x, y engine.MX) int {
		return cmp.Or(cmp.Compare(x.Preference, y.Preference), cmp.Compare(x.Host, y.Host))
	})
	if twice || at >= maxMX {
		return
	}
	a.mx = slices.Insert(a.mx, at, engine.MX{Preference: preference, Host: host})
	a.mx = a.mx[:min(len(a.mx), maxMX)]
}

// negative finds the TTL of a negative answer: the lower of the SOA's own TTL and its MINIMUM (RFC 2308 section 5).
// Without a SOA it is not cached. A NODATA that only names other servers is a lame server's referral (RFC 2308 section
// 2.2).
func (r *reply) negative(o outcome) answer {
	referral := false
	for _, rr := range r.Ns {
		switch rr := rr.(type) {
		case *dns.SOA:
			return answer{outcome: o, ttl: min(ttlOf(rr), rr.Minttl)}
		case *dns.NS:
			referral = true
		}
	}
	if o == noData && referral && !r.Authoritative && !r.RecursionAvailable {
		return answer{}
	}
	return answer{outcome: o}
}

// maxName is the longest name in text without its final dot (RFC 1035 section 2.3.4).
const maxName = 253

// validName reports whether name can be looked up: lower-case labels of 1 to 63 bytes, 253 in all, of letters, digits,
// hyphens and underscores.
func validName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	label := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.' && label > 0:
			label = 0
		case ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') && label < 63:
			label++
		default:
			return false
		}
	}
	return label > 0
}
