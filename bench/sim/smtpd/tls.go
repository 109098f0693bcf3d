package smtpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// newTLSConfig makes a key and one self-signed certificate for all hosts, in
// memory. It is valid from a day before now.
func newTLSConfig(now time.Time) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "mx.pretend.example"},
		// Like the certificates of the major receivers, it names their shared hosts.
		DNSNames: []string{"mx.pretend.example", "*.mail.protection.outlook.com", "*.olc.protection.outlook.com",
			"aspmx.l.google.com", "*.aspmx.l.google.com", "gmail-smtp-in.l.google.com", "*.gmail-smtp-in.l.google.com"},
		NotBefore:   now.Add(-24 * time.Hour),
		NotAfter:    now.Add(365 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("host certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}
