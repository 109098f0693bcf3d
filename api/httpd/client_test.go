package httpd

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientAddr(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		peer, want string
		forwarded  []string
	}{
		{"203.0.113.9", "203.0.113.9", []string{"198.51.100.1"}},
		{"10.0.0.1", "10.0.0.1", nil},
		{"10.0.0.1", "198.51.100.1", []string{"198.51.100.1"}},
		{"10.0.0.1", "198.51.100.1", []string{"1.2.3.4, 198.51.100.1"}},
		{"10.0.0.1", "198.51.100.1", []string{"1.2.3.4", "198.51.100.1, 10.9.9.9"}},
		{"10.0.0.1", "198.51.100.1", []string{"198.51.100.1:4711"}},
		{"10.0.0.1", "2001:db9::1", []string{"[2001:db9::1]:4711"}},
		{"10.0.0.1", "2001:db9::1", []string{"2001:db9::1"}},
		{"::ffff:10.0.0.1", "198.51.100.1", []string{"::ffff:198.51.100.1"}},
		{"10.0.0.1", "10.0.0.1", []string{"unknown"}},
		{"10.0.0.1", "10.0.0.2", []string{"198.51.100.1, nonsense, 10.0.0.2"}},
		{"10.0.0.1", "10.0.0.1", []string{""}},
	} {
		got := clientAddr(netip.MustParseAddr(c.peer), c.forwarded, proxies)
		require.Equal(t, netip.MustParseAddr(c.want), got, "%+v", c)
	}
}

func FuzzClientAddr(f *testing.F) {
	f.Add("1.2.3.4, [::1]:5", "10.0.0.1")
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, header, header2 string) {
		got := clientAddr(netip.MustParseAddr("203.0.113.9"), []string{header, header2}, proxies)
		require.Equal(t, "203.0.113.9", got.String(), "a stranger is believed")
		require.True(t, clientAddr(netip.MustParseAddr("10.0.0.1"), []string{header, header2}, proxies).IsValid())
	})
}
