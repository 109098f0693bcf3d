package prober

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine/smtp"
	"probity/prober/source"
)

// A source with its own proxy connects through that, the others through the common one.
func TestSourcesConnectThroughTheirOwnProxy(t *testing.T) {
	all, err := smtp.ParseProxy("192.0.2.50:1080")
	require.NoError(t, err)
	own, err := smtp.ParseProxy("ann:secret@192.0.2.51:1080")
	require.NoError(t, err)
	for want, id := range map[string]source.Identity{
		"192.0.2.50:1080": {EHLO: "a.us.example"},
		"192.0.2.51:1080": {EHLO: "b.us.example", SOCKS5: own},
	} {
		var mu sync.Mutex
		dialled := map[string]bool{}
		hosts := map[string]*fakeServer{"mx.r.example": {}}
		withTestNode(t, testTable, func(c *Config) {
			c.SOCKS5, c.Sources = all, []source.Identity{id}
			c.Dial = func(_ context.Context, _ netip.Addr, _, address string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialled[address] = true
				return nil, net.ErrClosed
			}
		}, hosts, func(b *testNode) { b.single(time.Minute, []string{"mx.r.example"}, "ann@r.example") })
		require.Equal(t, map[string]bool{want: true}, dialled)
	}
}
