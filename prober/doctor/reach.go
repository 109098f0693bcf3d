package doctor

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/miekg/dns"

	"probity/engine"
	"probity/engine/smtp"
)

// target is one address of a mail server that may be connected to.
type target struct {
	host string
	addr netip.AddrPort
}

// maxDials is how many addresses one identity tries until one connects.
const maxDials = 3

// checkPort25 connects from each identity to a mail server of our own, and asks there whether MAIL FROM's mailbox
// exists: once.
func (a *audit) checkPort25(ctx context.Context) []Finding {
	own, reason := a.ownTargets(ctx)
	targets := own
	if a.Target != "" {
		targets, reason = a.configuredTarget(ctx)
	}
	var out []Finding
	asked := false
	for _, id := range a.Identities {
		session, at, f := a.connect(ctx, id, targets, reason)
		out = append(out, f)
		if a.Target == "" && !asked && session != nil {
			out, asked = append(out, a.checkMailbox(ctx, session, at.host)), true
		}
		if session != nil {
			session.Quit(ctx)
		}
	}
	if a.Target != "" {
		out = append(out, a.checkMailboxAtOwnMX(ctx, own))
	} else if !asked {
		out = append(out, subject{"mailbox", printable(a.MailFrom)}.unknown("see port25",
			"not asked: no session with a mail server of the domain"))
	}
	return out
}

// checkMailboxAtOwnMX asks the domain's own servers where port 25 was tried at another.
func (a *audit) checkMailboxAtOwnMX(ctx context.Context, own []target) Finding {
	s := subject{"mailbox", printable(a.MailFrom)}
	if len(a.Identities) == 0 {
		return s.unknown("give --egress", "not asked: no egress identity")
	}
	session, at, _ := a.connect(ctx, a.Identities[0], own, "")
	if session == nil {
		return s.unknown("see mx", "not asked: no session with a mail server of the domain")
	}
	defer session.Quit(ctx)
	return a.checkMailbox(ctx, session, at.host)
}

// ownTargets are the addresses of the MX hosts of MAIL FROM's domain, best first.
func (a *audit) ownTargets(ctx context.Context) (targets []target, reason string) {
	if !hostName(a.domain) {
		return nil, "no MAIL FROM domain whose mail server could be connected to"
	}
	got := a.ask(ctx, a.domain, dns.TypeMX)
	hosts, null := mxOf(got.records)
	if null || got.outcome == failed || got.outcome == noDomain {
		return nil, "no mail server of " + a.domain + " is known"
	}
	if len(hosts) == 0 {
		hosts = []mx{{host: a.domain}} // RFC 5321 section 5.1
	}
	for _, h := range hosts[:min(len(hosts), maxDials)] {
		targets = append(targets, a.atHost(ctx, h.host, a.Port)...)
	}
	return targets, "no mail server of " + a.domain + " has an address"
}

// configuredTarget is the target that the operator named.
func (a *audit) configuredTarget(ctx context.Context) ([]target, string) {
	host, port := a.Target, a.Port
	if h, p, err := net.SplitHostPort(a.Target); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return nil, "the target's port is not a number"
		}
		host, port = h, uint16(n)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []target{{host, netip.AddrPortFrom(ip, port)}}, ""
	}
	if !hostName(host) {
		return nil, "the target is not a host name"
	}
	return a.atHost(ctx, host, port), "the target has no address"
}

func (a *audit) atHost(ctx context.Context, host string, port uint16) []target {
	addrs, _ := a.bothAddrs(ctx, host)
	var out []target
	for _, addr := range addrs {
		out = append(out, target{host, netip.AddrPortFrom(addr, port)})
	}
	return out
}

// connect opens a session with the first target that takes a connection. After one that did, it tries no other.
func (a *audit) connect(ctx context.Context, id Identity, targets []target,
	reason string) (*smtp.Session, target, Finding) {
	s := subject{"port25", id.name()}
	targets = sameFamily(targets, id.Local)
	if len(targets) == 0 {
		if reason == "" {
			reason = "no target of this address family"
		}
		return nil, target{}, s.unknown("give --mail-from in a domain with a mail server, or name a target that may be connected to", "not tried: %s", reason)
	}
	through := a.SOCKS5
	if id.SOCKS5.Addr != "" {
		through = id.SOCKS5
	}
	dialer := smtp.Dialer{Local: id.Local, SOCKS5: through, AllowPrivate: a.AllowPrivate, Dial: a.Dial}
	var fault smtp.Fault
	for _, t := range targets[:min(len(targets), maxDials)] {
		conn, f := a.dial(ctx, &dialer, t)
		if conn == nil {
			fault = f
			continue
		}
		cfg := smtp.Config{EHLO: id.EHLO, Timeouts: a.SMTP} // MAIL FROM:<>, as receivers ask when they check a sender
		session, f := smtp.Open(ctx, conn, cfg, t.host)
		return session, t, sessionFinding(s, t, f)
	}
	return nil, target{}, connectFinding(s, targets[0], fault)
}

func (a *audit) dial(ctx context.Context, d *smtp.Dialer, t target) (net.Conn, smtp.Fault) {
	ctx, cancel := context.WithTimeout(ctx, a.Connect)
	defer cancel()
	return d.DialContext(ctx, t.addr)
}

// sameFamily keeps the targets that a source address can reach; a source that is left to the system reaches IPv4.
func sameFamily(targets []target, local netip.Addr) []target {
	six := local.Is6() && !local.Is4In6()
	var out []target
	for _, t := range targets {
		if t.addr.Addr().Unmap().Is6() == six {
			out = append(out, t)
		}
	}
	return out
}

// connectFinding says why no target could be connected to.
func connectFinding(s subject, t target, f smtp.Fault) Finding {
	at := printable(t.host) + " (" + t.addr.String() + ")"
	switch f.Event {
	case engine.EventInternal:
		return s.fail("check the local address in --egress, the proxy and the file limit",
			"no connection can leave from here: %s", f.Detail)
	case engine.EventRefusedHost:
		return s.unknown("give the MX host a public address", "not tried: %s is not a public address", at)
	case engine.EventTimeout:
		return s.fail("ask your hoster to open outgoing TCP port 25; many keep it closed until asked",
			"no answer from %s: outgoing port %d seems closed", at, t.addr.Port())
	}
	return s.fail("check the firewall, and that the server runs", "%s refuses the connection", at)
}

// sessionFinding says how a session began. Any reply of the server shows that the port is open.
func sessionFinding(s subject, t target, f smtp.Fault) Finding {
	at := printable(t.host) + " (" + t.addr.String() + ")"
	switch {
	case f.None():
		return s.ok("a session with %s", at)
	case f.Event == engine.EventReply:
		return s.warn("read the reply, and do what it asks; see dnsbl and ptr", "%s refuses us at %s: %d %s", at,
			f.Stage, f.Reply.Code, printable(f.Reply.Text()))
	case f.Stage == engine.StageBanner:
		return s.warn("look for a firewall or proxy that takes connections to port 25 and keeps them",
			"%s takes the connection but does not greet", at)
	}
	return s.warn("look at the log of that server", "the session with %s broke off at %s: %s", at, f.Stage, f.Detail)
}

// checkMailbox asks the domain's own server whether it takes mail for MAIL FROM, as receivers do that check senders.
func (a *audit) checkMailbox(ctx context.Context, session *smtp.Session, host string) Finding {
	s := subject{"mailbox", printable(a.MailFrom)}
	var reply engine.Reply
	o := session.Transaction(ctx, []smtp.Rcpt{{Local: a.addr.Local(), Domain: a.addr.Domain()}},
		func(_ int, r engine.Reply) { reply = r })
	if reply.Code == 0 {
		if o.Mail.Code != 0 && !o.Mail.Positive() {
			return s.warn("let your mail server take MAIL FROM:<> (RFC 5321 section 4.5.5)",
				"%s refuses the empty sender: %d %s", printable(host), o.Mail.Code, printable(o.Mail.Text()))
		}
		return s.unknown("run doctor again later", "no answer about it from %s", printable(host))
	}
	said := strconv.Itoa(reply.Code) + " " + printable(reply.Text())
	return mailboxFinding(s, a.Table.Classify(a.Table.Match([]string{host}), reply, engine.SenderIdentity{}).Meaning,
		said)
}

func mailboxFinding(s subject, m engine.Meaning, said string) Finding {
	switch m {
	case engine.Accepted:
		return s.ok("its server takes mail for it")
	case engine.NoMailbox, engine.MailboxDisabled:
		return s.fail("create the mailbox, or give --mail-from with one that exists", "its server does not know it: %s",
			said)
	case engine.MailboxFull:
		return s.fail("empty the mailbox", "it is full: %s", said)
	case engine.RelayDenied:
		return s.fail("point the MX record to a server that takes mail for the domain",
			"the MX host does not serve the domain: %s", said)
	case engine.Greylisted, engine.Temporary, engine.RateLimited:
		return s.unknown("run doctor again in some minutes", "deferred: %s", said)
	}
	return s.unknown("read the reply: it is about us, not about the mailbox", "not told: %s", said)
}
