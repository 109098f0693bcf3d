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

// resolve measures our resolver alone on all names, with as many under way as the floor has.
func (t *Trial) resolve(ctx context.Context, server *nameServer, floor floorCount) error {
	if t.Resolve == nil {
		return nil
	}
	t.say("the resolver alone")
	var count floorCount
	err := t.Resolve(ctx, server.addr(), func(settle func(context.Context, string) string) {
		count = settleNames(ctx, t.rows, settle)
	})
	if err != nil {
		return fmt.Errorf("resolver: %w", err)
	}
	asked, again, _ := server.tally()
	t.metric("resolver_domains_asked", float64(asked), "")
	t.metric("resolver_asked_again", float64(again), "")
	t.metric("resolver_not_settled", float64(count.Lost), "")
	t.metric("resolver_domains_per_second", count.rate(), "domains/s")
	t.metric("resolver_cpu_per_domain", perItem(count.CPU, count.Recipients), "us")
	t.metric("resolver_ratio_to_floor", ratio(count.rate(), floor.rate()), "ratio")
	t.metric("resolver_cpu_ratio_to_floor", ratio(perItem(count.CPU, count.Recipients), perItem(floor.CPU, floor.Recipients)), "ratio")
	t.atLeast("resolver_ratio_to_floor", 0.8)
	t.atLeast("resolver_domains_asked", float64(t.rows))
	t.atMost("resolver_not_settled", 0)
	return ctx.Err()
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
