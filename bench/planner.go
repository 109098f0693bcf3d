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

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// maxRecipients bounds the recipients of a baseline, at about 200 bytes each.
const maxRecipients = 1_000_000

// task is the work of a bare client for one host.
type task struct {
	name         string // of the host that the first domain names
	host         netip.Addr
	transactions [][]string // recipients; those of one transaction are of one domain
}

// recipients counts those of the task.
func (e task) recipients() (n int) {
	for _, tr := range e.transactions {
		n += len(tr)
	}
	return n
}

// mailRoute is the route of a domain for a bare client.
type mailRoute struct {
	name              string
	host              netip.Addr
	maxPerTransaction int // recipients in one transaction
}

// planner makes tasks of the addresses of a list. The routes come from the simulated internet's DNS.
type planner struct {
	world  *world.World
	lookup func(ctx context.Context, host string) (netip.Addr, error)
	keep   func(world.Domain) bool // nil keeps every domain

	routes     map[string]mailRoute // by domain; one without a host is skipped
	localParts map[string][]string  // local parts by domain
	skipped    int                  // rows for which a bare client has no host
}

// Limits of a task: one connection's work, and one transaction's.
const (
	perTask        = 5000
	perTransaction = 50
)

// plan reads a list as WriteList writes it, up to maxRecipients.
func (p *planner) plan(ctx context.Context, list string) ([]task, error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p.routes, p.localParts = map[string]mailRoute{}, map[string][]string{}
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
		if p.addAddress(ctx, row[column]) {
			taken++
		}
	}
	return p.buildTasks(), ctx.Err()
}

// addAddress adds one cell's address, if a bare client can probe it.
func (p *planner) addAddress(ctx context.Context, cell string) bool {
	cell = strings.TrimSpace(cell)
	at := strings.LastIndexByte(cell, '@')
	if at < 1 || !isPlainWord(cell[:at]) || !isPlainWord(cell[at+1:]) {
		p.skipped++
		return false
	}
	domain := strings.ToLower(cell[at+1:])
	s, known := p.routes[domain]
	if !known {
		s = p.routeOf(ctx, domain)
		p.routes[strings.Clone(domain)] = s
	}
	if !s.host.IsValid() {
		p.skipped++
		return false
	}
	p.localParts[domain] = append(p.localParts[domain], strings.Clone(cell[:at]))
	return true
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
func (p *planner) routeOf(ctx context.Context, domain string) mailRoute {
	d, ok := p.world.Domain(domain)
	if !ok || len(d.MX) == 0 || d.Persona.Slow || p.keep != nil && !p.keep(d) ||
		d.Persona.Oddity != persona.PlainDNS && d.Persona.Oddity != persona.CNAMEDomain {
		return mailRoute{}
	}
	host, err := p.lookup(ctx, d.MX[0].Host)
	if err != nil || !host.Is4() {
		return mailRoute{}
	}
	if d.Persona.Limits.RcptsPerTransaction == 1 {
		return mailRoute{name: d.MX[0].Host, host: host, maxPerTransaction: 1}
	}
	return mailRoute{name: d.MX[0].Host, host: host, maxPerTransaction: perTransaction}
}

// buildTasks makes tasks of at most perTask recipients, the same for the same list.
func (p *planner) buildTasks() (tasks []task) {
	open := map[netip.Addr]*task{}
	for _, domain := range slices.Sorted(maps.Keys(p.localParts)) {
		s := p.routes[domain]
		for locals := range slices.Chunk(p.localParts[domain], s.maxPerTransaction) {
			e := open[s.host]
			if e == nil {
				e = &task{name: s.name, host: s.host}
				open[s.host] = e
			}
			for i, local := range locals {
				locals[i] = local + "@" + domain
			}
			e.transactions = append(e.transactions, locals)
			if len(e.transactions)*s.maxPerTransaction >= perTask {
				tasks = append(tasks, *e)
				delete(open, s.host)
			}
		}
	}
	for _, host := range slices.SortedFunc(maps.Keys(open), netip.Addr.Compare) {
		tasks = append(tasks, *open[host])
	}
	return tasks
}
