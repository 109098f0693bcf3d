package certs

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"time"
)

// clockSkew is how far another machine's clock may be behind the authority's.
const clockSkew = time.Hour

// issued is a certificate and its key, in PEM.
type issued struct{ cert, key []byte }

// signer is the cluster's authority.
type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(name string, now time.Time, valid time.Duration) (issued, error) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name + " cluster authority"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(valid),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	return sign(template, nil)
}

// issue makes a certificate with its owner's name and one extended key usage. TLS itself then refuses a node that poses
// as a coordinator (RFC 5280 section 4.2.1.12).
func (s *signer) issue(name string, use x509.ExtKeyUsage, now time.Time, valid time.Duration) (issued, error) {
	end := now.Add(valid)
	if end.After(s.cert.NotAfter) {
		end = s.cert.NotAfter
	}
	if !end.After(now) {
		return issued{}, fmt.Errorf("the authority ended on %s; make a new one", s.cert.NotAfter.Format(time.DateOnly))
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-clockSkew), NotAfter: end,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use}}
	return sign(template, s)
}

// sign makes a key and its certificate; by is nil for an authority, which signs itself.
func sign(template *x509.Certificate, by *signer) (issued, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return issued{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return issued{}, err
	}
	parent, key := template, crypto.Signer(private)
	if by != nil {
		parent, key = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return issued{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return issued{}, err
	}
	return issued{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})}, nil
}

func readAuthority(certFile, keyFile string) (*signer, error) {
	cert, err := Read(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; make an authority first: probity certs init", err)
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !cert.IsCA {
		return nil, fmt.Errorf("%s is not an authority's certificate", certFile)
	}
	return &signer{cert, key}, nil
}

// Read reads the first certificate of a file.
func Read(file string) (*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s is not a certificate in PEM", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cert, nil
}

// LoadTLS loads a machine's own certificate and key, and the authority that it trusts.
func LoadTLS(certFile, keyFile, authorityFile string) (tls.Certificate, *x509.CertPool, error) {
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return own, nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	authority, err := Read(authorityFile)
	if err != nil {
		return own, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	_, err = own.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return own, nil, fmt.Errorf("certificate %s is not of authority %s: %w", certFile, authorityFile, err)
	}
	return own, pool, nil
}
