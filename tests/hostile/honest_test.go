package hostile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// honestRows is the number of mailboxes of one honest receiver. More than that is rare in a list.
const honestRows = 400

// TestControlsAreCheapAtHonestReceivers verifies many mailboxes of one honest receiver that the table does not know:
// the verdicts are right, and what is sent to tell it from a hostile one stays small. The mailboxes are in eight
// domains; the bounds allow a made-up recipient for each, a control for most connections (which are the more, the more
// is refused), and eight to ten more refusals, most of them of made-up recipients on connections that refused none,
// until ten have.
func TestControlsAreCheapAtHonestReceivers(t *testing.T) {
	for _, tt := range []struct{ missing, recipients, refusals int }{
		{honestRows / 20, 8 + 22, 8 + 8},
		{honestRows / 10, 8 + 37, 8 + 8},
		{honestRows / 5, 8 + 67, 8 + 10},
	} {
		t.Run(fmt.Sprintf("%d missing", tt.missing), func(t *testing.T) {
			mailboxes := func(w *world.World) []byte { return honestList(t, w, tt.missing) }
			verifyInBubble(t, mailboxes, verifyList, func(t *testing.T, internet *sim.Server, verdicts []verdict) {
				statuses := map[string]int{}
				for _, v := range verdicts {
					require.False(t, isFalse(v, internet.World.Truth(v.Email)), "%+v", v)
					statuses[v.Status]++
				}
				require.Equal(t, map[string]int{persona.StatusValid: honestRows - tt.missing,
					persona.StatusInvalid: tt.missing}, statuses)
				report := internet.Referee.Report()
				t.Logf("%d recipients, %d refusals", report.Recipients, report.Refused)
				require.Empty(t, report.By, "excesses")
				require.LessOrEqual(t, int(report.Recipients), honestRows+tt.recipients)
				require.LessOrEqual(t, int(report.Refused), tt.missing+tt.refusals)
			})
		})
	}
}

// honestList has mailboxes of one receiver with the limits of a small server, so many of which are missing.
func honestList(t *testing.T, w *world.World, missing int) []byte {
	left := map[persona.Mailbox]int{persona.Present: honestRows - missing, persona.Absent: missing}
	var rows [honestRows]string
	mx, n := "", 0
	for _, address := range w.Addresses("strict", 50*honestRows) {
		local, domain, _ := strings.Cut(address, "@")
		d, _ := w.Domain(domain)
		if mx == "" {
			mx = d.MX[0].Host
		}
		m := w.Mailbox(domain, local)
		truth := w.Truth(address)[0]
		if d.MX[0].Host != mx || left[m] == 0 || truth.Status == persona.StatusRisky ||
			truth.Status == persona.StatusUnknown {
			continue // another receiver, enough of these, a role, or a name that the receiver does not take
		}
		left[m]--
		rows[n*honestStep%honestRows] = address // missing ones stay spread over the list
		n++
	}
	require.Equal(t, honestRows, n, "too few mailboxes")
	return []byte("email\n" + strings.Join(rows[:], "\n") + "\n")
}

// honestStep has no factor in common with honestRows.
const honestStep = 147
