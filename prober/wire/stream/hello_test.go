package stream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
	"probity/prober/wire/timing"
)

func ignoreState(State) {}

func TestSecondCoordinatorIsRefusedWithReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		second := l.newClient(wire.Coordinator{ID: "c2", Term: 9}, ignoreState, nil)
		time.Sleep(5 * time.Minute)
		require.False(t, second.State().Live)
		require.Contains(t, second.State().Problem, "node n1 works for coordinator c1")
		require.Contains(t, second.State().Problem, "a cluster has one coordinator")
		require.Contains(t, l.log.String(), "refused a coordinator")
		require.True(t, l.client.State().Live, "the first was not disturbed")

		_, err := second.Single(t.Context(), testRequest())
		require.ErrorIs(t, err, wire.ErrGone)
	})
}

func TestNodeChangesCoordinatorAfterAMinuteOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := wire.Coordinator{ID: "c1", Term: 1}
		l := newTestNode(t, time.Second, testOptions{client: func(c *ClientConfig) {
			c.Coordinator = wire.Coordinator{ID: "c0", Term: 1}
		}}).waitIdle()
		l.network.block(toNode, fromNode)
		second := l.newClient(first, ignoreState, func(c *ClientConfig) { c.Dial = l.network.listener.DialContext })
		time.Sleep(timing.CoordinatorTimeout - 5*time.Second)
		require.False(t, second.State().Live)
		time.Sleep(30 * time.Second)
		require.True(t, second.State().Live)
		l.network.unblock()
		time.Sleep(time.Minute)
		require.Contains(t, l.client.State().Problem, "works for coordinator c1")
	})
}

func TestLaterTermReplacesTheEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		l.inBackground(func() {
			o := l.verify(t.Context(), testBatch(1, "tail", 100), 20*time.Second)
			require.NotEmpty(t, o.rows)
		})
		time.Sleep(3 * time.Second)
		later := l.newClient(wire.Coordinator{ID: "c1", Term: 2}, ignoreState, nil)
		l.waitIdle()
		require.True(t, later.State().Live)
		require.Zero(t, l.server.rows, "what the earlier run had under way is dropped")
		time.Sleep(20 * time.Second)
		require.Contains(t, l.client.State().Problem, "was started again since (term 2, this is 1)")
	})
}

func TestPeersThatDifferRefuseEachOther(t *testing.T) {
	for reason, with := range map[string]testOptions{
		`the coordinator means node "n1", the node means node "n2"`: {server: func(c *ServerConfig) { c.Node = "n2" }},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newTestNode(t, time.Second, with)
			time.Sleep(time.Second)
			require.False(t, l.client.State().Live)
			require.Contains(t, l.client.State().Problem, reason)
			require.Contains(t, l.log.String(), "refused a coordinator")
			o := l.verify(t.Context(), testBatch(1, "tail", 1), time.Minute)
			require.ErrorIs(t, o.err, wire.ErrGone)
			require.ErrorContains(t, o.err, "node n1: ")
		})
	}
}

func TestMismatchNamesBothSides(t *testing.T) {
	us := peer{"the node", "1.0", versions{1, 2}, "n1"}
	require.Empty(t, mismatch(us, peer{"the coordinator", "0.9", versions{1, 1}, "n1"}))
	require.Empty(t, mismatch(us, peer{"the coordinator", "1.1", versions{2, 3}, "n1"}))
	require.Equal(t, "the coordinator is probity 2.0 and speaks protocol 3 to 4, the node is probity 1.0 and speaks 1 to 2; update the older of the two",
		mismatch(us, peer{"the coordinator", "2.0", versions{3, 4}, "n1"}))
}

// authority signs certificates inside a bubble, where it is the year 2000.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key, a.cert = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	c, err = x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return key, c
}

func (a *authority) issue(name string, use x509.ExtKeyUsage) tls.Certificate {
	key, c := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{use},
		KeyUsage:    x509.KeyUsageDigitalSignature})
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func TestOnlyClusterCertificatesAreAccepted(t *testing.T) {
	const server, client = x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for name, test := range map[string]struct {
		node        func(ours, foreign *authority) tls.Certificate
		coordinator func(ours, foreign *authority) tls.Certificate
		problem     string // "" joins
		log         string
	}{
		"both of the cluster": {
			func(a, _ *authority) tls.Certificate { return a.issue("n1", server) },
			func(a, _ *authority) tls.Certificate { return a.issue("c", client) }, "", ""},
		"the node's is of another authority": {
			func(_, f *authority) tls.Certificate { return f.issue("n1", server) },
			func(a, _ *authority) tls.Certificate { return a.issue("c", client) },
			"certificate signed by unknown authority", "bad certificate"},
		"the node's bears another name": {
			func(a, _ *authority) tls.Certificate { return a.issue("n2", server) },
			func(a, _ *authority) tls.Certificate { return a.issue("c", client) },
			"certificate is valid for n2, not n1", "bad certificate"},
		"the coordinator's is of another authority": {
			func(a, _ *authority) tls.Certificate { return a.issue("n1", server) },
			func(_, f *authority) tls.Certificate { return f.issue("c", client) }, "unknown certificate authority",
			"signed by unknown authority"},
		"a node's is used as a coordinator's": {
			func(a, _ *authority) tls.Certificate { return a.issue("n1", server) },
			func(a, _ *authority) tls.Certificate { return a.issue("n2", server) }, "bad certificate",
			"incompatible key usage"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, foreign := newAuthority(t), newAuthority(t)
			l := newTestNode(t, time.Millisecond, testOptions{
				server: func(c *ServerConfig) {
					c.Credentials = ServerTLS(test.node(ours, foreign), ours.pool(), slog.New(c.Log.Handler()))
				},
				client: func(c *ClientConfig) {
					c.Credentials = ClientTLS(test.coordinator(ours, foreign), ours.pool(), c.Node)
				}})
			time.Sleep(5 * time.Second)
			l.waitIdle()
			if test.problem == "" {
				b := testBatch(1, "tail", 10)
				l.verify(t.Context(), b, time.Minute).requireComplete(t, b)
				_, err := l.client.Single(t.Context(), testRequest())
				require.NoError(t, err)
				return
			}
			require.False(t, l.client.State().Live, name)
			require.Contains(t, l.client.State().Problem, test.problem, name)
			l.stop()
			<-l.done
			require.Contains(t, l.log.String(), test.log, name)
		})
	}
}
