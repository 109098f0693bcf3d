package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"probity/coordinator/outward"
)

const (
	tlsTimeout = 15 * time.Second

	// unsentBytes bounds the system's send buffer. The 15 s for an answer begin once the system has the last byte; they
	// must not pass while megabytes are still in transit to a slow receiver.
	unsentBytes = 256 << 10
)

// ErrURL begins every refusal of a callback URL; the text after it says what to do.
var ErrURL = errors.New("callback_url")

// CheckURL refuses a URL that no callback would be sent to. A name with only forbidden addresses is refused. A name
// that cannot be resolved now is not: each attempt checks the address that it dials.
func (s *Sender) CheckURL(ctx context.Context, raw string) error {
	if err := s.cfg.Dialer.Check(ctx, raw); err != nil {
		return fmt.Errorf("%w: %w", ErrURL, err)
	}
	return nil
}

// parseTarget parses a callback URL.
func (s *Sender) parseTarget(raw string) (*outward.Target, error) {
	t, err := s.cfg.Dialer.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return t, nil
}

// receiverConn is a connection to a receiver. Conn carries HTTP; raw sets write timeouts and is closed at the end.
type receiverConn struct {
	net.Conn
	raw *timedConn
}

// connect opens a connection to a receiver, with TLS and a verified certificate if the URL is https. Its errors are
// those of an attempt.
func (s *Sender) connect(ctx context.Context, t *outward.Target) (*receiverConn, error) {
	conn, err := s.cfg.Dialer.Connect(ctx, t)
	if err != nil {
		return nil, err
	}
	if sized, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		_ = sized.SetWriteBuffer(unsentBytes) // a hint only
	}
	raw := &timedConn{Conn: conn}
	if t.URL.Scheme != "https" {
		return &receiverConn{Conn: raw, raw: raw}, nil
	}
	secured := tls.Client(raw, &tls.Config{
		ServerName: t.Host, RootCAs: s.cfg.RootCAs, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	})
	ctx, done := context.WithTimeout(ctx, tlsTimeout)
	defer done()
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return nil, fmt.Errorf("%w: %w", errTLS, bad)
		}
		return nil, errTLS
	}
	return &receiverConn{Conn: secured, raw: raw}, nil
}
