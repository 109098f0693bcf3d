package baseline

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// maxRecipients bounds the recipients of a baseline, at about 200 bytes each.
const maxRecipients = 1_000_000

// Task is the work for one host, over as many connections as the host requires.
type Task struct {
	Host         string // that the first domain names
	At           netip.AddrPort
	Transactions [][]string // recipients; those of one transaction are of one domain
}

// recipients counts those of the task.
func (t Task) recipients() (n int) {
	for _, tr := range t.Transactions {
		n += len(tr)
	}
	return n
}

// route is the mail route of a domain for a bare client.
type route struct {
	host              string
	addr              netip.Addr
	maxPerTransaction int // recipients in one transaction
}

// Planner makes tasks of the addresses of a list. The addresses of hosts come from the simulated internet's DNS.
type Planner struct {
	World *world.World
	Dial  Dial
	DNS   netip.AddrPort
	Port  int // of all mail hosts

	hosts      map[string]netip.Addr // of the hosts that were looked up
	routes     map[string]route      // by domain; one without a host is skipped
	localParts map[string][]string   // local parts by domain
	skipped    int                   // rows for which a bare client has no host
}

// Limits of a task: one connection's work, and one transaction's.
const (
	perTask        = 5000
	perTransaction = 50
)

// Plan reads a list as WriteList writes it, up to maxRecipients.
func (p *Planner) Plan(ctx context.Context, list string) ([]Task, error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p.hosts, p.routes, p.localParts = map[string]netip.Addr{}, map[string]route{}, map[string][]string{}
	rows := csv.NewReader(f)
	rows.ReuseRecord = true
	column := slices.Index(strings.Split(world.ListHeader, ","), "email")
	if _, err := rows.Read(); err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	for taken := 0; taken < maxRecipients; {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		cell := strings.TrimSpace(row[column])
		at := strings.LastIndexByte(cell, '@')
		if at < 1 || !isPlainWord(cell[:at]) || !isPlainWord(cell[at+1:]) {
			p.skipped++
			continue
		}
		domain := strings.ToLower(cell[at+1:])
		r, known := p.routes[domain]
		if !known {
			r = p.routeOf(ctx, domain)
			p.routes[strings.Clone(domain)] = r
		}
		if !r.addr.IsValid() {
			p.skipped++
			continue
		}
		p.localParts[domain] = append(p.localParts[domain], strings.Clone(cell[:at]))
		taken++
	}
	return p.buildTasks(), ctx.Err()
}

// isPlainWord reports visible ASCII that needs no quotes (RFC 5321 section 4.1.2).
func isPlainWord(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),:;<>@[\]`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// routeOf is the first MX host of a domain. Hosts that never answer are left out: they would measure a timeout.
func (p *Planner) routeOf(ctx context.Context, domain string) route {
	d, ok := p.World.Domain(domain)
	if !ok || len(d.MX) == 0 || d.Persona.Slow || d.Persona.Oddity != persona.PlainDNS &&
		d.Persona.Oddity != persona.CNAMEDomain {
		return route{}
	}
	r := route{host: d.MX[0].Host, addr: p.addrOf(ctx, d.MX[0].Host), maxPerTransaction: perTransaction}
	if d.Persona.Limits.RcptsPerTransaction == 1 {
		r.maxPerTransaction = 1
	}
	return r
}

// addrOf is the first IPv4 address of a host, which is looked up once; invalid without one.
func (p *Planner) addrOf(ctx context.Context, host string) netip.Addr {
	if a, ok := p.hosts[host]; ok {
		return a
	}
	conn, err := p.Dial(ctx, "udp", p.DNS.String())
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	question := new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeA)
	answer, _, err := new(dns.Client).ExchangeWithConnContext(ctx, question, &dns.Conn{Conn: conn})
	if err != nil {
		return netip.Addr{}
	}
	for _, rr := range answer.Answer {
		if a, ok := rr.(*dns.A); ok {
			if addr, ok := netip.AddrFromSlice(a.A.To4()); ok {
				p.hosts[host] = addr
				return addr
			}
		}
	}
	return netip.Addr{}
}

// buildTasks makes tasks of at most perTask recipients, the same for the same list.
func (p *Planner) buildTasks() (tasks []Task) {
	open := map[netip.Addr]*Task{}
	for _, domain := range slices.Sorted(maps.Keys(p.localParts)) {
		r := p.routes[domain]
		for locals := range slices.Chunk(p.localParts[domain], r.maxPerTransaction) {
			e := open[r.addr]
			if e == nil {
				e = &Task{Host: r.host, At: netip.AddrPortFrom(r.addr, uint16(p.Port))}
				open[r.addr] = e
			}
			for i, local := range locals {
				locals[i] = local + "@" + domain
			}
			e.Transactions = append(e.Transactions, locals)
			if len(e.Transactions)*r.maxPerTransaction >= perTask {
				tasks = append(tasks, *e)
				delete(open, r.addr)
			}
		}
	}
	for _, host := range slices.SortedFunc(maps.Keys(open), netip.Addr.Compare) {
		tasks = append(tasks, *open[host])
	}
	return tasks
}
