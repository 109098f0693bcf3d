package prober

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/engine/dns"
	"probity/engine/smtp"
	"probity/prober/source"
	"probity/prober/wire/press"
	"probity/store/cache"
)

// Config holds what a node's prober needs. Table, Resolver, Dial, Cache and Sources are required.
type Config struct {
	Node     string        // this node's name: Answer.Node
	Table    *engine.Table // providers, their limits and rules; SetTable swaps it
	Resolver *dns.Resolver // finds the addresses of MX hosts
	Dial     smtp.DialFunc // opens connections
	// verdicts, decoy facts, budgets; throttled under load from single calls; closed by its owner after Run
	Cache    *cache.Cache
	Sources  []source.Identity     // egress sources; at least one
	MailFrom string                // reverse-path without brackets
	SOCKS5   smtp.Proxy            // proxy of sources without one of their own; default none
	Port     uint16                // of mail servers; default 25
	Timeouts smtp.Timeouts         // of a session; zero fields take the defaults of engine/smtp
	Connect  time.Duration         // limit of one TCP connect; default 15 s
	Log      *slog.Logger          // default: none
	Metrics  prometheus.Registerer // default: none

	// AllowPrivate permits probing hosts on private and loopback addresses: for tests and the simulated internet.
	AllowPrivate bool
	// SkipWarmUp gives new sources their full budgets at once. Without it, a source begins with a tenth, doubled daily;
	// sources that are not on the internet (AllowPrivate, private addresses) have no warm-up.
	SkipWarmUp bool
	// Suppressed reports a domain whose owner, or the owner of one of its MX hosts, asked not to be probed. Default:
	// none.
	Suppressed func(domain string, hosts []string) bool
	// SuppressedAddress reports a suppressed address. Default: none.
	SuppressedAddress func(engine.Address) bool

	// SingleLoad counts the single calls of a process with a coordinator, which also sees those that need no node.
	// Default: the calls that reach this prober are counted.
	SingleLoad *press.Meter

	// open at one time in all queues; default 1,000. internal/nodeflags derives it from RLIMIT_NOFILE
	MaxSessions      int
	MaxQueueSessions int           // sessions of a ready queue whose receiver has no limit; default 16
	MaxQueues        int           // default 50,000
	MaxRows          int           // probes in memory; default 400,000 (about 600 bytes each)
	MaxRetries       int           // single calls that wait for their retry; default 100,000
	Part             int           // rows per emitted part; default 512
	Flush            time.Duration // longest wait of a finished row for its part; default 500 ms
	Linger           time.Duration // how long an idle session waits for work; default 250 ms
}

// withDefaults fills in the defaults and checks required fields.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Table == nil || c.Resolver == nil || c.Dial == nil || c.Cache == nil:
		return c, errors.New("prober: Table, Resolver, Dial and Cache are needed")
	case len(c.Sources) == 0:
		return c, errors.New("prober: at least one egress identity is needed")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Suppressed == nil {
		c.Suppressed = func(string, []string) bool { return false }
	}
	if c.SuppressedAddress == nil {
		c.SuppressedAddress = func(engine.Address) bool { return false }
	}
	if c.Port == 0 {
		c.Port = 25
	}
	c.MaxSessions, c.MaxQueueSessions, c.MaxQueues = orElse(c.MaxSessions, 1000), orElse(c.MaxQueueSessions, 16),
		orElse(c.MaxQueues, 50_000)
	c.MaxRows, c.MaxRetries, c.Part = orElse(c.MaxRows, 400_000), orElse(c.MaxRetries, 100_000), orElse(c.Part, 512)
	c.Connect = orElse(c.Connect, 15*time.Second)
	c.Flush, c.Linger = orElse(c.Flush, 500*time.Millisecond), orElse(c.Linger, 250*time.Millisecond)
	return c, nil
}

// orElse is v, or d where v is zero or less.
func orElse[T int | time.Duration](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}
