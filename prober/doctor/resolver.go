package doctor

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// checkResolvers audits each recursive resolver, and whether there are two that agree.
func (a *audit) checkResolvers(ctx context.Context) []Finding {
	all := subject{"resolver", "all"}
	switch len(a.Servers) {
	case 0:
		return []Finding{all.fail("name two with --dns HOST:PORT,HOST:PORT", "no resolver is configured")}
	case 1:
		return append([]Finding{all.warn("name a second resolver with --dns: NXDOMAIN condemns an address, so two should say it", "only one resolver")}, a.checkResolver(ctx, a.Servers[0])...)
	}
	out := []Finding{a.checkAgreement(ctx, all)}
	for _, server := range a.Servers {
		out = append(out, a.checkResolver(ctx, server)...)
	}
	return out
}

// checkAgreement compares what the resolvers say of our own domain's MX.
func (a *audit) checkAgreement(ctx context.Context, s subject) Finding {
	if !hostName(a.domain) {
		return s.ok("%d resolvers", len(a.Servers))
	}
	answers := map[string]string{} // MX set -> the server that gave it
	for _, server := range a.Servers {
		q := query{dns.Fqdn(a.domain), dns.TypeMX}
		reply, err := a.exchange(ctx, server, q)
		if err != nil {
			continue // reported by checkResolver
		}
		got := parseReply(reply, q)
		if got.outcome == failed {
			continue
		}
		hosts, _ := mxOf(got.records)
		words := []string{got.describe()}
		for _, h := range hosts {
			words = append(words, h.host)
		}
		slices.Sort(words[1:])
		answers[strings.Join(words, " ")] = server.String()
	}
	if len(answers) > 1 {
		return s.warn("find out which one is right; take the other out of --dns if it is filtered or stale",
			"they disagree about the MX of %s", a.domain)
	}
	return s.ok("%d resolvers, no disagreement", len(a.Servers))
}

// checkResolver audits one: whether it answers, recursively, with EDNS, over TCP, and truly about names that do not
// exist.
func (a *audit) checkResolver(ctx context.Context, server netip.AddrPort) []Finding {
	s := subject{"resolver", server.String()}
	root := query{".", dns.TypeNS}
	reply, err := a.send(ctx, "udp", server, question(root))
	switch {
	case err != nil:
		return []Finding{s.fail("start it, open UDP port 53 to it, or take it out of --dns", "does not answer: %s",
			describeError(err))}
	case reply.Rcode == dns.RcodeRefused:
		return []Finding{s.fail("let it serve this node, or take it out of --dns", "refuses to answer us")}
	case reply.Rcode == dns.RcodeServerFailure:
		return []Finding{s.fail("repair it, or take it out of --dns", "fails to resolve the root (SERVFAIL)")}
	case reply.Rcode == dns.RcodeNameError:
		return []Finding{s.fail("give it a way out (a captive portal, a closed firewall), or take it out of --dns",
			"answers NXDOMAIN for the root itself: its NXDOMAIN is trusted for no name (dns_error)")}
	case !reply.RecursionAvailable:
		return []Finding{s.fail("name a recursive resolver in --dns",
			"is not recursive: it answers for its own zones only")}
	}
	var out []Finding
	if reply.IsEdns0() == nil {
		out = append(out, s.warn("update it, or what stands before it",
			"does not know EDNS (RFC 6891): large answers are slow"))
	}
	if _, err := a.send(ctx, "tcp", server, question(root)); err != nil {
		out = append(out, s.warn("open TCP port 53 to it (RFC 7766)",
			"does not answer over TCP: large answers are lost"))
	}
	if f, bad := a.checkNXDOMAIN(ctx, s, server); bad {
		out = append(out, f)
	}
	if len(out) == 0 {
		out = append(out, s.ok("answers over UDP and TCP, with EDNS, and does not rewrite NXDOMAIN"))
	}
	return out
}

// checkNXDOMAIN asks for names that cannot exist. A resolver that gives them an address makes every misspelt domain
// look alive.
func (a *audit) checkNXDOMAIN(ctx context.Context, s subject, server netip.AddrPort) (Finding, bool) {
	for _, tld := range [...]string{"com.", "net.", "org."} {
		q := query{randomLabel() + "." + tld, dns.TypeA}
		reply, err := a.exchange(ctx, server, q)
		if err != nil {
			return s.unknown("run doctor again", "no answer about a name that does not exist: %s", describeError(err)),
				true
		}
		switch got := parseReply(reply, q); got.outcome {
		case found:
			return s.fail("turn its redirection of missing names off, or take it out of --dns",
				"rewrites NXDOMAIN: a name that does not exist gets %s", joinFirst(addrsOf(got.records))), true
		case noData:
			return s.warn("take it out of --dns: missing domains cannot be told from empty ones",
				"says that a name exists that does not (NODATA for NXDOMAIN)"), true
		case failed:
			return s.unknown("run doctor again; check that it reaches the servers of "+tld,
				"no answer about a name that does not exist: %s", got.reason), true
		}
	}
	return Finding{}, false
}

// randomLabel is a label that is not registered: 24 letters, 112 bits.
func randomLabel() string {
	b := make([]byte, 24)
	for i := range b {
		b[i] = byte('a' + rand.IntN(26))
	}
	return string(b)
}
