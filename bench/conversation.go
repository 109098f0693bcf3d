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

// converse measures our conversation on the errands of the floor, over as many connections at one time.
func (t *Trial) converse(ctx context.Context, in *internet, errands []errand, floor floorCount) error {
	if t.Talk == nil {
		return nil
	}
	t.say("the conversation alone")
	given := make([]Errand, len(errands))
	for i, e := range errands {
		given[i] = Errand{Host: e.name, At: netip.AddrPortFrom(e.host, uint16(in.smtpPort)), Recipients: e.transactions}
	}
	goOn := t.Talk(t.Dial, given)
	h := hands{t.defaultFloor(in).connections, func(ctx context.Context, i int) floorCount {
		heard := goOn(ctx, i)
		return floorCount{Recipients: heard.Recipients, Accepted: heard.Accepted, Judged: heard.Judged, Lost: heard.Lost, Connections: heard.Connections}
	}}
	count, err := h.repeat(ctx, len(errands))
	if err != nil {
		return fmt.Errorf("conversation: %w", err)
	}
	t.reportConversation(count, floor)
	return nil
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
