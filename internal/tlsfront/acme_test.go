package tlsfront

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/acme"
)

// acmeAuthority is the part of RFC 8555 for one name: account, order, challenge over TLS (RFC 8737), certificate. It
// does not check signatures.
type acmeAuthority struct {
	t      *testing.T
	url    string
	target string // address of the challenge
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pool   *x509.CertPool

	mu         sync.Mutex // guards all below
	name       string
	thumbprint string
	validated  bool
	issued     []byte
	orderCount int
}

// acmeToken is the token of every challenge.
const acmeToken = "token-of-the-test"

func newACMEAuthority(t *testing.T, target string) *acmeAuthority {
	a := &acmeAuthority{t: t, target: target, pool: x509.NewCertPool()}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pretend"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.cert)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *acmeAuthority) orders() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.orderCount
}

// ServeHTTP answers in the order of RFC 8555, section 7.1.
func (a *acmeAuthority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Replay-Nonce", base64.RawURLEncoding.EncodeToString([]byte(rand.Text())))
	payload := a.payload(r)
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/directory":
		answer(200, map[string]any{"newNonce": a.url + "/nonce", "newAccount": a.url + "/account",
			"newOrder": a.url + "/order"})
	case "/nonce":
	case "/account":
		w.Header().Set("Location", a.url+"/account/1")
		answer(201, map[string]any{"status": "valid"})
	case "/order":
		a.orderCount++
		a.name = payload["identifiers"].([]any)[0].(map[string]any)["value"].(string)
		w.Header().Set("Location", a.url+"/order/1")
		answer(201, a.order())
	case "/order/1":
		w.Header().Set("Location", a.url+"/order/1")
		answer(200, a.order())
	case "/authz/1":
		answer(200, a.authz())
	case "/challenge/1":
		a.validated = a.verifyChallenge()
		answer(200, a.challenge())
	case "/finalize/1":
		a.sign(payload["csr"].(string))
		w.Header().Set("Location", a.url+"/order/1")
		answer(200, a.order())
	case "/cert/1":
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(a.issued)
	default:
		answer(404, map[string]any{"type": "urn:ietf:params:acme:error:malformed", "detail": r.URL.Path})
	}
}

// payload decodes a signed request. An account's first request also has its key, whose thumbprint the challenge needs.
func (a *acmeAuthority) payload(r *http.Request) map[string]any {
	var jws struct{ Protected, Payload string }
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&jws) != nil {
		return nil
	}
	var head struct {
		JWK *struct{ Crv, Kty, X, Y string } `json:"jwk"`
	}
	raw, _ := base64.RawURLEncoding.DecodeString(jws.Protected)
	if json.Unmarshal(raw, &head) == nil && head.JWK != nil { // RFC 7638
		sum := sha256.Sum256([]byte(`{"crv":"` + head.JWK.Crv + `","kty":"` + head.JWK.Kty + `","x":"` + head.JWK.X +
			`","y":"` + head.JWK.Y + `"}`))
		a.thumbprint = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	var payload map[string]any
	raw, _ = base64.RawURLEncoding.DecodeString(jws.Payload)
	_ = json.Unmarshal(raw, &payload)
	return payload
}

func (a *acmeAuthority) status(done string) string {
	switch {
	case a.issued != nil:
		return "valid"
	case a.validated:
		return done
	}
	return "pending"
}

func (a *acmeAuthority) order() map[string]any {
	o := map[string]any{"status": a.status("ready"),
		"identifiers":    []any{map[string]any{"type": "dns", "value": a.name}},
		"authorizations": []string{a.url + "/authz/1"}, "finalize": a.url + "/finalize/1"}
	if a.issued != nil {
		o["certificate"] = a.url + "/cert/1"
	}
	return o
}

func (a *acmeAuthority) authz() map[string]any {
	return map[string]any{"status": a.status("valid"), "identifier": map[string]any{"type": "dns", "value": a.name},
		"challenges": []any{a.challenge()}}
}

func (a *acmeAuthority) challenge() map[string]any {
	return map[string]any{"type": "tls-alpn-01", "url": a.url + "/challenge/1", "token": acmeToken,
		"status": a.status("valid")}
}

// verifyChallenge connects to the listener (RFC 8737 section 3), and requires the digest in the certificate.
func (a *acmeAuthority) verifyChallenge() bool {
	conn, err := tls.Dial("tcp", a.target, &tls.Config{ServerName: a.name, NextProtos: []string{acme.ALPNProto},
		InsecureSkipVerify: true})
	if err != nil {
		a.t.Errorf("challenge: %v", err)
		return false
	}
	defer conn.Close()
	sum := sha256.Sum256([]byte(acmeToken + "." + a.thumbprint))
	want, _ := asn1.Marshal(sum[:])
	for _, e := range conn.ConnectionState().PeerCertificates[0].Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) {
			return string(e.Value) == string(want)
		}
	}
	return false
}

func (a *acmeAuthority) sign(csr string) {
	der, _ := base64.RawURLEncoding.DecodeString(csr)
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		a.t.Errorf("request: %v", err)
		return
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(90 * 24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.cert, request.PublicKey, a.key)
	if err != nil {
		a.t.Errorf("certificate: %v", err)
		return
	}
	a.issued = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
}
