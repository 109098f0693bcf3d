package app

import (
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMissingCertificatesNameTheirCommand: each member is told the command that makes its certificate.
func TestMissingCertificatesNameTheirCommand(t *testing.T) {
	for use, want := range map[x509.ExtKeyUsage]string{
		x509.ExtKeyUsageClientAuth: "probity certs init and probity certs coordinator hub make them",
		x509.ExtKeyUsageServerAuth: "probity certs init and probity certs node hub make them",
	} {
		f := memberFlags{Name: "hub", Certs: filepath.Join(t.TempDir(), "none")}
		require.NoError(t, f.setDefaults())
		_, _, err := f.loadTLS(use, "")
		require.ErrorContains(t, err, want)
	}
}

// TestUsedPortAdvises: the error names the flag and says what to do.
func TestUsedPortAdvises(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer used.Close()
	_, err = listen("admin-listen", used.Addr().String())
	require.ErrorContains(t, err, "--admin-listen: listen tcp "+used.Addr().String())
	require.ErrorContains(t, err, "end the process that listens there, or choose another port")
}
