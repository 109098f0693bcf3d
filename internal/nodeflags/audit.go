package nodeflags

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/internal/console"
	"probity/prober/doctor"
)

// AuditOptions are the inputs of an audit in addition to the probing flags.
type AuditOptions struct {
	Folder string   // data folder
	DNSBLs []string // blocklists; nil for the usual ones, "none" for none
	Target string
	// Callbacks says that this machine may send callbacks; CallbackSource is the flag of that name.
	Callbacks      bool
	CallbackSource string
	Log            *slog.Logger
	Metrics        prometheus.Registerer
}

// Audit makes the audit of the flags, on the sockets and files of this machine. It starts nothing.
func (p *Probing) Audit(table *engine.Table, parts AuditOptions) (*doctor.Doctor, error) {
	servers, err := p.servers()
	if err != nil && !errors.Is(err, console.ErrUsage) {
		return nil, err
	}
	proxy, err := p.proxy()
	if err != nil {
		return nil, err
	}
	sessions := int(p.Concurrency)
	if sessions == 0 {
		sessions = defaultMaxSessions
	}
	cfg := doctor.Config{MailFrom: p.MailFrom, Servers: servers, Table: table, Exchange: exchangeDNS, Dial: DialFrom,
		SOCKS5:       proxy,
		AllowPrivate: p.AllowPrivateTargets, Port: p.SMTPPort, Target: parts.Target, DNSBLs: parts.DNSBLs,
		OpenFiles: openFiles, Sessions: sessions,
		FS: vfs.Default, Folder: parts.Folder, Synced: clockSynced, NotBefore: newest(engine.DefaultTable()),
		Log: parts.Log, Metrics: parts.Metrics}
	if len(parts.DNSBLs) == 1 && parts.DNSBLs[0] == "none" {
		cfg.DNSBLs = []string{}
	}
	if parts.Callbacks {
		if cfg.Callbacks, err = callbackOrigin(parts.CallbackSource); err != nil {
			return nil, err
		}
	}
	for _, e := range p.Egress {
		id, err := e.Parse()
		if err != nil {
			return nil, err
		}
		cfg.Identities = append(cfg.Identities, doctor.Identity{Local: id.Local, Public: id.Public, EHLO: id.EHLO,
			SOCKS5: id.SOCKS5})
	}
	return doctor.New(cfg)
}

// callbackOrigin reads --callback-source for an audit.
func callbackOrigin(source string) (*doctor.Callbacks, error) {
	_, published, err := ParseSource(source)
	if err != nil || len(published) == 0 {
		return &doctor.Callbacks{}, err
	}
	public, err := netip.ParseAddr(published[0])
	return &doctor.Callbacks{Public: public}, err
}

// exchangeDNS sends a query to one server; the context bounds it.
func exchangeDNS(ctx context.Context, network string, m *dns.Msg, server netip.AddrPort) (*dns.Msg, error) {
	client := dns.Client{Net: network, Timeout: time.Minute}
	reply, _, err := client.ExchangeContext(ctx, m, server.String())
	return reply, err
}

// openFiles reads RLIMIT_NOFILE.
func openFiles() (soft, hard uint64, err error) {
	var limit syscall.Rlimit
	err = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, limit.Max, err
}

// newest is the latest date in a provider table. This program was made later than the shipped table.
func newest(table *engine.Table) time.Time {
	var last time.Time
	for _, p := range table.Providers {
		if t, err := time.Parse(time.DateOnly, p.Date); err == nil && t.After(last) {
			last = t
		}
	}
	return last
}
