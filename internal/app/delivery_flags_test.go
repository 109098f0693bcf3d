package app

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/outward"
)

func TestPrivateStorageIsOpenToDeliveriesOnly(t *testing.T) {
	callbacks := outward.Config{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	f := DeliveryFlags{S3Private: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}}
	storage := f.dialer(callbacks)
	for dialer, reached := range map[*outward.Dialer][2]bool{
		outward.New(callbacks): {true, false},
		storage:                {false, true},
	} {
		for i, url := range []string{"https://10.1.0.1", "https://10.2.0.1"} {
			_, err := dialer.Parse(url)
			require.Equal(t, reached[i], err == nil, "%s: %v", url, err)
		}
	}
}
