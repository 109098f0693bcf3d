package doctor

import (
	"context"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"probity/engine"
)

// spfVerdict is a result of check_host (RFC 7208 section 2.6). The zero value is no result.
type spfVerdict uint8

const (
	spfTempError spfVerdict = iota
	spfNone
	spfNeutral
	spfPass
	spfFail
	spfSoftFail
	spfPermError
)

// spfResult is a result and what led to it.
type spfResult struct {
	verdict  spfVerdict
	why      string // the mechanism that matched, or what is wrong; printable
	everyone bool   // a pass by "all"
}

// The processing limits of RFC 7208 section 4.6.4.
const (
	maxSPFTerms = 10 // terms that cause lookups
	maxSPFVoid  = 2  // lookups that find nothing
	maxSPFNames = 10 // MX or PTR names of one term
)

// spfCheck is one evaluation: whom it is about, and what has been spent.
type spfCheck struct {
	*audit
	ip     netip.Addr
	sender engine.Address
	ehlo   string
	terms  int
	void   int
}

// spfError ends an evaluation from deep within.
type spfError struct {
	verdict spfVerdict
	why     string
}

func permError(why string) *spfError { return &spfError{spfPermError, why} }

// spf evaluates the SPF record of the MAIL FROM domain for an address.
func (a *audit) spf(ctx context.Context, ip netip.Addr, sender engine.Address, ehlo string) spfResult {
	c := &spfCheck{audit: a, ip: ip.Unmap(), sender: sender, ehlo: ehlo}
	r, err := c.checkHost(ctx, sender.Domain())
	if err != nil {
		return spfResult{verdict: err.verdict, why: printable(err.why)}
	}
	r.why = printable(r.why)
	return r
}

// checkHost is check_host of RFC 7208 section 4. Recursion is bounded by maxSPFTerms.
func (c *spfCheck) checkHost(ctx context.Context, domain string) (spfResult, *spfError) {
	record, err := c.record(ctx, domain)
	if err != nil || record == "" {
		return spfResult{verdict: spfNone, why: domain + " has no SPF record"}, err
	}
	terms, err := parseSPF(record)
	if err != nil {
		return spfResult{}, err
	}
	for _, m := range terms.mechanisms {
		matched, err := c.matches(ctx, m, domain)
		if err != nil {
			return spfResult{}, err
		}
		if matched {
			return spfResult{verdict: m.verdict, why: m.text + " of " + domain, everyone: m.verdict == spfPass && m.name == "all"}, nil
		}
	}
	if terms.redirect == "" {
		return spfResult{verdict: spfNeutral, why: "no mechanism of " + domain + " matches"}, nil
	}
	return c.redirect(ctx, terms.redirect, domain)
}

// redirect goes on with another domain's record, which must be there (RFC 7208 section 6.1).
func (c *spfCheck) redirect(ctx context.Context, spec, domain string) (spfResult, *spfError) {
	if err := c.spend(); err != nil {
		return spfResult{}, err
	}
	target, err := c.expand(ctx, spec, domain)
	if err != nil {
		return spfResult{}, err
	}
	r, err := c.checkHost(ctx, target)
	if err == nil && r.verdict == spfNone {
		err = permError("redirect=" + target + ": no SPF record there")
	}
	return r, err
}

// record finds the one TXT record of version 1 (RFC 7208 section 4.5).
func (c *spfCheck) record(ctx context.Context, domain string) (string, *spfError) {
	if !hostName(domain) {
		return "", nil // section 4.3: none
	}
	got := c.ask(ctx, domain, dns.TypeTXT)
	if got.outcome == failed {
		return "", &spfError{spfTempError, "TXT of " + domain + ": " + got.words()}
	}
	record, n := "", 0
	for _, rr := range got.records {
		t, ok := rr.(*dns.TXT)
		if !ok {
			continue
		}
		text := strings.Join(t.Txt, "")
		if v, _, _ := strings.Cut(text, " "); strings.EqualFold(v, "v=spf1") {
			record, n = text, n+1
		}
	}
	if n > 1 {
		return "", permError(domain + " has more than one SPF record")
	}
	return record, nil
}

// spend counts a term that causes lookups.
func (c *spfCheck) spend() *spfError {
	if c.terms++; c.terms > maxSPFTerms {
		return permError("more than 10 terms cause DNS lookups")
	}
	return nil
}

// look asks for one of a term's names, and counts those that find nothing.
func (c *spfCheck) look(ctx context.Context, name string, typ uint16) (answer, *spfError) {
	got := c.ask(ctx, name, typ)
	switch got.outcome {
	case failed:
		return got, &spfError{spfTempError, name + ": " + got.words()}
	case noData, noDomain:
		if c.void++; c.void > maxSPFVoid {
			return got, permError("more than 2 DNS lookups find nothing, the last for " + name)
		}
	}
	return got, nil
}

// matches evaluates one mechanism (RFC 7208 section 5).
func (c *spfCheck) matches(ctx context.Context, m spfMechanism, domain string) (bool, *spfError) {
	switch m.name {
	case "all":
		return true, nil
	case "ip4", "ip6":
		return m.network.Contains(c.ip), nil
	}
	if err := c.spend(); err != nil {
		return false, err
	}
	target := domain
	if m.domain != "" {
		var err *spfError
		if target, err = c.expand(ctx, m.domain, domain); err != nil {
			return false, err
		}
	}
	switch m.name {
	case "include":
		return c.include(ctx, target)
	case "a":
		return c.anyAddr(ctx, target, m)
	case "mx":
		return c.anyMX(ctx, target, m)
	case "ptr":
		return c.anyPTR(ctx, target)
	}
	got, err := c.look(ctx, target, dns.TypeA) // exists: A, whatever the family of the client (section 5.7)
	return err == nil && got.outcome == found, err
}

// include matches where the other domain's record passes (RFC 7208 section 5.2).
func (c *spfCheck) include(ctx context.Context, target string) (bool, *spfError) {
	r, err := c.checkHost(ctx, target)
	if err == nil && r.verdict == spfNone {
		err = permError("include:" + target + ": no SPF record there")
	}
	return err == nil && r.verdict == spfPass, err
}

func (c *spfCheck) anyAddr(ctx context.Context, name string, m spfMechanism) (bool, *spfError) {
	typ := dns.TypeA
	if c.ip.Is6() {
		typ = dns.TypeAAAA
	}
	got, err := c.look(ctx, name, typ)
	if err != nil {
		return false, err
	}
	for _, addr := range addrsOf(got.records) {
		if m.covers(addr, c.ip) {
			return true, nil
		}
	}
	return false, nil
}

func (c *spfCheck) anyMX(ctx context.Context, name string, m spfMechanism) (bool, *spfError) {
	got, err := c.look(ctx, name, dns.TypeMX)
	if err != nil {
		return false, err
	}
	hosts, _ := mxOf(got.records)
	if len(hosts) > maxSPFNames {
		return false, permError("mx:" + name + " has more than 10 hosts")
	}
	for _, h := range hosts {
		if matched, err := c.anyAddr(ctx, h.host, m); matched || err != nil {
			return matched, err
		}
	}
	return false, nil
}

// anyPTR matches where a forward-confirmed name of the client lies in the domain (RFC 7208 section 5.5). DNS errors here are no match.
func (c *spfCheck) anyPTR(ctx context.Context, domain string) (bool, *spfError) {
	for _, name := range c.validated(ctx) {
		if name == domain || strings.HasSuffix(name, "."+domain) {
			return true, nil
		}
	}
	return false, nil
}

// validated are the names of the client that lead back to it, the first ten at most.
func (c *spfCheck) validated(ctx context.Context) []string {
	arpa, err := dns.ReverseAddr(c.ip.String())
	if err != nil {
		return nil
	}
	names := pointers(c.ask(ctx, arpa, dns.TypePTR).records)
	var out []string
	for _, name := range names[:min(len(names), maxSPFNames)] {
		addrs, _ := c.addrs(ctx, name, c.ip)
		for _, addr := range addrs {
			if addr == c.ip {
				out = append(out, strings.ToLower(strings.TrimSuffix(name, ".")))
			}
		}
	}
	return out
}
