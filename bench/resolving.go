package bench

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Resolve is our own resolver without what stands around it, given by who may know it, as a Talk is. It asks one server, and
// runs for as long as use does; there, settle says where a domain takes its mail, for any number of domains at one time. The
// answer is one of the two below, or anything else.
type Resolve func(ctx context.Context, server netip.AddrPort, use func(settle func(ctx context.Context, domain string) string)) error

// What is to be heard of the names of the dns scenario.
const (
	SettledNullMX = "null_mx"   // it takes no mail (RFC 7505)
	SettledNoName = "no_domain" // it does not exist
)

// settledAs is what a resolver is to say of nameOf(i).
func settledAs(i int) string { return [2]string{SettledNoName, SettledNullMX}[i%2] }

// dnsRounds is how often the bare client and our resolver take turns, so that both see the same machine.
const dnsRounds = 3

// askInTurns has the bare client and our resolver ask for every name in turns, and reports both.
func (t *Trial) askInTurns(ctx context.Context, server *nameServer) (floor floorCount, err error) {
	var ours resolving
	t.say("a bare DNS client on one socket, and the resolver alone, in turns")
	for range dnsRounds {
		server.reset()
		count, err := dnsFloor(ctx, t.Dial, server.addr(), t.rows)
		if err != nil {
			return floor, err
		}
		floor.add(count)
		if t.Resolve == nil {
			continue
		}
		server.reset()
		if err := t.askResolver(ctx, server, &ours); err != nil {
			return floor, err
		}
	}
	t.metric("floor_questions_per_second", floor.rate(), "questions/s")
	t.metric("floor_cpu_per_question", perItem(floor.CPU, floor.Recipients), "us")
	t.Plots.Stages = append(t.Plots.Stages, Stage{Name: "bare client and name server, all names", Parts: []Part{{"bench", floor.CPU / dnsRounds}}})
	if t.Resolve != nil {
		t.reportResolving(&ours, floor)
	}
	return floor, nil
}

// resolving is what our resolver did in all rounds.
type resolving struct {
	floorCount                  // Recipients are the names of which the truth was heard
	asked, again, others, drops int64
}

// askResolver has a new resolver settle every name.
func (t *Trial) askResolver(ctx context.Context, server *nameServer, total *resolving) error {
	dropped := datagramsLost()
	err := t.Resolve(ctx, server.addr(), func(settle func(context.Context, string) string) {
		total.add(settleNames(ctx, t.rows, settle))
	})
	if err != nil {
		return fmt.Errorf("resolver: %w", err)
	}
	asked, again, others := server.tally()
	total.asked, total.again, total.others = total.asked+asked, total.again+again, total.others+others
	total.drops += datagramsLost() - dropped
	return ctx.Err()
}

func (t *Trial) reportResolving(r *resolving, floor floorCount) {
	t.metric("resolver_domains_asked", float64(r.asked), "")
	t.metric("resolver_asked_again", float64(r.again), "")
	t.metric("resolver_datagrams_lost", float64(r.drops), "")
	t.metric("resolver_asked_again_needlessly", float64(max(0, r.again-r.drops)), "")
	t.metric("resolver_other_questions", float64(r.others), "")
	t.metric("resolver_not_settled", float64(r.Lost), "")
	t.metric("resolver_domains_per_second", r.rate(), "domains/s")
	t.metric("resolver_cpu_per_domain", perItem(r.CPU, r.Recipients), "us")
	t.metric("resolver_ratio_to_floor", ratio(r.rate(), floor.rate()), "ratio")
	t.metric("resolver_cpu_ratio_to_floor", ratio(perItem(r.CPU, r.Recipients), perItem(floor.CPU, floor.Recipients)), "ratio")
	t.Plots.Stages = append(t.Plots.Stages, Stage{Name: "resolver and name server, all names", Parts: []Part{{"bench", r.CPU / dnsRounds}}})
	t.atLeast("resolver_ratio_to_floor", 0.6)
	t.atLeast("resolver_domains_asked", float64(dnsRounds*t.rows))
	t.atMost("resolver_asked_again_needlessly", 0)
	t.atMost("resolver_not_settled", 0)
}

// settleNames has every name settled, inFlight at one time, and counts those of which the truth was heard.
func settleNames(ctx context.Context, names int, settle func(context.Context, string) string) (count floorCount) {
	began, before := time.Now(), ownCPU()
	var next, settled atomic.Int64
	var askers sync.WaitGroup
	for range inFlight {
		askers.Go(func() {
			for i := int(next.Add(1)) - 1; i < names && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if settle(ctx, nameOf(i)) == settledAs(i) {
					settled.Add(1)
				}
			}
		})
	}
	askers.Wait()
	count.Recipients = int(settled.Load())
	count.Lost = names - count.Recipients
	count.Elapsed, count.CPU = time.Since(began), ownCPU()-before
	return count
}
