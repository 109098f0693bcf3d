package tlsfront

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// acmeTimeout bounds one request to the authority.
const acmeTimeout = 30 * time.Second

// warnEvery is how often one kind of failure is logged at most: each client that connects meets it again.
const warnEvery = time.Minute

// authority gets certificates from an ACME authority. The manager says nothing of a renewal that fails, and a client's
// handshake only ends: so both failed requests and handshakes without a certificate are counted and logged here.
type authority struct {
	manager  *autocert.Manager
	log      *slog.Logger
	failures atomic.Int64

	mu     sync.Mutex                // guards what follows
	served map[string]servedName     // names of --acme-domain that a client has connected to
	warned map[acmeFailure]time.Time // when it was logged last
}

// servedName is what the last client that connected to a name got.
type servedName struct {
	hello        *tls.ClientHelloInfo // for the same certificate again, renewed or not
	missingSince time.Time            // since when clients get none; zero if they do
}

// acmeFailure is a log message.
type acmeFailure string

const (
	requestFailed   acmeFailure = "ACME authority: a request failed; a certificate may not be renewed"
	handshakeFailed acmeFailure = "ACME authority: there is no certificate, and clients cannot connect"
)

// newAuthority makes it for the names and the account of the flags. dir is where certificates are kept.
func newAuthority(f *Flags, dir string, log *slog.Logger) *authority {
	a := &authority{log: log, served: map[string]servedName{}, warned: map[acmeFailure]time.Time{}}
	client := &acme.Client{DirectoryURL: f.ACMEDirectory, HTTPClient: &http.Client{Timeout: acmeTimeout, Transport: a}}
	if f.ACMEDirectory == "" {
		client.DirectoryURL = acme.LetsEncryptURL
	}
	a.manager = &autocert.Manager{Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(dir),
		HostPolicy: autocert.HostWhitelist(f.ACMEDomain...),
		Email:      f.ACMEEmail, Client: client}
	return a
}

// RoundTrip sends a request to the authority. 400 counts as an answer: it is said of a nonce that is too old, too, and
// the request is repeated with a new one (RFC 8555 section 6.5).
func (a *authority) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	switch {
	case err != nil:
		a.fail(requestFailed, "url", r.URL.String(), "error", err)
	case answer.StatusCode > http.StatusBadRequest:
		a.fail(requestFailed, "url", r.URL.String(), "error", fmt.Errorf("status %s", answer.Status))
	}
	return answer, err
}

// certificate is the certificate for a client. What the client itself does wrong, such as a name that is not ours, is
// no failure.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := a.manager.GetCertificate(hello)
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if slices.Contains(hello.SupportedProtos, acme.ALPNProto) || a.manager.HostPolicy(hello.Context(), name) != nil {
		return cert, err
	}
	if err != nil {
		a.fail(handshakeFailed, "name", name, "error", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := servedName{hello: &tls.ClientHelloInfo{ServerName: name, CipherSuites: hello.CipherSuites,
		SignatureSchemes: hello.SignatureSchemes,
		SupportedCurves:  hello.SupportedCurves}}
	if err != nil {
		now.missingSince = a.served[name].missingSince
		if now.missingSince.IsZero() {
			now.missingSince = time.Now()
		}
	}
	a.served[name] = now
	return cert, err
}

// fail counts a failure, and logs it if it was not logged a short time ago.
func (a *authority) fail(what acmeFailure, attributes ...any) {
	a.failures.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.warned[what]) >= warnEvery {
		a.warned[what] = now
		a.log.Warn(string(what), attributes...)
	}
}

// expiry returns the time at which the first of the certificates ends that clients have got; where they get none, since
// when; zero before the first client.
func (a *authority) expiry() (first time.Time) {
	a.mu.Lock()
	names := make([]servedName, 0, len(a.served))
	for _, n := range a.served {
		names = append(names, n)
	}
	a.mu.Unlock()
	for _, n := range names {
		ends := n.missingSince
		if ends.IsZero() {
			// the manager has it in memory, with the renewals that no client has seen
			cert, err := a.manager.GetCertificate(n.hello)
			if err != nil {
				continue // the next client's handshake fails, and is recorded
			}
			ends = cert.Leaf.NotAfter
		}
		if first.IsZero() || ends.Before(first) {
			first = ends
		}
	}
	return first
}
