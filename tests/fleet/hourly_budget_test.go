package fleet_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
)

// TestNarrowRouteHasOneHour gives one receiver more rows than its hourly budget allows, and loses the owner: the source
// that takes over has what is left of the budget, and so has the first when it is back.
func TestNarrowRouteHasOneHour(t *testing.T) {
	detector.Spare(t)
	withMemCluster(t, 1, 2, 1, func(ctx context.Context, f *memCluster, probers []*memProber) {
		list, home := f.receiver("strict", 200)
		second := append([]byte("email\n"), bytes.Join(bytes.SplitAfter(list, []byte("\n"))[121:], nil)...)
		list = bytes.Join(bytes.SplitAfter(list, []byte("\n"))[:121], nil)
		id := f.coord.accept(ctx, t, list)
		time.Sleep(10 * time.Minute)
		first := f.internet.Referee.Report().Refused
		require.Greater(t, first, int64(10), "the hour of %s is not in use", home)
		owner := probers[0]
		if owner.lastProbe().Before(probers[1].lastProbe()) {
			owner = probers[1]
		}
		owner.kill()
		time.Sleep(2 * time.Minute)
		next := f.coord.accept(ctx, t, second)
		time.Sleep(43 * time.Minute)
		require.LessOrEqual(t, f.internet.Referee.Report().Refused, int64(20), "two sources had an hour each")
		owner.start()
		f.waitUsable(2)
		time.Sleep(20 * time.Minute)
		require.Greater(t, f.internet.Referee.Report().Refused, first, "it goes on when the hour is over")
		require.LessOrEqual(t, f.internet.Referee.Report().Refused, int64(40))
		f.requireCorrectEnd(ctx, id, list)
		f.requireCorrectEnd(ctx, next, second)
	})
}

// receiver is a list of n addresses at one host of a persona.
func (f *memCluster) receiver(persona string, n int) (list []byte, home string) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	require.NoError(f.t, w.Write([]string{"email"}))
	for _, text := range f.internet.World.Addresses(persona, 40*n) {
		d, _ := f.internet.World.Domain(text[bytes.IndexByte([]byte(text), '@')+1:])
		if home == "" {
			home = d.MX[0].Host
		}
		if d.MX[0].Host == home && n > 0 {
			require.NoError(f.t, w.Write([]string{text}))
			n--
		}
	}
	w.Flush()
	require.Zero(f.t, n)
	return out.Bytes(), home
}
