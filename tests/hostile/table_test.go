package hostile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"probity/bench/sim"
	"probity/bench/sim/persona"
)

// verdict is what became of one mailbox.
type verdict struct {
	Email, Status, Reason string
	Score                 int
}

// outcome counts the verdicts on the mailboxes of one persona, and what was sent to its hosts.
type outcome struct {
	persona                              *persona.Persona
	rows                                 int
	statuses                             map[string]int
	falseValid, falseInvalid, unexpected int // the last: honest, but less than could be known
	recipients, refusals, excesses       int64
}

// lies reports whether one of the verdicts is false.
func (o *outcome) lies() bool { return o.falseValid+o.falseInvalid > 0 }

// acceptedNothing reports whether the hosts of the persona accepted no recipient during the whole run, as one that
// blocks from the first few recipients on may do: they said what a host without any of the mailboxes says.
func (o *outcome) acceptedNothing() bool { return o.recipients > 0 && o.recipients == o.refusals }

// isFalse reports whether the truth has no outcome of the verdict's status, which is VALID or INVALID.
func isFalse(v verdict, truth []persona.Outcome) bool {
	certain := v.Status == persona.StatusValid || v.Status == persona.StatusInvalid
	return certain && !slices.ContainsFunc(truth, func(o persona.Outcome) bool { return o.Status == v.Status })
}

// outcomesOf counts the verdicts of each hostile persona, in the order of personas.
func outcomesOf(internet *sim.Server, verdicts []verdict) []*outcome {
	var all []*outcome
	by := map[string]*outcome{}
	for _, p := range internet.World.Personas() {
		if p.Deceit != "" {
			o := &outcome{persona: p, statuses: map[string]int{}}
			by[p.Name], all = o, append(all, o)
		}
	}
	for _, v := range verdicts {
		d, _ := internet.World.Domain(v.Email[strings.LastIndexByte(v.Email, '@')+1:])
		o, truth := by[d.Persona.Name], internet.World.Truth(v.Email)
		o.rows++
		o.statuses[v.Status]++
		switch {
		case isFalse(v, truth) && v.Status == persona.StatusValid:
			o.falseValid++
		case isFalse(v, truth):
			o.falseInvalid++
		case !slices.Contains(truth, persona.Outcome{Status: v.Status, Reason: v.Reason}):
			o.unexpected++
		}
	}
	for _, u := range internet.Referee.Usage() {
		if o := by[u.Persona]; o != nil {
			o.recipients += u.Recipients
			o.refusals += u.Refused
		}
	}
	for _, e := range internet.Referee.Report().By {
		if o := by[e.Persona]; o != nil {
			o.excesses += int64(e.Count)
		}
	}
	return all
}

// outcomeTable is for people.
func outcomeTable(all []*outcome) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RECEIVER\tDOMAINS\tROWS\tVALID\tRISKY\tINVALID\tUNKNOWN\tFALSE VALID\tFALSE INVALID\tUNEXPECTED\tEXCESSES\tRECIPIENTS\tREFUSALS\tDECEIT")
	sum := outcome{statuses: map[string]int{}}
	line := func(name string, domains int, o *outcome, deceit string) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", name, domains, o.rows,
			o.statuses[persona.StatusValid],
			o.statuses[persona.StatusRisky], o.statuses[persona.StatusInvalid], o.statuses[persona.StatusUnknown],
			o.falseValid, o.falseInvalid,
			o.unexpected, o.excesses, o.recipients, o.refusals, deceit)
	}
	domains := 0
	for _, o := range all {
		name, of := o.persona.Name, max(o.persona.DomainCount, 1)
		if o.persona.Exempt != "" {
			name += " (exempt)"
		} else if o.acceptedNothing() {
			name += " (accepted nothing)"
		}
		line(name, of, o, o.persona.Deceit)
		domains += of
		if o.persona.Exempt != "" {
			continue
		}
		sum.rows += o.rows
		sum.falseValid += o.falseValid
		sum.falseInvalid += o.falseInvalid
		sum.unexpected += o.unexpected
		sum.excesses += o.excesses
		sum.recipients += o.recipients
		sum.refusals += o.refusals
		for status, n := range o.statuses {
			sum.statuses[status] += n
		}
	}
	line("all but exempt", domains, &sum, "")
	_ = w.Flush() // writing to a buffer never fails
	for _, o := range all {
		if o.persona.Exempt != "" {
			fmt.Fprintf(&out, "exempt: %s: %s\n", o.persona.Name, o.persona.Exempt)
		}
	}
	return out.String()
}

// scoreWidth is how many scores one line of scoreTable has.
const scoreWidth = 5

// scoreTable compares the scores with the truth, by status and bands of scores: how many of the mailboxes exist, and
// how many of the verdicts are false. Exempt receivers are in it too.
func scoreTable(internet *sim.Server, verdicts []verdict) string {
	type band struct {
		status string
		score  int
	}
	type share struct{ rows, exist, lies int }
	bands, order := map[band]*share{}, []band(nil)
	for _, v := range verdicts {
		at := band{v.Status, v.Score / scoreWidth * scoreWidth}
		if bands[at] == nil {
			bands[at], order = &share{}, append(order, at)
		}
		s := bands[at]
		s.rows++
		local, domain, _ := strings.Cut(v.Email, "@")
		if internet.World.Mailbox(domain, local) == persona.Present {
			s.exist++
		}
		if isFalse(v, internet.World.Truth(v.Email)) {
			s.lies++
		}
	}
	slices.SortFunc(order, func(a, b band) int { return b.score - a.score })
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCORE\tSTATUS\tROWS\tEXIST\tFALSE\t")
	for _, at := range order {
		s := bands[at]
		wrong := float64(s.lies) / float64(s.rows)
		fmt.Fprintf(w, "%d to %d\t%s\t%d\t%.1f %%\t%.1f %%\t%s\n", at.score, at.score+scoreWidth-1, at.status, s.rows,
			100*float64(s.exist)/float64(s.rows), 100*wrong, strings.Repeat("#", int(40*wrong+0.5)))
	}
	_ = w.Flush() // writing to a buffer never fails
	return out.String()
}
