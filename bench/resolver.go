package bench

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"probity/bench/baseline"
	"probity/bench/process"
	"probity/bench/report"
)

// Resolve is our own resolver, supplied by the caller as a Conversation is. It queries one server and runs as long as
// use does. use gets a function resolve, which finds the mail route of a domain and may be called concurrently. The
// result is one of the two below, or any other text.
type Resolve func(ctx context.Context, server netip.AddrPort,
	use func(resolve func(ctx context.Context, domain string) string)) error

// The expected results of the names of the dns scenario.
const (
	ResolvedNullMX = "null_mx"   // it takes no mail (RFC 7505)
	ResolvedNoName = "no_domain" // it does not exist
)

// expectedResult is the expected result of nameOf(i).
func expectedResult(i int) string { return [2]string{ResolvedNoName, ResolvedNullMX}[i%2] }

// dnsRounds is how often the bare client and our resolver alternate, so that both see the same load of the machine.
const dnsRounds = 3

// measureResolver lets the bare client and our resolver alternately resolve every name, and reports both.
func measureResolver(ctx context.Context, t *Trial, server *nameServer) (bare baseline.Count, err error) {
	var ours resolverCount
	t.logProgress("a bare DNS client on one socket, and the resolver alone, in turns")
	for range dnsRounds {
		server.reset()
		count, err := baseline.AskNames(ctx, t.Dial, server.addr(), t.rows, nameOf)
		if err != nil {
			return bare, err
		}
		bare.Add(count)
		if t.Resolve == nil {
			continue
		}
		server.reset()
		dropped := process.DatagramsLost()
		err = t.Resolve(ctx, server.addr(), func(resolve func(context.Context, string) string) {
			ours.Add(resolveNames(ctx, t.rows, resolve))
		})
		if err != nil {
			return bare, fmt.Errorf("resolver: %w", err)
		}
		asked, repeated, others := server.counts()
		ours.asked, ours.repeated, ours.others = ours.asked+asked, ours.repeated+repeated, ours.others+others
		ours.drops += process.DatagramsLost() - dropped
		if ctx.Err() != nil {
			return bare, ctx.Err()
		}
	}
	t.Metric("floor_questions_per_second", bare.Rate(), "questions/s")
	t.Metric("floor_cpu_per_question", perItem(bare.CPU, bare.Recipients), "us")
	t.Plots.Stages = append(t.Plots.Stages, report.Stage{Name: "bare client and name server, all names",
		Parts: []report.Part{{Process: "bench", CPU: bare.CPU / dnsRounds}}})
	if t.Resolve == nil {
		return bare, nil
	}
	t.Metric("resolver_domains_asked", float64(ours.asked), "")
	t.Metric("resolver_asked_again", float64(ours.repeated), "")
	t.Metric("resolver_datagrams_lost", float64(ours.drops), "")
	t.Metric("resolver_asked_again_needlessly", float64(max(0, ours.repeated-ours.drops)), "")
	t.Metric("resolver_other_questions", float64(ours.others), "")
	t.Metric("resolver_not_settled", float64(ours.Lost), "")
	t.Metric("resolver_domains_per_second", ours.Rate(), "domains/s")
	t.Metric("resolver_cpu_per_domain", perItem(ours.CPU, ours.Recipients), "us")
	t.Metric("resolver_ratio_to_floor", ratio(ours.Rate(), bare.Rate()), "ratio")
	t.Metric("resolver_cpu_ratio_to_floor", ratio(perItem(ours.CPU, ours.Recipients),
		perItem(bare.CPU, bare.Recipients)), "ratio")
	t.Plots.Stages = append(t.Plots.Stages, report.Stage{Name: "resolver and name server, all names",
		Parts: []report.Part{{Process: "bench", CPU: ours.CPU / dnsRounds}}})
	t.AtLeast("resolver_ratio_to_floor", 0.6)
	t.AtLeast("resolver_domains_asked", float64(dnsRounds*t.rows))
	t.AtMost("resolver_asked_again_needlessly", 0)
	t.AtMost("resolver_not_settled", 0)
	return bare, nil
}

// resolverCount counts what our resolver did in all rounds.
type resolverCount struct {
	baseline.Count                 // Recipients are the names with the expected result
	asked, repeated, others, drops int64
}

// resolveNames resolves every name, baseline.MaxInFlight at one time, and counts those with the expected result.
func resolveNames(ctx context.Context, names int, resolve func(context.Context, string) string) (count baseline.Count) {
	start, before := time.Now(), process.OwnCPU()
	var next, resolved atomic.Int64
	var workers sync.WaitGroup
	for range baseline.MaxInFlight {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < names && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if resolve(ctx, nameOf(i)) == expectedResult(i) {
					resolved.Add(1)
				}
			}
		})
	}
	workers.Wait()
	count.Recipients = int(resolved.Load())
	count.Lost = names - count.Recipients
	count.Elapsed, count.CPU = time.Since(start), process.OwnCPU()-before
	return count
}
