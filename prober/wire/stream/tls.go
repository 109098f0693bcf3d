package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// ServerTLS are a node's credentials: only peers with a client certificate of the cluster's authority are accepted. A
// handshake that fails is logged, because the peer may not report it.
func ServerTLS(own tls.Certificate, authority *x509.CertPool, log *slog.Logger) credentials.TransportCredentials {
	return loggedHandshakes{log: log, TransportCredentials: credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{own}, ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert})}
}

// ClientTLS are a coordinator's credentials towards one node: its certificate must be of the cluster's authority and
// name it.
func ClientTLS(own tls.Certificate, authority *x509.CertPool, node string) credentials.TransportCredentials {
	return heardHandshakes{credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{own}, RootCAs: authority,
		ServerName: node})}
}

type loggedHandshakes struct {
	credentials.TransportCredentials
	log *slog.Logger
}

func (lh loggedHandshakes) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := lh.TransportCredentials.ServerHandshake(conn)
	if err != nil && lh.log != nil {
		lh.log.Warn("refused a connection to this node", "from", conn.RemoteAddr().String(), "why", err)
	}
	return secured, info, err
}

func (lh loggedHandshakes) Clone() credentials.TransportCredentials {
	return loggedHandshakes{lh.TransportCredentials.Clone(), lh.log}
}

// heardHandshakes wait for the server's first octet. In TLS 1.3 a client is done before the server has looked at its
// certificate (RFC 8446 section 4.4.4), and the error of a write to a closed connection would hide the refusal. An
// HTTP/2 server sends its preface unasked (RFC 9113 section 3.4).
type heardHandshakes struct {
	credentials.TransportCredentials
}

func (hh heardHandshakes) ClientHandshake(ctx context.Context, name string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := hh.TransportCredentials.ClientHandshake(ctx, name, raw)
	if err != nil {
		return nil, nil, err
	}
	deadline, _ := ctx.Deadline()
	heard := &heardConn{Conn: conn}
	if err = conn.SetReadDeadline(deadline); err == nil {
		_, err = io.ReadFull(conn, heard.first[:])
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("after the handshake: %w", err)
	}
	return heard, info, nil
}

func (hh heardHandshakes) Clone() credentials.TransportCredentials {
	return heardHandshakes{hh.TransportCredentials.Clone()}
}

// heardConn gives back the octet that was read ahead.
type heardConn struct {
	net.Conn
	first [1]byte
	given bool
}

func (c *heardConn) Read(b []byte) (int, error) {
	if c.given || len(b) == 0 {
		return c.Conn.Read(b)
	}
	c.given = true
	return copy(b, c.first[:]), nil
}
