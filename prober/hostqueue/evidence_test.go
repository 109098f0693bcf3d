package hostqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
)

var (
	accepts = engine.Sighting{Subject: engine.SubjectTarget, Finding: engine.Finding{Meaning: engine.Accepted},
		Reply: engine.Reply{Code: 250, Stage: engine.StageRcpt}}
	refuses = engine.Sighting{Subject: engine.SubjectTarget, Finding: engine.Finding{Meaning: engine.NoMailbox,
		Blame: engine.BlameRecipient}, Reply: engine.Reply{Code: 550, Stage: engine.StageRcpt}}
	defers = engine.Sighting{Subject: engine.SubjectTarget, Finding: engine.Finding{Meaning: engine.Greylisted},
		Reply: engine.Reply{Code: 450, Stage: engine.StageRcpt}}
)

// TestWhatARefusalConfirms: by its place among the answers, what the connections have shown, and the decoy.
func TestWhatARefusalConfirms(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after    uint16 // refusals of the connection of the acceptance, before it and by now
		checks           bool   // that connection
		confirmedUpTo    uint64 // the acceptance is answer 10
		most             uint16
		checking         uint32
		acceptedDecoy    bool
		answersOnlySoFew bool
		want             bool
	}{
		"nothing was refused":                  {},
		"after it on its connection":           {after: 1, want: true},
		"only before it on its connection":     {before: 2, after: 2, checks: true, most: 2},
		"sent after it, elsewhere":             {checks: true, confirmedUpTo: 10, most: 1, want: true},
		"sent before it, elsewhere":            {checks: true, confirmedUpTo: 9, most: 1},
		"its connection may accept everything": {confirmedUpTo: 10, most: 1},
		"the host's machines all refuse": {confirmedUpTo: 10, most: 1, checking: enoughChecking,
			want: true},
		"but it has accepted a decoy": {confirmedUpTo: 10, most: 1, checking: enoughChecking,
			acceptedDecoy: true},
		"it answers too few to show it":               {confirmedUpTo: 10, most: 1, answersOnlySoFew: true, want: true},
		"its connection may be past what one refuses": {before: 3, after: 3, checks: true, confirmedUpTo: 10, most: 3},
		"another has refused more": {before: 3, after: 3, checks: true, confirmedUpTo: 10, most: 4,
			want: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory{confirmedUpTo: tt.confirmedUpTo, mostRefused: tt.most, checking: tt.checking,
				acceptedDecoy: tt.acceptedDecoy}
			if tt.answersOnlySoFew {
				m.perConnection = 1
			}
			on := &Progress{Refused: tt.after, Checks: tt.checks}
			require.Equal(t, tt.want, m.refusedAfter(&moment{number: 10, over: on, refusedBefore: tt.before}))
		})
	}
}

// TestWhatAnAcceptanceControls: a refusal before it on its connection, and one of a connection that has ended, if it
// was sent after that; but no refusal in a place, or behind so many refusals, in which the host has accepted none.
func TestWhatAnAcceptanceControls(t *testing.T) {
	on, other := &Progress{}, &Progress{}
	for name, tt := range map[string]struct {
		refused      moment // answer 10
		sentAfter    uint64
		acceptsIn    place
		acceptsAfter uint16
		want         bool
	}{
		"on its connection":           {refused: moment{over: on}, want: true},
		"another goes on":             {refused: moment{over: other}, sentAfter: 10},
		"another has ended":           {refused: moment{over: other, carried: true}, sentAfter: 10, want: true},
		"and it was sent before that": {refused: moment{over: other, carried: true}, sentAfter: 9},
		"in a place that none is accepted in": {refused: moment{over: on, in: placeBehind},
			acceptsIn: placeLeads},
		"in a place that some are accepted in": {refused: moment{over: on, in: placeLeads}, acceptsIn: placeBehind,
			want: true},
		"behind more refusals than any acceptance": {refused: moment{over: on, refusedBefore: 3}, acceptsAfter: 2},
		"behind as many": {refused: moment{over: on, refusedBefore: 3}, acceptsAfter: 3,
			want: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory{acceptsIn: tt.acceptsIn, acceptsAfter: tt.acceptsAfter}
			tt.refused.number = 10
			require.Equal(t, tt.want, m.acceptedAfter(&tt.refused, on, tt.sentAfter))
		})
	}
}

// TestControlsComeAfterWhatTheyControl: whatever a host answers over several connections, an acceptance is confirmed
// only by a refusal that came after it there, or was sent after it arrived, and never over a connection that refuses
// nothing, until enough others have. A refusal is controlled only by an acceptance that came, or was sent, so.
func TestControlsComeAfterWhatTheyControl(t *testing.T) {
	type reply struct {
		moment
		sentAt  uint64
		refused bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var m memory
		var replies []reply
		answers, open := uint64(0), []*Progress{{}, {}, {}}
		sentAt := make([]uint64, len(open)) // of the recipient that each is asked about now
		later := func(of *moment, is bool) bool {
			for _, r := range replies {
				if r.refused == is && (r.over == of.over && r.number > of.number || r.sentAt >= of.number) {
					return true
				}
			}
			return false
		}
		for range rapid.IntRange(1, 60).Draw(t, "answers") {
			i := rapid.IntRange(0, len(open)-1).Draw(t, "connection")
			on, sent := open[i], sentAt[i]
			if rapid.IntRange(0, 5).Draw(t, "ends") == 0 {
				for k := range replies {
					replies[k].carried = replies[k].carried || replies[k].over == on
				}
				open[i], sentAt[i] = &Progress{}, answers
				continue
			}
			seen := []*engine.Sighting{&accepts, &refuses, &defers}[rapid.IntRange(0, 2).Draw(t, "reply")]
			answers++
			in := place(rapid.IntRange(0, 2).Draw(t, "place"))
			r := reply{moment: moment{number: answers, over: on, refusedBefore: on.Refused, in: in}, sentAt: sent,
				refused: seen == &refuses}
			if r.refused {
				m.confirmedUpTo = max(m.confirmedUpTo, sent)
			}
			m.record(on, in, seen)
			on.Answers++
			for k := range replies {
				if seen == &accepts && replies[k].refused && m.acceptedAfter(&replies[k].moment, on, sent) {
					require.True(t, replies[k].over == on || replies[k].number <= sent)
				}
			}
			if seen != &defers {
				replies = append(replies, r)
			}
			for k := range replies {
				if a := &replies[k]; !a.refused && m.refusedAfter(&a.moment) {
					require.True(t, later(&a.moment, true), "nothing was refused after it")
					require.True(t, a.over.Checks || m.checking >= enoughChecking)
				}
			}
			sentAt[i] = answers
		}
	})
}
