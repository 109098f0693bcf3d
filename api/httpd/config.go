package httpd

import (
	"cmp"
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"

	"probity/internal/spans"
)

// Config has the limits of a server. The zero value is usable: every field names its default.
type Config struct {
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is used; default: none
	TLS            *tls.Config    // default: none, for a server behind a TLS proxy

	MaxConns int // open connections; default 16,384
	// of one client address or IPv6 /64, and four times that of a /48, except trusted proxies; default 1,024
	MaxConnsPerIP int
	MaxHeader     int           // bytes of request line and header; default 16 KiB
	MaxUpload     int64         // bytes of an upload on the wire; default 9 GiB
	HeaderTimeout time.Duration // to send the header, and the whole of a small body; default 10 s
	IdleTimeout   time.Duration // between two requests of a connection; default 75 s
	StallTimeout  time.Duration // for 16 KiB of an upload, or one write of a download; default 60 s

	Front  Front         // default: none
	Tracer *spans.Tracer // default: no spans are recorded

	// NoDate leaves the Date header out: its clock is a goroutine outside a synctest bubble.
	NoDate bool
}

// Front answers well-framed requests with the answers to other requests.
type Front interface {
	// Owns reports whether Handle answers the request.
	Owns(*fasthttp.RequestCtx) bool
	// Handle answers a request that it owns. The handler answers what Handle makes of the request.
	Handle(*fasthttp.RequestCtx, fasthttp.RequestHandler)
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	c.MaxConns = cmp.Or(c.MaxConns, 16384)
	c.MaxConnsPerIP = cmp.Or(c.MaxConnsPerIP, 1024)
	c.MaxHeader = cmp.Or(c.MaxHeader, 16<<10)
	c.MaxUpload = cmp.Or(c.MaxUpload, 9<<30)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 10*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 75*time.Second)
	c.StallTimeout = cmp.Or(c.StallTimeout, 60*time.Second)
	return c
}
