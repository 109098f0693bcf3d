package conn

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
)

// tickets keeps the last TLS session of each known provider, which the next connection resumes instead of a full
// handshake. A provider's hosts share their tickets; a client may use one if its certificate names the host that it
// connects to (RFC 8446 section 4.6.1). A host that does not know the ticket makes a full handshake, at no cost but the
// ticket's bytes. There is at most one for each entry of the provider table. BenchmarkHandshake has the gain.
type tickets struct{ byProvider sync.Map } // of ticket

type ticket struct {
	session *tls.ClientSessionState
	leaf    *x509.Certificate
}

// resume is base with a resumption for one handshake with a host of a provider.
func (t *tickets) resume(base *tls.Config, provider, host string) *tls.Config {
	r := &resumption{tickets: t, provider: provider, host: host}
	c := base.Clone()
	c.ClientSessionCache = r
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) > 0 {
			r.leaf = s.PeerCertificates[0]
		}
		return nil // any certificate will do: see clientTLS
	}
	return c
}

// resumption lets one connection use a ticket and leave a new one.
type resumption struct {
	tickets        *tickets
	provider, host string
	leaf           *x509.Certificate
}

// Get implements tls.ClientSessionCache.
func (r *resumption) Get(string) (*tls.ClientSessionState, bool) {
	v, _ := r.tickets.byProvider.Load(r.provider)
	k, ok := v.(ticket)
	if !ok || k.session == nil || k.leaf.VerifyHostname(r.host) != nil {
		return nil, false
	}
	return k.session, true
}

// Put implements tls.ClientSessionCache; nil takes the ticket back.
func (r *resumption) Put(_ string, s *tls.ClientSessionState) {
	if s == nil || r.leaf != nil {
		r.tickets.byProvider.Store(r.provider, ticket{s, r.leaf})
	}
}
