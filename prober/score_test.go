package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/basis"
	"probity/engine/control"
)

// checkedAtOnce is the basis of the first acceptance of a host, whose decoy was refused in the same transaction.
var checkedAtOnce = basis.Basis{Check: basis.CheckSameConnection, CheckAge: 1, Control: control.DecoyRefused,
	Distance: basis.Distance2, Delay: basis.Delay10s}

// verifyOne is the verdict on one row of a batch.
func (b *testNode) verifyOne(mx []string, addr string) engine.Verdict {
	rows := b.rows(mx, addr)
	return b.verify(time.Minute, rows...)[rows[0].Number].Verdict
}

func TestScoreDependsOnPlaceAndAgeOfTheCheck(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann", "bob")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		v := b.verifyOne(mxA, "ann@a.example")
		require.Equal(t, checkedAtOnce, v.Basis)
		require.EqualValues(t, 98, v.Score)

		time.Sleep(2 * time.Hour)
		v = b.verifyOne(mxA, "bob@a.example")
		require.Equal(t, basis.CheckSameHost, v.Basis.Check, "the decoy was not asked again")
		require.EqualValues(t, 121, v.Basis.CheckAge)
		require.EqualValues(t, 98-1-1-3-1-1, v.Score,
			"an old fact, and nothing is known of what the host refused since")

		v = b.verifyOne(mxA, "ann@a.example")
		require.EqualValues(t, 1, v.Basis.Before, "what was kept is too old, and the same")
		require.EqualValues(t, 98-1-1-3-1-1+1, v.Score)
		time.Sleep(2 * time.Hour)
		v = b.single(10*time.Second, mxA, "ann@a.example")
		require.EqualValues(t, 2, v.Basis.Before, "of a single too")
		require.Equal(t, 4+1+1, h.count("RCPT"), "the targets, a decoy and the control behind it: %v", h.snapshot().log)

		time.Sleep(time.Minute) // until that connection is closed
		v = b.verifyOne(mxA, "eve@a.example")
		require.Equal(t, "INVALID mailbox_not_found", verdictText(v))
		require.Equal(t, basis.LearnedRefuses, v.Basis.Learned, "known from before")
		require.EqualValues(t, 3+1+1, v.Score, "no control, and nothing else was accepted over this route")
	})
}

func TestScoreOfACachedAnswerFallsWithAge(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		require.EqualValues(t, 98, b.verifyOne(mxA, "ann@a.example").Score)
		time.Sleep(59 * time.Minute)
		v := b.verifyOne(mxA, "ann@a.example")
		require.True(t, v.FromCache)
		require.Equal(t, checkedAtOnce, v.Basis)
		require.EqualValues(t, 98, v.Score)
		require.EqualValues(t, 96, engine.Score(&v, time.Now().Add(2*time.Minute)))
	})
}

func TestScoreUsesChecksAtAGreylistingHost(t *testing.T) {
	open := &fakeServer{rcpt: func(local string) string {
		if local == "bob" {
			return "451 4.7.1 Greylisted, come back later"
		}
		return acceptsOnly("ann")(local)
	}}
	silent := &fakeServer{rcpt: func(string) string { return "451 4.7.1 Greylisted, come back later" }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": open, "mx.b.example": silent},
		func(b *testNode) {
			rows := b.rows(mxA, "ann@a.example", "bob@a.example")
			v := b.verify(time.Minute, rows...)[rows[1].Number].Verdict
			require.Equal(t, "UNKNOWN greylisted", verdictText(v))
			require.Equal(t, basis.LearnedNeighbour, v.Basis.Learned)
			require.EqualValues(t, 53, v.Score)
			v = b.verifyOne([]string{"mx.b.example"}, "bob@b.example")
			require.Equal(t, "UNKNOWN greylisted", verdictText(v))
			require.EqualValues(t, 50, v.Score)
		})
}

func TestScoreUsesTheCheckAtAnotherHost(t *testing.T) {
	unclear := &fakeServer{rcpt: func(local string) string {
		if local == "bob" {
			return "250 2.1.5 ok"
		}
		return "550 5.7.1 Not allowed by policy"
	}}
	hosts := map[string]*fakeServer{"mx.a.example": {rcpt: acceptsOnly("ann")}, "mx2.a.example": unclear}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		require.Equal(t, "VALID", verdictText(b.verifyOne(mxA, "ann@a.example")))
		v := b.verifyOne([]string{"mx2.a.example", "mx.a.example"}, "bob@a.example")
		require.Equal(t, "RISKY accepted_unconfirmed", verdictText(v), "what another host refuses vouches for nothing")
		require.Equal(t, basis.CheckElsewhereRefused, v.Basis.Check)
		require.EqualValues(t, 75+3, v.Score)
	})
}
