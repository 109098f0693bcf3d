package bench

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

	"probity/bench/sim"
)

// maxRecipients bounds how much of a list a floor asks for; about 200 bytes each.
const maxRecipients = 1_000_000

// errand is what a bare client asks one host for.
type errand struct {
	name         string // of the host that the first domain names
	host         netip.Addr
	transactions [][]string // recipients; those of one transaction are of one domain
}

// recipients counts those of the errand.
func (e errand) recipients() (n int) {
	for _, tr := range e.transactions {
		n += len(tr)
	}
	return n
}

// site is where the mail of a domain goes, as far as a bare client cares.
type site struct {
	name string
	host netip.Addr
	most int // recipients in one transaction
}

// planner cuts the addresses of a list into errands. The routes come from the pretend internet's own DNS.
type planner struct {
	world *sim.World
	ask   func(ctx context.Context, host string) (netip.Addr, error)
	keep  func(sim.Domain) bool // nil keeps every domain

	sites   map[string]site     // by domain; one without a host is not asked
	asked   map[string][]string // local parts by domain
	skipped int                 // rows that a bare client has no host for
}

// Limits of an errand: one connection's work, and one transaction's.
const (
	perErrand      = 5000
	perTransaction = 50
)

// plan reads a list as WriteList writes it, up to maxRecipients.
func (p *planner) plan(ctx context.Context, list string) ([]errand, error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p.sites, p.asked = map[string]site{}, map[string][]string{}
	rows := csv.NewReader(f)
	rows.ReuseRecord = true
	column := slices.Index(strings.Split(sim.ListHeader, ","), "email")
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
		if p.take(ctx, row[column]) {
			taken++
		}
	}
	return p.cut(), ctx.Err()
}

// take notes one cell's address, if a bare client can ask for it.
func (p *planner) take(ctx context.Context, cell string) bool {
	cell = strings.TrimSpace(cell)
	at := strings.LastIndexByte(cell, '@')
	if at < 1 || !plainWord(cell[:at]) || !plainWord(cell[at+1:]) {
		p.skipped++
		return false
	}
	domain := strings.ToLower(cell[at+1:])
	s, known := p.sites[domain]
	if !known {
		s = p.siteOf(ctx, domain)
		p.sites[strings.Clone(domain)] = s
	}
	if !s.host.IsValid() {
		p.skipped++
		return false
	}
	p.asked[domain] = append(p.asked[domain], strings.Clone(cell[:at]))
	return true
}

// plainWord reports visible ASCII without what needs quotes (RFC 5321 section 4.1.2).
func plainWord(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),:;<>@[\]`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// siteOf is the first MX host of a domain. Hosts that never answer are left out: they would measure a timeout.
func (p *planner) siteOf(ctx context.Context, domain string) site {
	d, ok := p.world.Domain(domain)
	if !ok || len(d.MX) == 0 || d.Persona.Slow || p.keep != nil && !p.keep(d) {
		return site{}
	}
	if d.Persona.Oddity != sim.PlainDNS && d.Persona.Oddity != sim.CNAMEDomain {
		return site{}
	}
	host, err := p.ask(ctx, d.MX[0].Host)
	if err != nil || !host.Is4() {
		return site{}
	}
	if d.Persona.Limits.RcptsPerTransaction == 1 {
		return site{name: d.MX[0].Host, host: host, most: 1}
	}
	return site{name: d.MX[0].Host, host: host, most: perTransaction}
}

// cut makes errands of at most perErrand recipients, the same for the same list.
func (p *planner) cut() (errands []errand) {
	open := map[netip.Addr]*errand{}
	for _, domain := range slices.Sorted(maps.Keys(p.asked)) {
		s := p.sites[domain]
		for locals := range slices.Chunk(p.asked[domain], s.most) {
			e := open[s.host]
			if e == nil {
				e = &errand{name: s.name, host: s.host}
				open[s.host] = e
			}
			for i, local := range locals {
				locals[i] = local + "@" + domain
			}
			e.transactions = append(e.transactions, locals)
			if len(e.transactions)*s.most >= perErrand {
				errands = append(errands, *e)
				delete(open, s.host)
			}
		}
	}
	for _, host := range slices.SortedFunc(maps.Keys(open), netip.Addr.Compare) {
		errands = append(errands, *open[host])
	}
	return errands
}
