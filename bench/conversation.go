package bench

import (
	"context"
	"fmt"
	"net/netip"
)

// Errand is what one host is to be asked, over as many connections as it makes it take.
type Errand struct {
	Host       string // name of the mail host
	At         netip.AddrPort
	Recipients [][]string // by transaction; those of one transaction are of one domain
}

// Heard is what came of an errand.
type Heard struct {
	Recipients  int // that got a reply; decoys are not counted
	Accepted    int // of them
	Judged      int // of them, to a verdict
	Lost        int // that got no reply
	Connections int
}

// Talk is our own conversation with mail servers, given by who may know it: this package imports none of our rooms. It makes
// ready what a prober has in hand before it asks, addresses parsed and routes known, and gives back what goes on the i-th
// errand, any number of times and several of them at once: that alone is measured.
type Talk func(dial Dial, errands []Errand) (goOn func(ctx context.Context, i int) Heard)

// talkTurns is how often the bare client and our conversation take turns, so that both see the same machine.
const talkTurns = 5

// converse measures our conversation on the errands of the floor, over as many connections at one time, in turns with the floor.
func (t *Trial) converse(ctx context.Context, in *internet, errands []errand) (floor floorCount, err error) {
	if t.Talk == nil {
		return t.goBare(ctx, in, errands)
	}
	t.say("a bare pipelined SMTP client, and the conversation alone in turns")
	given := make([]Errand, len(errands))
	for i, e := range errands {
		given[i] = Errand{Host: e.name, At: netip.AddrPortFrom(e.host, uint16(in.smtpPort)), Recipients: e.transactions}
	}
	goOn := t.Talk(t.Dial, given)
	bare := t.defaultFloor(in)
	ours := hands{bare.connections, func(ctx context.Context, i int) floorCount {
		heard := goOn(ctx, i)
		return floorCount{Recipients: heard.Recipients, Accepted: heard.Accepted, Judged: heard.Judged, Lost: heard.Lost, Connections: heard.Connections}
	}}
	var count floorCount
	for range talkTurns {
		for _, side := range []struct {
			name  string
			hands hands
			count *floorCount
		}{{"floor", bare.hands(errands), &floor}, {"conversation", ours, &count}} {
			part, err := side.hands.repeat(ctx, len(errands))
			if err != nil {
				return floor, fmt.Errorf("%s: %w", side.name, err)
			}
			side.count.add(part)
		}
	}
	t.reportFloor(floor)
	t.reportConversation(count, floor)
	return floor, nil
}

func (t *Trial) reportConversation(count, floor floorCount) {
	t.metric("conversation_recipients", float64(count.Recipients), "")
	t.metric("conversation_not_judged", float64(count.Recipients-count.Judged+count.Lost), "")
	t.metric("conversation_connections", float64(count.Connections), "")
	t.metric("conversation_recipients_per_second", count.rate(), "rcpt/s")
	t.metric("conversation_cpu_per_recipient", perItem(count.CPU, count.Recipients), "us")
	t.metric("conversation_ratio_to_floor", ratio(count.rate(), floor.rate()), "ratio")
	t.metric("conversation_cpu_ratio_to_floor", ratio(perItem(count.CPU, count.Recipients), perItem(floor.CPU, floor.Recipients)), "ratio")
	t.atLeast("conversation_ratio_to_floor", 0.25)
	t.atMost("conversation_not_judged", 0)
}
