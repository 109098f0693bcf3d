package doctor

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// outcome is what an answer says. The zero value says nothing.
type outcome uint8

const (
	failed   outcome = iota // no answer, or a failure: nothing is known
	found                   // records
	noData                  // the name exists, without such records
	noDomain                // NXDOMAIN (RFC 8020)
)

// answer is what the resolvers say to one question.
type answer struct {
	outcome outcome
	records []dns.RR
	alias   bool   // the name is a CNAME
	zone    bool   // the authority section names the SOA of the zone
	reason  string // of failed, in our words
}

type query struct {
	name string
	typ  uint16
}

// pendingAnswer is one question of this audit; done is closed once answer is there.
type pendingAnswer struct {
	done   chan struct{}
	answer answer
}

// questions asks the resolvers on behalf of one audit.
type questions struct {
	*Config

	mu      sync.Mutex               // guards answers and sent
	answers map[query]*pendingAnswer // what was asked in this audit, at most maxQueries
	sent    int
}

// errTooMany ends an audit's questions; it is a bound of ours, and says nothing about a name.
var errTooMany = errors.New("too many DNS questions for one audit")

func newQuestions(c *Config) *questions {
	return &questions{Config: c, answers: map[query]*pendingAnswer{}}
}

// ask puts a question to the resolvers once an audit; a second question gets the same answer.
func (q *questions) ask(ctx context.Context, name string, typ uint16) answer {
	wanted := query{strings.ToLower(dns.Fqdn(name)), typ}
	q.mu.Lock()
	was, known := q.answers[wanted]
	if !known && len(q.answers) < maxQueries {
		was = &pendingAnswer{done: make(chan struct{})}
		q.answers[wanted] = was
	}
	q.mu.Unlock()
	if was == nil {
		return answer{reason: errTooMany.Error()}
	}
	if known {
		<-was.done // bounded, because the other caller's queries are
		return was.answer
	}
	defer close(was.done)
	was.answer = q.askServers(ctx, wanted)
	return was.answer
}

// askServers asks one server after the other until one knows; a lone server is asked twice.
func (q *questions) askServers(ctx context.Context, wanted query) answer {
	if len(q.Servers) == 0 {
		return answer{reason: "no resolver is configured"}
	}
	var last answer
	for i := range max(2, len(q.Servers)) {
		reply, err := q.exchange(ctx, q.Servers[i%len(q.Servers)], wanted)
		if err == nil {
			last = parseReply(reply, wanted)
		} else {
			last = answer{reason: describeError(err)}
		}
		if err == nil && last.outcome != failed {
			return last
		}
		if ctx.Err() != nil {
			break
		}
	}
	return last
}

// exchange asks over UDP, and over TCP where the answer was cut (RFC 7766 section 5).
func (q *questions) exchange(ctx context.Context, server netip.AddrPort, wanted query) (*dns.Msg, error) {
	reply, err := q.send(ctx, "udp", server, question(wanted))
	if err == nil && reply.Truncated {
		return q.send(ctx, "tcp", server, question(wanted))
	}
	return reply, err
}

func question(q query) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(q.name, q.typ)
	m.SetEdns0(1232, false) // fits every path unfragmented
	return m
}

// send is one query on the wire, counted and bounded.
func (q *questions) send(ctx context.Context, network string, server netip.AddrPort, m *dns.Msg) (*dns.Msg, error) {
	q.mu.Lock()
	q.sent++
	tooMany := q.sent > maxQueries
	q.mu.Unlock()
	if tooMany {
		return nil, errTooMany
	}
	ctx, cancel := context.WithTimeout(ctx, q.Query)
	defer cancel()
	reply, err := q.Exchange(ctx, network, m, server)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case len(reply.Question) != 1 || !strings.EqualFold(reply.Question[0].Name, m.Question[0].Name) ||
		reply.Question[0].Qtype != m.Question[0].Qtype:
		return nil, errors.New("an answer to another question")
	}
	return reply, nil
}

func describeError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "no answer in time"
	}
	return printable(err.Error())
}

// parseReply takes from a reply what belongs to the question, along its aliases.
func parseReply(m *dns.Msg, q query) answer {
	switch m.Rcode {
	case dns.RcodeSuccess:
	case dns.RcodeNameError:
		return answer{outcome: noDomain, zone: hasSOA(m.Ns)}
	default:
		return answer{reason: dns.RcodeToString[m.Rcode]}
	}
	name := q.name
	for range 8 { // aliases in a row
		next := aliasOf(m.Answer, name)
		if next == "" {
			break
		}
		name = next
	}
	a := answer{outcome: noData, zone: hasSOA(m.Ns), alias: name != q.name}
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == q.typ && strings.EqualFold(rr.Header().Name, name) {
			a.outcome = found
			a.records = append(a.records, rr)
		}
	}
	return a
}

func aliasOf(records []dns.RR, name string) string {
	for _, rr := range records {
		if c, ok := rr.(*dns.CNAME); ok && strings.EqualFold(c.Hdr.Name, name) {
			return strings.ToLower(c.Target)
		}
	}
	return ""
}

func hasSOA(records []dns.RR) bool {
	return slices.ContainsFunc(records, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeSOA })
}

// addrsOf reads the addresses of A and AAAA records.
func addrsOf(records []dns.RR) []netip.Addr {
	var out []netip.Addr
	for _, rr := range records {
		var ip netip.Addr
		switch rr := rr.(type) {
		case *dns.A:
			ip, _ = netip.AddrFromSlice(rr.A.To4())
		case *dns.AAAA:
			ip, _ = netip.AddrFromSlice(rr.AAAA.To16())
		}
		if ip.IsValid() {
			out = append(out, ip)
		}
	}
	return out
}

// addrs asks for the addresses of the family of like: what counts for an IPv4 source is the A record.
func (q *questions) addrs(ctx context.Context, name string, like netip.Addr) ([]netip.Addr, answer) {
	typ := dns.TypeA
	if like.Is6() {
		typ = dns.TypeAAAA
	}
	got := q.ask(ctx, name, typ)
	return addrsOf(got.records), got
}

// bothAddrs asks for IPv4 and IPv6; the answer is the failed one where one failed, else that for IPv4.
func (q *questions) bothAddrs(ctx context.Context, name string) ([]netip.Addr, answer) {
	four := q.ask(ctx, name, dns.TypeA)
	six := q.ask(ctx, name, dns.TypeAAAA)
	got := four
	if six.outcome == failed && four.outcome != failed {
		got = six
	}
	return append(addrsOf(four.records), addrsOf(six.records)...), got
}

// describe describes an outcome for people.
func (a answer) describe() string {
	switch a.outcome {
	case found:
		return "found"
	case noData:
		return "no such record"
	case noDomain:
		return "no such name"
	}
	return "the DNS did not answer (" + a.reason + ")"
}

// joinFirst joins addresses or names for a finding, five at most.
func joinFirst[T interface{ String() string }](list []T) string {
	var words []string
	for i, v := range list {
		if i == 5 {
			words = append(words, "...")
			break
		}
		words = append(words, printable(v.String()))
	}
	return strings.Join(words, ", ")
}
