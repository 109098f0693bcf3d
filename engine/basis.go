package engine

import (
	"strings"
	"time"

	"probity/engine/basis"
)

// Earlier is a kept answer about the same address.
type Earlier struct {
	Reason Reason
	Times  uint8 // how often it was seen; 0 when there is none
}

// earlierApart is the least time between two equal answers that count twice: probing again at once proves nothing more.
const earlierApart = time.Hour

// EarlierOf returns what a kept verdict adds to evidence that is taken at now.
func EarlierOf(kept *Verdict, now time.Time) Earlier {
	times := kept.Basis.Before
	if now.Sub(kept.VerifiedAt) >= earlierApart {
		times++
	}
	return Earlier{kept.Reason, times}
}

// basisOf computes the basis of a verdict whose reason and time are set.
func basisOf(ev *Evidence, v *Verdict, d *decision) basis.Basis {
	b := basis.Basis{}
	b.NamesUnknown = v.Reason == ReasonTemporaryError && d.from != nil && d.from.Finding.NamesUnknown
	target, answered := ev.answer(SubjectTarget, "")
	switch {
	case v.Status == Unknown:
		b.Before = uint8(min(basis.MaxBefore, ev.Attempts))
	case answered:
		if ev.Earlier.Reason == v.Reason {
			b.Before = ev.Earlier.Times
		}
		if ev.Attempts > 0 {
			b.Before++ // it was deferred, and then answered
		}
		b.Before = min(basis.MaxBefore, b.Before)
	}
	if !answered {
		b.Learned = learnedFrom(ev)
		return b
	}
	c := &ev.Control
	b.Control, b.Distance = c.Kind, basis.DistanceOf(c.Replies)
	if c.Replies > 0 {
		b.Delay = basis.DelayOf(c.After)
	}
	b.Refused, b.Accepted = basis.TallyOf(c.Refused), basis.TallyOf(c.Accepted)
	if target.Finding.Meaning != Accepted {
		b.Learned, b.Grounds = learnedFrom(ev), groundsOf(target)
	}
	if v.Details.CatchAll == NotKnown {
		b.Check = checkElsewhere(ev, target.Host)
		return b
	}
	decoy, _ := ev.answer(SubjectDecoy, target.Host)
	b.Check, b.CheckAge = basis.CheckSameHost, basis.CheckAgeOf(v.VerifiedAt, decoy.At)
	if decoy.Conn != 0 && decoy.Conn == target.Conn {
		b.Check = basis.CheckSameConnection
	}
	return b
}

// groundsOf is on what a refusal of the target was read.
func groundsOf(target *Sighting) basis.Grounds {
	switch f := &target.Finding; {
	case f.Meaning != NoMailbox && f.Meaning != MailboxDisabled:
		return basis.GroundsNone
	case !strings.HasPrefix(f.Rule, genericRules+"/"):
		return basis.GroundsProvider
	case target.Reply.Enhanced == Enhanced{}:
		return basis.GroundsOne
	}
	return basis.GroundsBoth
}

// checkElsewhere returns what checks at hosts other than the given one have shown.
func checkElsewhere(ev *Evidence, host string) basis.Check {
	for i := range ev.Seen {
		s := &ev.Seen[i]
		if s.Subject != SubjectDecoy || s.Host == host {
			continue
		}
		switch ev.catchAll(s.Host) {
		case Yes:
			return basis.CheckElsewhereAccepted
		case No:
			return basis.CheckElsewhereRefused
		}
	}
	return basis.CheckNone
}

func learnedFrom(ev *Evidence) basis.Learned {
	most := basis.LearnedNothing
	for i := range ev.Seen {
		s := &ev.Seen[i]
		switch {
		case s.Subject == SubjectTarget && s.NeighbourAccepted:
			return basis.LearnedNeighbour
		case s.Subject == SubjectDecoy && ev.catchAll(s.Host) == No:
			most = basis.LearnedRefuses
		}
	}
	return most
}
