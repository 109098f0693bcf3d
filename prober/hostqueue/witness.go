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
