package tlsfront

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"

	"probity/internal/console"
)

// Flags configure TLS of the public listener. Without any of them, TLS is left to a proxy.
type Flags struct {
	TLSCert       string   `name:"tls-cert" help:"Certificate chain of the public listener, in PEM; read again at SIGHUP." type:"path" placeholder:"FILE"`
	TLSKey        string   `name:"tls-key" help:"Its key." type:"path" placeholder:"FILE"`
	ACMEDomain    []string `name:"acme-domain" help:"Get the certificate for this name from an ACME authority, whose terms you accept by it; repeatable. The authority must reach --listen at port 443." placeholder:"NAME"`
	ACMEEmail     string   `name:"acme-email" help:"E-mail address for notices of the authority." placeholder:"EMAIL"`
	ACMEDirectory string   `name:"acme-directory" help:"ACME directory URL; default: Let's Encrypt." placeholder:"URL"`
}

// Listener is the TLS of the public listener.
type Listener struct {
	flags  *Flags
	config *tls.Config
	pair   atomic.Pointer[tls.Certificate] // of the files; nil with ACME
	acme   *authority                      // nil with files
}

// New makes the TLS of the flags; it is nil without TLS flags. data is the folder for certificates of an authority,
// whose failures are logged.
func New(f *Flags, data string, log *slog.Logger) (*Listener, error) {
	files, authority := f.TLSCert != "" || f.TLSKey != "", len(f.ACMEDomain) > 0
	switch {
	case files && authority:
		return nil, fmt.Errorf("%w: --tls-cert and --acme-domain at once; one says where the certificate comes from",
			console.ErrUsage)
	case files && (f.TLSCert == "" || f.TLSKey == ""):
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key belong together", console.ErrUsage)
	case files:
		return f.fromFiles()
	case authority:
		return f.fromAuthority(filepath.Join(data, "acme"), log), nil
	case f.ACMEEmail != "" || f.ACMEDirectory != "":
		return nil, fmt.Errorf("%w: --acme-email and --acme-directory mean nothing without --acme-domain",
			console.ErrUsage)
	}
	return nil, nil
}

func (f *Flags) fromFiles() (*Listener, error) {
	out := &Listener{flags: f}
	pair, err := out.readPair()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", console.ErrUsage, err)
	}
	out.pair.Store(pair)
	out.config = serverTLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return out.pair.Load(), nil })
	return out, nil
}

// fromAuthority answers the authority's challenges on the listener itself (RFC 8737): no other port is needed.
func (f *Flags) fromAuthority(dir string, log *slog.Logger) *Listener {
	from := newAuthority(f, dir, log)
	config := serverTLS(from.certificate)
	config.NextProtos = append(config.NextProtos, acme.ALPNProto)
	return &Listener{flags: f, config: config, acme: from}
}

// serverTLS speaks HTTP/1.1 only, as the server behind it does.
func serverTLS(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: get}
}

// readPair reads the files, and refuses a certificate that no client would accept.
func (l *Listener) readPair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(l.flags.TLSCert, l.flags.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s with --tls-key %s: %w", l.flags.TLSCert, l.flags.TLSKey, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("--tls-cert %s ended on %s: get a new one", l.flags.TLSCert,
			pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	return &pair, nil
}

// Reread reads the files again, for use. It returns nil without files.
func (l *Listener) Reread() (*tls.Certificate, error) {
	if l == nil || l.pair.Load() == nil {
		return nil, nil
	}
	return l.readPair()
}

// Use serves a pair that Reread returned, from the next connection on.
func (l *Listener) Use(pair *tls.Certificate) {
	if pair != nil {
		l.pair.Store(pair)
	}
}

// Config is the configuration of the listener; nil without TLS.
func (l *Listener) Config() *tls.Config {
	if l == nil {
		return nil
	}
	return l.config
}

// Scheme is the scheme of the listener's URLs.
func (l *Listener) Scheme() string {
	if l == nil {
		return "http"
	}
	return "https"
}

// Expiry returns the time at which the current certificate expires. With ACME it is the first of those that clients
// got, or since when clients get none. It is zero without TLS, and with ACME before the first client.
func (l *Listener) Expiry() time.Time {
	switch {
	case l == nil:
		return time.Time{}
	case l.acme != nil:
		return l.acme.expiry()
	}
	return l.pair.Load().Leaf.NotAfter
}

// ACMEFailures returns how many requests to the authority failed, and how many handshakes for want of a certificate;
// false without an authority.
func (l *Listener) ACMEFailures() (int64, bool) {
	if l == nil || l.acme == nil {
		return 0, false
	}
	return l.acme.failures.Load(), true
}

// Contradicts reports whether the listener does not serve the scheme of publicURL.
func (l *Listener) Contradicts(publicURL string) bool {
	return l != nil && strings.HasPrefix(publicURL, "http://")
}
