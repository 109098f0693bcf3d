package hostqueue

import (
	"strings"

	"probity/engine"
)

// Witnesses are made when something rests on a reply: most replies are witnesses of nothing.

// witness is the host's reply to the recipient with this local part, for verdicts about others.
func (q *Queue) witness(seen engine.Sighting, local string) *engine.Witness {
	// the local part may be of a whole list's text
	return &engine.Witness{Sighting: seen, Local: strings.Clone(local), Source: q.set.Source}
}

// show makes a sighting what the decoy has shown.
func (d *decoy) show(seen engine.Sighting) { d.sighting, d.witness = seen, nil }

// shown returns what the decoy has shown, for verdicts that rest on it.
func (d *Domain) shown() *engine.Witness {
	decoy := &d.decoy
	if decoy.witness == nil {
		decoy.witness = d.queue.witness(decoy.sighting, decoy.local)
	}
	return decoy.witness
}

// recordRefusals records that recipients of a transaction were refused as unknown. The last of them is the witness of
// acceptances before it.
func (r *Replies) recordRefusals(g *Group, seen []Answer) {
	q, last := r.queue, -1
	for k := range seen {
		if seen[k].refusesUnknown() {
			r.recordRefusal(q.set.Answers + uint64(k) + 1)
			last = k
		}
	}
	if last < 0 {
		return
	}
	a := &seen[last]
	seenThen := engine.Sighting{Subject: g.Recipients[a.Recipient].subject(), Host: q.Name, Reply: a.Reply,
		Finding: a.Finding, At: r.Now}
	q.refusal = q.witness(seenThen, g.Rcpts[a.Recipient].Local)
}
