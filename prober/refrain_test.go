package prober

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuarantinesAreLoggedBoundedly: many receivers that want no more of a source within a minute are a few lines and a count.
func TestQuarantinesAreLoggedBoundedly(t *testing.T) {
	const receivers = 60
	var out bytes.Buffer
	hosts := map[string]*host{}
	for i := range receivers {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &host{mail: "550 5.7.1 You are not welcome here, your IP address has a poor reputation"}
	}
	inLab(t, labTable, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&out, nil)) }, hosts, func(b *lab) {
		for i := range receivers {
			require.Equal(t, "UNKNOWN blocked", spell(b.single(time.Minute, []string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("ann@r%d.example", i))))
		}
		time.Sleep(5 * time.Minute)
	})
	require.Equal(t, refrainSaid, strings.Count(out.String(), "a receiver wants no more of this source"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "wanted no more of a source; the lanes say which\" times="+fmt.Sprint(receivers-refrainSaid)), out.String())
}

// TestRefrain counts by the minute: the first of a minute are said, the others told when it is over.
func TestRefrain(t *testing.T) {
	var r refrain
	at := time.Unix(1_700_000_000, 0)
	said := 0
	for range 10 {
		if r.says(at) {
			said++
		}
	}
	require.Equal(t, refrainSaid, said)
	require.Zero(t, r.rest(at.Add(refrainSpan-1)))
	require.False(t, r.says(at.Add(2*refrainSpan)), "not before the count was told")
	require.Equal(t, 8, r.rest(at.Add(2*refrainSpan)))
	require.Zero(t, r.rest(at.Add(4*refrainSpan)))
	require.True(t, r.says(at.Add(4*refrainSpan)))
}
