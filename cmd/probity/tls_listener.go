package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"probity/internal/console"
)

// tlsFlags configure TLS of the public listener. Without any of them, TLS is left to a proxy.
type tlsFlags struct {
	TLSCert       string   `name:"tls-cert" help:"Certificate chain of the public listener, in PEM; read again at SIGHUP." type:"path" placeholder:"FILE"`
	TLSKey        string   `name:"tls-key" help:"Its key." type:"path" placeholder:"FILE"`
	ACMEDomain    []string `name:"acme-domain" help:"Get the certificate for this name from an ACME authority, whose terms you accept by it; repeatable. The authority must reach --listen at port 443." placeholder:"NAME"`
	ACMEEmail     string   `name:"acme-email" help:"E-mail address for notices of the authority." placeholder:"EMAIL"`
	ACMEDirectory string   `name:"acme-directory" help:"ACME directory URL; default: Let's Encrypt." placeholder:"URL"`
}

// tlsListener is the TLS of the public listener.
type tlsListener struct {
	flags  *tlsFlags
	config *tls.Config
	pair   atomic.Pointer[tls.Certificate] // of the files; nil with ACME
}

// acmeTimeout bounds one request to the authority.
const acmeTimeout = 30 * time.Second

// newTLSListener returns nil without TLS flags. data is the folder for certificates of an authority.
func (f *tlsFlags) newTLSListener(data string) (*tlsListener, error) {
	files, authority := f.TLSCert != "" || f.TLSKey != "", len(f.ACMEDomain) > 0
	switch {
	case files && authority:
		return nil, fmt.Errorf("%w: --tls-cert and --acme-domain at once; one says where the certificate comes from", console.ErrUsage)
	case files && (f.TLSCert == "" || f.TLSKey == ""):
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key belong together", console.ErrUsage)
	case files:
		return f.fromFiles()
	case authority:
		return f.fromAuthority(filepath.Join(data, "acme")), nil
	case f.ACMEEmail != "" || f.ACMEDirectory != "":
		return nil, fmt.Errorf("%w: --acme-email and --acme-directory mean nothing without --acme-domain", console.ErrUsage)
	}
	return nil, nil
}

func (f *tlsFlags) fromFiles() (*tlsListener, error) {
	out := &tlsListener{flags: f}
	pair, err := out.readPair()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", console.ErrUsage, err)
	}
	out.pair.Store(pair)
	out.config = serverTLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return out.pair.Load(), nil })
	return out, nil
}

// fromAuthority answers the authority's challenges on the listener itself (RFC 8737): no other port is needed.
func (f *tlsFlags) fromAuthority(dir string) *tlsListener {
	m := &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(dir), HostPolicy: autocert.HostWhitelist(f.ACMEDomain...), Email: f.ACMEEmail,
		Client: &acme.Client{DirectoryURL: f.ACMEDirectory, HTTPClient: &http.Client{Timeout: acmeTimeout}}}
	if f.ACMEDirectory == "" {
		m.Client.DirectoryURL = acme.LetsEncryptURL
	}
	config := serverTLS(m.GetCertificate)
	config.NextProtos = append(config.NextProtos, acme.ALPNProto)
	return &tlsListener{flags: f, config: config}
}

// serverTLS speaks HTTP/1.1 only, as the server behind it does.
func serverTLS(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: get}
}

// readPair reads the files, and refuses a certificate that no client would accept.
func (f *tlsListener) readPair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.flags.TLSCert, f.flags.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s with --tls-key %s: %w", f.flags.TLSCert, f.flags.TLSKey, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("--tls-cert %s ended on %s: get a new one", f.flags.TLSCert, pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	return &pair, nil
}

// reread reads the files again, for use. It returns nil without files.
func (f *tlsListener) reread() (*tls.Certificate, error) {
	if f == nil || f.pair.Load() == nil {
		return nil, nil
	}
	return f.readPair()
}

func (f *tlsListener) use(pair *tls.Certificate) {
	if pair != nil {
		f.pair.Store(pair)
	}
}

// tlsConfig is the configuration of the listener; nil without TLS.
func (f *tlsListener) tlsConfig() *tls.Config {
	if f == nil {
		return nil
	}
	return f.config
}

// scheme is the scheme of the listener's URLs.
func (f *tlsListener) scheme() string {
	if f == nil {
		return "http"
	}
	return "https"
}

// expiry is when the current certificate expires; zero if unknown, as with ACME, which renews by itself.
func (f *tlsListener) expiry() time.Time {
	if f == nil || f.pair.Load() == nil {
		return time.Time{}
	}
	return f.pair.Load().Leaf.NotAfter
}

// contradicts reports a public URL whose scheme the listener does not serve.
func (f *tlsListener) contradicts(publicURL string) bool {
	return f != nil && strings.HasPrefix(publicURL, "http://")
}
