package hosthealth

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestConnectionCoversWhatItsHostDemands: one command at a time where the host is distrusted, with waits for a reply
// too many where it is not confirmed since.
func TestConnectionCoversWhatItsHostDemands(t *testing.T) {
	none, careful := Dialogue{}, Dialogue{Careful: true}
	confirmed, both := Dialogue{Confirmed: true}, Dialogue{Confirmed: true, Careful: true}
	for _, c := range []struct {
		opened, now Dialogue
		want        bool
	}{
		{none, none, true}, {none, confirmed, true}, {none, careful, false}, {none, both, false},
		{confirmed, careful, false}, {confirmed, both, false}, {both, both, true}, {both, careful, false},
		{careful, careful, true}, {careful, both, true}, {careful, none, true},
	} {
		require.Equal(t, c.want, c.opened.Covers(c.now), "%+v", c)
	}
}

// TestDialogueIsLearntAndForgotten: doubt lasts until a connection is confirmed, distrust for a day.
func TestDialogueIsLearntAndForgotten(t *testing.T) {
	var h Hosts
	require.Zero(t, h.Dialogue(host, start))
	h.DoubtDialogue(host)
	require.Equal(t, Dialogue{Careful: true}, h.Dialogue(host, at(48*time.Hour)))
	h.ConfirmDialogue(host)
	require.Equal(t, Dialogue{Confirmed: true}, h.Dialogue(host, start))
	require.True(t, h.DistrustDialogue(host, start), "the next connection is more careful")
	require.Equal(t, Dialogue{Careful: true}, h.Dialogue(host, start))
	require.False(t, h.DistrustDialogue(host, start), "as careful as this one")
	require.True(t, h.DistrustsAny(at(carefulLife-1)))
	require.False(t, h.DistrustsAny(at(carefulLife)))
	h.ConfirmDialogue(host)
	require.Equal(t, Dialogue{Confirmed: true, Careful: true}, h.Dialogue(host, at(carefulLife-1)))
	require.Zero(t, h.Dialogue(host, at(carefulLife)))
	require.Empty(t, h.records)
}

// TestDistrustIsOfNoUseWhereNothingIsRemembered: else a host too many would be tried again and again.
func TestDistrustIsOfNoUseWhereNothingIsRemembered(t *testing.T) {
	var h Hosts
	for i := range maxHosts {
		h.ConfirmDialogue(fmt.Sprint("host", i))
	}
	require.False(t, h.DistrustDialogue(host, start))
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	require.False(t, h.FailAddress(a, []netip.Addr{a, b}, &engine.Sighting{Event: engine.EventTimeout}, start))
}

// TestAddressesTakeTurns: the first in the order of the DNS, the next after a failure; when all have failed, the host
// has, and the one that failed first is tried first.
func TestAddressesTakeTurns(t *testing.T) {
	var h Hosts
	all := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"),
		netip.MustParseAddr("2001:db8::1")}
	refused := &engine.Sighting{Event: engine.EventConnectFailed}
	require.False(t, h.NextAddress(nil, start).IsValid())
	for i, a := range all {
		now := at(time.Duration(i) * time.Second)
		require.Equal(t, a, h.NextAddress(all, now))
		require.Equal(t, i < len(all)-1, h.FailAddress(a, all, refused, now))
		require.True(t, h.AddressFailed(a, now))
	}
	require.Equal(t, all[0], h.NextAddress(all, at(time.Minute)), "the one that failed first")
	require.False(t, h.FailAddress(all[0], all, refused, at(time.Minute)))
	require.Equal(t, all[1], h.NextAddress(all, at(time.Minute)))
	h.MarkAddressUp(all[2])
	require.Equal(t, all[2], h.NextAddress(all, at(time.Minute)))
	require.Equal(t, all[0], h.NextAddress(all, at(time.Minute+addressLife)))
}

// TestReplyIsTheHosts: another address is no way round a refusal; a trouble of one machine is not that of the next.
func TestReplyIsTheHosts(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for meaning, want := range map[engine.Meaning]bool{engine.Blocked: false, engine.RateLimited: false,
		engine.SenderRefused:  false,
		engine.MeaningUnknown: false, engine.Temporary: true} {
		var h Hosts
		got := h.FailAddress(a, []netip.Addr{a, b}, &engine.Sighting{Finding: engine.Finding{Meaning: meaning}}, start)
		require.Equal(t, want, got, meaning.String())
		require.Equal(t, want, h.AddressFailed(a, start))
	}
	var h Hosts
	require.False(t, h.FailAddress(netip.Addr{}, []netip.Addr{b}, &engine.Sighting{Event: engine.EventNoAddress},
		start))
}
