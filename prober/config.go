package prober

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/engine/dns"
	"probity/engine/smtp"
	"probity/prober/wire/press"
	"probity/store/cache"
)

// Config is all that a node's prober is made of. Table, Resolver, Dial, Cache and Sources are needed.
type Config struct {
	Node     string                // this node's name: Answer.Node
	Table    *engine.Table         // providers, their limits and rules; SetTable swaps it
	Resolver *dns.Resolver         // finds the addresses of MX hosts
	Dial     smtp.DialFunc         // opens connections
	Cache    *cache.Cache          // verdicts, decoy facts, budgets; it gives way under load from single calls; closed by its owner after Run
	Sources  []Source              // who we are; at least one
	MailFrom string                // reverse-path without brackets
	SOCKS5   smtp.Proxy            // connects for sources that have none of their own; default none
	Port     uint16                // of mail servers; default 25
	Timeouts smtp.Timeouts         // of a session; zero fields take that package's defaults
	Connect  time.Duration         // bound of one TCP connect; default 15 s
	Log      *slog.Logger          // default: none
	Metrics  prometheus.Registerer // default: none

	// AllowPrivate lets hosts on private and loopback addresses be asked: for tests and the pretend internet.
	AllowPrivate bool
	// SkipWarmUp gives new sources all of their budgets at once. Without it, a source begins with a tenth and doubles daily;
	// what is not on the internet (AllowPrivate, private addresses) needs no warming up.
	SkipWarmUp bool
	// Suppressed reports a domain or one of its MX hosts whose owner asked never to be probed. Default: no owner did.
	Suppressed func(domain string, hosts []string) bool
	// SuppressedAddress is the same of one address. Default: no owner did.
	SuppressedAddress func(engine.Address) bool

	// SingleLoad counts singles of this process where a coordinator does so: it knows of those, too, for which no node need be asked.
	// Default: those are counted that this prober is asked for.
	SingleLoad *press.Meter

	MaxSessions      int           // open at one time, over all queues; default 1,000. cmd derives it from RLIMIT_NOFILE
	MaxQueueSessions int           // sessions of a ready queue whose receiver names no limit; default 16
	MaxQueues        int           // default 50,000
	MaxRows          int           // probes in memory; default 400,000 (about 600 bytes each)
	MaxRetries       int           // singles that wait for their retry; default 100,000
	Part             int           // rows of one emitted part; default 512
	Flush            time.Duration // longest wait of a finished row for its part; default 500 ms
	Linger           time.Duration // how long an idle session waits for more; default 250 ms
}

// withDefaults fills in the defaults and refuses what cannot work.
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
	c.MaxSessions, c.MaxQueueSessions, c.MaxQueues = orElse(c.MaxSessions, 1000), orElse(c.MaxQueueSessions, 16), orElse(c.MaxQueues, 50_000)
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
