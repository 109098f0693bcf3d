package app

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"syscall"
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

// TestAddressThatCannotBeListenedAtAdvises: a documentation address (RFC 5737) is of no machine, and what the kernel
// says of a port below 1024 depends on the user.
func TestAddressThatCannotBeListenedAtAdvises(t *testing.T) {
	_, err := listen("listen", "192.0.2.1:0")
	require.ErrorContains(t, err, "--listen: listen tcp 192.0.2.1:0")
	require.ErrorContains(t, err, "it is not an address of this machine; name one that is, or only :PORT for all")
	refused := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	require.Equal(t, ": choose a port from 1024 on, or give the process the capability CAP_NET_BIND_SERVICE",
		listenAdvice(refused))
}
