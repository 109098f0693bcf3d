package hostqueue

import (
	"strings"

	"probity/engine"
)

// Witnesses are made when something rests on a reply: most replies are witnesses of nothing.

// witness is the host's reply to the recipient with this local part, for verdicts about others.
func (h *Host) witness(seen engine.Sighting, local string) *engine.Witness {
	// the local part may be of a whole list's text
	return &engine.Witness{Sighting: seen, Local: strings.Clone(local), Source: h.set.Source}
}

// show makes a sighting what the decoy has shown.
func (d *decoy) show(seen engine.Sighting) { d.sighting, d.witness = seen, nil }

// shown returns what the decoy has shown, for verdicts that rest on it.
func (dq *Domain) shown() *engine.Witness {
	d := &dq.decoy
	if d.witness == nil {
		d.witness = dq.host.witness(d.sighting, d.local)
	}
	return d.witness
}

// recordRefusals records that recipients of a transaction were refused as unknown. The last of them is the witness of
// acceptances before it.
func (r *Replies) recordRefusals(g *Group, seen []Answer) {
	h, last := r.host, -1
	for k := range seen {
		if seen[k].refusesUnknown() {
			r.recordRefusal(h.set.Answers + uint64(k) + 1)
			last = k
		}
	}
	if last < 0 {
		return
	}
	a := &seen[last]
	seenThen := engine.Sighting{Subject: g.Recipients[a.Recipient].subject(), Host: h.Name, Reply: a.Reply,
		Finding: a.Finding, At: r.Now}
	h.refusal = h.witness(seenThen, g.Rcpts[a.Recipient].Local)
}
