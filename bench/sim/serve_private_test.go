package sim

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrivateNetworkRefusesPublic(t *testing.T) {
	for prefix, private := range map[string]bool{"10.80.0.0/16": true, "192.168.0.0/16": true, "127.16.0.0/12": true,
		"8.0.0.0/8": false, "0.0.0.0/0": false, "10.0.0.0/7": false} {
		_, err := NewPrivateNetwork(netip.MustParsePrefix(prefix))
		require.Equal(t, private, err == nil, prefix)
	}
	w, err := NewPrivateNetwork(netip.MustParsePrefix("10.80.0.0/16"))
	require.NoError(t, err)
	_, err = w.Listen(netip.MustParseAddrPort("10.81.0.1:0"))
	require.ErrorContains(t, err, "is not in 10.80.0.0/16")
	l, err := w.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
