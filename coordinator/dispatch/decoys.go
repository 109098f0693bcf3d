package dispatch

import (
	"github.com/zeebo/xxh3"

	"probity/coordinator/jobfiles"
	"probity/engine"
)

// decoyBits is the size of answeredDecoys: among 100,000 domains, one in eleven is taken for one that is in it.
const decoyBits = 1 << 20

// answeredDecoys is the domains of a job whose decoys were answered, and need no second one. It keeps hashes only.
type answeredDecoys struct{ hashes jobfiles.RowSet }

// record adds the domain of a verdict that rests on a decoy.
func (d answeredDecoys) record(domain string, v *engine.Verdict) {
	if v.SMTPValid || v.Reason == engine.ReasonCatchAll {
		d.hashes.Add(hashBits(domain))
	}
}

func (d answeredDecoys) has(domain string) bool { return d.hashes.Has(hashBits(domain)) }

func hashBits(domain string) uint32 { return uint32(xxh3.HashString(domain) % decoyBits) }
