package api

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config configures the API. The zero value is usable: every field names its default.
type Config struct {
	PublicURL      string         // how clients reach the server; default: unknown, and links are paths
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is used; default: none
	CORSOrigins    []string       // pages that may use the public endpoint, such as https://example.com; default: none but our own
	CallbackFrom   []string       // addresses that callbacks come from, as published; default: none
	HideDocs       bool           // no /docs and no /openapi.json
	TLS            *tls.Config    // default: none, for a server behind a TLS proxy

	PublicPerDay int // anonymous verifications of all clients together; default 1,000

	MaxConns      int           // open connections; default 16,384
	MaxConnsPerIP int           // of one client address or IPv6 /64, and four times that of a /48, except trusted proxies; default 1,024
	MaxHeader     int           // bytes of request line and header; default 16 KiB
	MaxUpload     int64         // bytes of an upload on the wire; default 9 GiB
	DiskFloor     int64         // free bytes below which uploads are refused; default 1 GiB
	HeaderTimeout time.Duration // to send the header, and the whole of a small body; default 10 s
	IdleTimeout   time.Duration // between two requests of a connection; default 75 s
	StallTimeout  time.Duration // for 16 KiB of an upload, or one write of a download; default 60 s

	// NoDate leaves the Date header out: its clock is a goroutine outside a synctest bubble.
	NoDate bool
}

func (c Config) withDefaults() Config {
	defaultTo(&c.PublicPerDay, 1000)
	defaultTo(&c.MaxConns, 16384)
	defaultTo(&c.MaxConnsPerIP, 1024)
	defaultTo(&c.MaxHeader, 16<<10)
	defaultTo(&c.MaxUpload, 9<<30)
	defaultTo(&c.DiskFloor, 1<<30)
	defaultTo(&c.HeaderTimeout, 10*time.Second)
	defaultTo(&c.IdleTimeout, 75*time.Second)
	defaultTo(&c.StallTimeout, 60*time.Second)
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	return c
}

func defaultTo[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (c Config) check() error {
	if c.PublicURL != "" {
		if _, err := originOf(c.PublicURL); err != nil {
			return fmt.Errorf("public URL: %w", err)
		}
	}
	for _, o := range c.CORSOrigins {
		if got, err := originOf(o); err != nil || got != o {
			return fmt.Errorf("CORS origin %q: want scheme and host, such as https://example.com", o)
		}
	}
	return nil
}

// originOf is the origin of an absolute URL, as a browser sends it.
func originOf(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("%q is no http or https URL", s)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}
