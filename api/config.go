package api

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"probity/api/httpd"
)

// Config configures the API. The zero value is usable: every field names its default.
type Config struct {
	httpd.Config

	PublicURL string // how clients reach the server; default: unknown, and links are paths
	// pages that may use the public endpoint, such as https://example.com; default: none but our own
	CORSOrigins  []string
	CallbackFrom []string // addresses that callbacks come from, as published; default: none
	HideDocs     bool     // no /docs and no /openapi.json

	PublicPerDay int   // anonymous verifications of all clients together; default 1,000
	DiskFloor    int64 // free bytes below which uploads are refused; default 1 GiB
}

func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
	c.PublicPerDay = cmp.Or(c.PublicPerDay, 1000)
	c.DiskFloor = cmp.Or(c.DiskFloor, 1<<30)
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	return c
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
		return "", fmt.Errorf("%q is not an http or https URL", s)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}
