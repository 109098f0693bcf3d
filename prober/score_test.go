package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// one is the verdict on one row of a batch.
func (b *lab) one(mx []string, addr string) engine.Verdict {
	rows := b.rows(mx, addr)
	return b.verify(time.Minute, rows...)[rows[0].Number].Verdict
}

func TestScoreRestsOnHowCloseAndHowOldTheCheckWas(t *testing.T) {
	h := &host{rcpt: knows("ann", "bob")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		v := b.one(mxa, "ann@a.example")
		require.Equal(t, engine.Basis{Check: engine.CheckSameConnection, CheckAge: 1}, v.Basis)
		require.EqualValues(t, 98, v.Score)

		time.Sleep(2 * time.Hour)
		v = b.one(mxa, "bob@a.example")
		require.Equal(t, engine.CheckSameHost, v.Basis.Check, "the decoy was not asked again")
		require.EqualValues(t, 121, v.Basis.CheckAge)
		require.EqualValues(t, 98-1-1, v.Score)

		v = b.one(mxa, "ann@a.example")
		require.EqualValues(t, 1, v.Basis.Before, "what was kept is too old, and the same")
		require.EqualValues(t, 98-1-1+1, v.Score)
		time.Sleep(2 * time.Hour)
		v = b.single(10*time.Second, mxa, "ann@a.example")
		require.EqualValues(t, 2, v.Basis.Before, "of a single too")
		require.Equal(t, 4+1, h.count("RCPT"), h.saw().log)

		time.Sleep(time.Minute) // until that connection is closed
		v = b.one(mxa, "eve@a.example")
		require.Equal(t, "INVALID mailbox_not_found", spell(v))
		require.Equal(t, engine.LearnedRefuses, v.Basis.Learned, "known from before")
		require.EqualValues(t, 3-1, v.Score)
	})
}

func TestScoreOfACachedAnswerFallsWithItsAge(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		require.EqualValues(t, 98, b.one(mxa, "ann@a.example").Score)
		time.Sleep(59 * time.Minute)
		v := b.one(mxa, "ann@a.example")
		require.True(t, v.FromCache)
		require.Equal(t, engine.Basis{Check: engine.CheckSameConnection, CheckAge: 1}, v.Basis)
		require.EqualValues(t, 98, v.Score)
		require.EqualValues(t, 96, engine.Score(&v, time.Now().Add(2*time.Minute)))
	})
}

func TestScoreKnowsWhatAGreylistingHostHasShown(t *testing.T) {
	open := &host{rcpt: func(local string) string {
		if local == "bob" {
			return "451 4.7.1 Greylisted, come back later"
		}
		return knows("ann")(local)
	}}
	silent := &host{rcpt: func(string) string { return "451 4.7.1 Greylisted, come back later" }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": open, "mx.b.example": silent}, func(b *lab) {
		rows := b.rows(mxa, "ann@a.example", "bob@a.example")
		v := b.verify(time.Minute, rows...)[rows[1].Number].Verdict
		require.Equal(t, "UNKNOWN greylisted", spell(v))
		require.Equal(t, engine.LearnedNeighbour, v.Basis.Learned)
		require.EqualValues(t, 53, v.Score)
		v = b.one([]string{"mx.b.example"}, "bob@b.example")
		require.Equal(t, "UNKNOWN greylisted", spell(v))
		require.EqualValues(t, 50, v.Score)
	})
}

func TestScoreKnowsTheCheckAtAnotherHost(t *testing.T) {
	unclear := &host{rcpt: func(local string) string {
		if local == "bob" {
			return "250 2.1.5 ok"
		}
		return "550 5.7.1 Not allowed by policy"
	}}
	hosts := map[string]*host{"mx.a.example": {rcpt: knows("ann")}, "mx2.a.example": unclear}
	inLab(t, labTable, nil, hosts, func(b *lab) {
		require.Equal(t, "VALID", spell(b.one(mxa, "ann@a.example")))
		v := b.one([]string{"mx2.a.example", "mx.a.example"}, "bob@a.example")
		require.Equal(t, "RISKY accepted_unconfirmed", spell(v), "what another host refuses vouches for nothing")
		require.Equal(t, engine.CheckElsewhereRefused, v.Basis.Check)
		require.EqualValues(t, 75+3, v.Score)
	})
}

func TestScoreKnowsThatAReceiverMayHaveFallenSilent(t *testing.T) {
	h := &host{rcpt: knows("ann", "bob")}
	table := strings.NewReplacer("refusals_per_hour = 0", "refusals_per_hour = 20").Replace(labTable)
	inLab(t, table, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		require.Equal(t, engine.SuspicionNone, b.one(mxa, "ann@a.example").Basis.Suspicion)
		addrs := make([]string, 0, 12)
		for i := range cap(addrs) {
			addrs = append(addrs, fmt.Sprintf("nobody%d@a.example", i))
		}
		b.verify(time.Minute, b.rows(mxa, addrs...)...)
		v := b.one(mxa, "bob@a.example")
		require.Equal(t, "VALID", spell(v), "a decoy was refused after it")
		require.Equal(t, engine.SuspicionHigh, v.Basis.Suspicion)
		require.EqualValues(t, 98-2, v.Score)
	})
}
