package nodeflags

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"probity/engine"
	"probity/engine/smtp"
	"probity/internal/console"
)

// Probing are the flags of every command that queries the DNS or probes mail servers.
type Probing struct {
	DNS                 []ResolverAddr  `name:"dns" help:"Recursive resolvers, HOST:PORT,...; default: the system's." placeholder:"HOST:PORT"`
	SMTPPort            uint16          `name:"smtp-port" help:"The port of mail servers." default:"25"`
	Egress              []Egress        `help:"An identity to ask from: LOCAL[/PUBLIC]=EHLO-NAME[,socks5=[USER:PASSWORD@]HOST:PORT]; repeatable. LOCAL may be empty. IPv6 targets need an IPv6 one." placeholder:"LOCAL[/PUBLIC]=NAME" sep:"none"`
	Warm                bool            `help:"Skip the warm-up of new sources (a tenth of each budget on the first day, doubled daily). verify remembers no source and always skips it."`
	MailFrom            string          `help:"Our reverse-path in MAIL FROM: an address of a mailbox that exists." placeholder:"ADDRESS"`
	RetrySchedule       []time.Duration `help:"Waits before deferred addresses are asked again; default: the provider table's 1m,5m,15m,60m." placeholder:"1m,5m,..."`
	Providers           string          `help:"Overrides of the provider table, TOML." type:"existingfile" placeholder:"FILE"`
	RespectTerms        bool            `env:"PROBITY_RESPECT_TERMS" help:"Leave receivers alone whose own terms forbid to verify addresses: UNKNOWN, smtp_not_checked. doctor lists them."`
	Concurrency         Sessions        `help:"SMTP sessions at one time; default: from the file limit." placeholder:"N"`
	AllowPrivateTargets bool            `help:"Connect to mail servers on private, loopback or link-local addresses too."`
	SOCKS5              Proxy           `name:"socks5" env:"PROBITY_SOCKS5" help:"Connect through this SOCKS5 proxy. Others on this machine can read a password on the command line: give it by the variable or the configuration file." placeholder:"[USER:PASSWORD@]HOST:PORT"`
}

// Validate is called by the parser.
func (p *Probing) Validate() error {
	if p.MailFrom != "" {
		if _, err := engine.Parse(p.MailFrom); err != nil {
			return fmt.Errorf("--mail-from %q: %w", p.MailFrom, err)
		}
	}
	for _, d := range p.RetrySchedule {
		if d <= 0 {
			return fmt.Errorf("--retry-schedule: a wait of %s is none", d)
		}
	}
	if p.SMTPPort == 0 {
		return errors.New("--smtp-port 0: give the port that mail servers listen at, 25 on the internet")
	}
	sources := map[string]bool{}
	for _, e := range p.Egress {
		id, err := e.Parse()
		if err != nil {
			return err
		}
		name := id.Name()
		if sources[name] {
			return fmt.Errorf("--egress: %s is given twice; give each source once", name)
		}
		sources[name] = true
	}
	_, err := p.proxy()
	return err
}

// Anonymous reports flags that name no sender that public mail servers could check. None is asked then.
func (p *Probing) Anonymous() bool {
	return !p.AllowPrivateTargets && (p.MailFrom == "" || len(p.Egress) == 0)
}

// AnonymousWarning is what the user of anonymous flags must know.
const AnonymousWarning = "addresses that need an SMTP check stay UNKNOWN (smtp_not_checked): to connect to public mail servers, name --egress LOCAL=EHLO-NAME and --mail-from ADDRESS"

// WhyNotAnonymous says the same of one receiver.
const WhyNotAnonymous = "public mail servers are asked with --egress and --mail-from only"

// proxy is the proxy of --socks5; zero without it.
func (p *Probing) proxy() (smtp.Proxy, error) {
	if p.SOCKS5 == "" {
		return smtp.Proxy{}, nil
	}
	proxy, err := smtp.ParseProxy(string(p.SOCKS5))
	if err != nil {
		return proxy, fmt.Errorf("%w: --socks5: %w", console.ErrUsage, err)
	}
	return proxy, nil
}

// Sessions is a number of SMTP sessions; 0 is not given.
type Sessions int

// ParseSessions reads the number of --concurrency. A 0 is refused, as it would be taken for the default.
func ParseSessions(text string) (Sessions, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = strconv.ErrRange
	}
	return Sessions(n), err
}

// ResolverAddr is one --dns.
type ResolverAddr struct{ netip.AddrPort }

// UnmarshalText is called by the parser. The system resolves a name.
func (r *ResolverAddr) UnmarshalText(text []byte) error {
	a, err := net.ResolveUDPAddr("udp", string(text))
	if lookup := (*net.DNSError)(nil); errors.As(err, &lookup) {
		return fmt.Errorf("%q: %w; write an address instead of the name", text, err)
	}
	if err != nil || a.IP == nil || a.Port == 0 {
		return fmt.Errorf("%q is not a resolver; write HOST:PORT, e.g. 192.0.2.53:53", text)
	}
	at := a.AddrPort()
	r.AddrPort = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return nil
}

// Table is the shipped provider table with the operator's overrides.
func (p *Probing) Table() (*engine.Table, error) {
	table := engine.DefaultTable()
	if p.Providers != "" {
		data, err := os.ReadFile(p.Providers)
		if err != nil {
			return nil, fmt.Errorf("%w: --providers: %v", console.ErrUsage, err)
		}
		if table, err = table.Override(data); err != nil {
			return nil, fmt.Errorf("%w: --providers %s: %v; probity providers check says more", console.ErrUsage,
				p.Providers, err)
		}
	}
	if len(p.RetrySchedule) > 0 {
		words := make([]string, len(p.RetrySchedule))
		for i, d := range p.RetrySchedule {
			words[i] = strconv.Quote(d.String())
		}
		var err error
		if table, err = table.Override([]byte("retry_schedule = [" + strings.Join(words, ", ") + "]")); err != nil {
			return nil, err
		}
	}
	if p.RespectTerms {
		return table.RespectTerms()
	}
	return table, nil
}

// servers are the recursive resolvers: those of --dns, else those of resolv.conf.
func (p *Probing) servers() ([]netip.AddrPort, error) {
	var servers []netip.AddrPort
	for _, r := range p.DNS {
		servers = append(servers, r.AddrPort)
	}
	if len(servers) > 0 {
		return servers, nil
	}
	conf, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil {
		return nil, fmt.Errorf("no resolver: %w; name one with --dns HOST:PORT", err)
	}
	for _, s := range conf.Servers {
		if a, err := netip.ParseAddr(s); err == nil {
			servers = append(servers, netip.AddrPortFrom(a, 53))
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: the system names no resolver; name one with --dns HOST:PORT", console.ErrUsage)
	}
	return servers, nil
}
