package smtp

import (
	"crypto/tls"
	"time"

	"probity/engine"
)

// Config is how a Session presents itself and what it tolerates. EHLO is required; other zero fields take the default.
type Config struct {
	EHLO     string // the name we greet with: our FQDN, or an address literal (RFC 5321 section 4.1.3)
	MailFrom string // reverse-path without brackets; empty is <>

	TLS engine.TLSPolicy
	// TLSConfig is cloned for each session. By default certificates are not verified: opportunistic TLS protects
	// against passive listeners, and does not authenticate the server (RFC 7435).
	TLSConfig *tls.Config

	// OneByOne sends one command at a time, whatever the server offers.
	OneByOne bool
	// Settle is how long each command waits for a reply that comes before it, and the last reply for one after it. With
	// it, a server that answers twice is found out before an answer counts; zero looks only at what has arrived.
	Settle time.Duration

	// Patience is asked after each Timeouts.Banner of silence whether to wait for the banner still: RFC 5321 section
	// 4.5.3.2.1 allows a server five minutes. Nil is no.
	Patience func() bool

	Timeouts      Timeouts
	MaxLine       int // bytes of a reply line, its end included; default 4,096
	MaxReplyLines int // lines of a reply; default 100
	MaxReplyBytes int // bytes of a reply; default 16 KiB
	MaxBytes      int // bytes received in a session; default 1 MiB
}

// Timeouts bound the wait for one whole reply of each phase, so that a server cannot extend it by sending single bytes.
// They are far below those of RFC 5321 section 4.5.3.2, which are meant for mail that must not be lost.
type Timeouts struct {
	Banner      time.Duration // default 30 s
	EHLO        time.Duration // default 30 s
	TLS         time.Duration // STARTTLS and, once more, the handshake; default 15 s
	Mail        time.Duration // and RSET; default 30 s
	Rcpt        time.Duration // default 30 s
	Transaction time.Duration // all replies of one transaction; default 5 min
	Quit        time.Duration // default 5 s
	Linger      time.Duration // for the server's close after ours; default 2 s
}

func (c Config) withDefaults() Config {
	t := &c.Timeouts
	t.Banner = orDefault(t.Banner, 30*time.Second)
	t.EHLO = orDefault(t.EHLO, 30*time.Second)
	t.TLS = orDefault(t.TLS, 15*time.Second)
	t.Mail = orDefault(t.Mail, 30*time.Second)
	t.Rcpt = orDefault(t.Rcpt, 30*time.Second)
	t.Transaction = orDefault(t.Transaction, 5*time.Minute)
	t.Quit = orDefault(t.Quit, 5*time.Second)
	t.Linger = orDefault(t.Linger, 2*time.Second)
	c.MaxLine = orDefault(c.MaxLine, 4096)
	c.MaxReplyLines = orDefault(c.MaxReplyLines, 100)
	c.MaxReplyBytes = orDefault(c.MaxReplyBytes, 16<<10)
	c.MaxBytes = orDefault(c.MaxBytes, 1<<20)
	return c
}

// orDefault is v, or d if v is zero or less.
func orDefault[T int | time.Duration](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}

// tlsConfig is the configuration of one handshake with a host.
func (c *Config) tlsConfig(host string) *tls.Config {
	if c.TLSConfig == nil {
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, ServerName: host}
	}
	conf := c.TLSConfig.Clone()
	if conf.ServerName == "" {
		conf.ServerName = host
	}
	return conf
}
